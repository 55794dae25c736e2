package fastgrpc

import (
	"context"
	"net"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc/keepalive"

	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// tcpUserTimeout is TCP_USER_TIMEOUT of <linux/tcp.h>, which package syscall lacks.
const tcpUserTimeout = 18

// TestUserTimeoutOfClients checks that only a client that pings sets it.
func TestUserTimeoutOfClients(t *testing.T) {
	_, target := startFast(t)
	for _, test := range []struct {
		p    keepalive.ClientParameters
		want int
	}{
		{keepalive.ClientParameters{}, 0},
		{keepalive.ClientParameters{Time: time.Minute}, 20_000},
		{keepalive.ClientParameters{Time: time.Minute, Timeout: 3 * time.Second}, 3_000},
	} {
		var nc net.Conn
		c := dialFast(t, target, WithKeepaliveParams(test.p), WithContextDialer(func(ctx context.Context, addr string) (_ net.Conn, err error) {
			nc, err = new(net.Dialer).DialContext(ctx, "tcp", addr)
			return nc, err
		}))
		if err := ping(testContext(t), c); err != nil {
			t.Fatal(err)
		}
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		got := -1
		_ = raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) })
		if err != nil || got != test.want {
			t.Errorf("%+v: TCP_USER_TIMEOUT is %d ms (%v), want %d", test.p, got, err, test.want)
		}
	}
}

// TestUserTimeout checks that a server's sockets have the TCP_USER_TIMEOUT of grpc-go.
func TestUserTimeout(t *testing.T) {
	for _, test := range []struct {
		p    keepalive.ServerParameters
		want int
	}{
		{keepalive.ServerParameters{}, 20_000},
		{keepalive.ServerParameters{Timeout: 3 * time.Second}, 3_000},
		{keepalive.ServerParameters{Time: lifetime.Forever}, 0},
	} {
		s := NewServer(KeepaliveParams(test.p))
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		client, err := net.Dial("tcp", lis.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		nc, err := lis.Accept()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := nc.(*net.TCPConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		if err := s.ServeConn(nc); err != nil {
			t.Fatal(err)
		}
		got := -1
		_ = raw.Control(func(fd uintptr) { got, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) })
		if err != nil || got != test.want {
			t.Errorf("%+v: TCP_USER_TIMEOUT is %d ms (%v), want %d", test.p, got, err, test.want)
		}
		_, _ = client.Close(), lis.Close()
		s.Stop()
	}
}
