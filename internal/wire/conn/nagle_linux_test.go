package conn

import (
	"net"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/wire/sockopt"
)

// The sockets of a dialer have the options that were asked for.
func TestADialersSocketsHaveItsOptions(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	for _, nagle := range []bool{false, true} {
		d := Dialer{Socket: sockopt.Options{Congestion: "reno", Nagle: nagle}, Sources: 2} // the second source address has a control of its own
		dialed, err := d.DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer dialed.Close()
		raw, err := dialed.(*countedConn).SyscallConn()
		if err != nil {
			t.Fatal(err)
		}
		var noDelay int
		if controlErr := raw.Control(func(fd uintptr) { noDelay, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY) }); controlErr != nil || err != nil {
			t.Fatal(controlErr, err)
		}
		if got := sockopt.CongestionOf(dialed.(*countedConn).TCPConn); got != "reno" || (noDelay == 0) != nagle {
			t.Errorf("nagle %v: congestion control %q, TCP_NODELAY %d", nagle, got, noDelay)
		}
	}
}
