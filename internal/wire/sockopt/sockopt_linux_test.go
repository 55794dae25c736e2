package sockopt

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// The truth that is put in: reno at both ends. What must come out: both sockets have it,
// the accepted one too, and the process's other sockets keep the machine's own.
func TestBothEndsHaveWhatWasAsked(t *testing.T) {
	const asked = "reno" // which every kernel has
	if err := Check(asked); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(With(t.Context(), Options{Congestion: asked}), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialer := net.Dialer{Control: Options{Congestion: asked}.Control()}
	client, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	for end, conn := range map[string]net.Conn{"client": client, "server": server} {
		if got := CongestionOf(conn.(*net.TCPConn)); got != asked {
			t.Errorf("the %s has %q, want %q", end, got, asked)
		}
	}
	if got := InUse(); !slices.Equal(got, []string{asked}) {
		t.Errorf("the process's sockets have %q", got)
	}
	other, err := Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if got := CongestionOf(other.(*net.TCPListener)); got == "" || got != Default() || !slices.Contains(Available(), got) {
		t.Errorf("a socket for which nothing was asked has %q, of %q", got, Available())
	}
}

func TestAnUnknownOneIsRefusedWithWhatThereIs(t *testing.T) {
	err := Check("none-such")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), " only ") || !strings.Contains(err.Error(), "reno") {
		t.Errorf("%v", err)
	}
	if _, err := Listen(With(t.Context(), Options{Congestion: "none-such"}), "tcp", "127.0.0.1:0"); err == nil {
		t.Error("a listener has it all the same")
	}
}

// Both ends' sockets have TCP_NODELAY as Go sets it, and not with Nagle's algorithm.
func TestNagleTakesNoDelayOffAtBothEnds(t *testing.T) {
	for _, o := range []Options{{}, {Nagle: true}} {
		listener, err := Listen(With(t.Context(), o), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close()
		client, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		if err := o.Connected(client); err != nil {
			t.Fatal(err)
		}
		server, err := listener.Accept()
		if err != nil {
			t.Fatal(err)
		}
		defer server.Close()
		for end, c := range map[string]net.Conn{"client": client, "server": server} {
			raw, err := c.(*net.TCPConn).SyscallConn()
			if err != nil {
				t.Fatal(err)
			}
			var noDelay int
			var refused error
			err = raw.Control(func(fd uintptr) {
				noDelay, refused = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NODELAY)
			})
			if err := errors.Join(err, refused); err != nil || (noDelay == 0) != o.Nagle {
				t.Errorf("%+v: the %s's TCP_NODELAY is %d: %v", o, end, noDelay, err)
			}
		}
	}
}
