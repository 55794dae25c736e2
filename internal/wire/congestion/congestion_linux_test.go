package congestion

import (
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
)

// The truth that is put in: reno at both ends. What must come out: both sockets have it,
// the accepted one too, and the process's other sockets keep the machine's own.
func TestBothEndsHaveWhatWasAsked(t *testing.T) {
	const asked = "reno" // which every kernel has
	if err := Check(asked); err != nil {
		t.Fatal(err)
	}
	listener, err := Listen(WithName(t.Context(), asked), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialer := net.Dialer{Control: Control(asked)}
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
		if got := NameOf(conn.(*net.TCPConn)); got != asked {
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
	if got := NameOf(other.(*net.TCPListener)); got == "" || got != Default() || !slices.Contains(Available(), got) {
		t.Errorf("a socket for which nothing was asked has %q, of %q", got, Available())
	}
}

func TestAnUnknownOneIsRefusedWithWhatThereIs(t *testing.T) {
	err := Check("none-such")
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), " only ") || !strings.Contains(err.Error(), "reno") {
		t.Errorf("%v", err)
	}
	if _, err := Listen(WithName(t.Context(), "none-such"), "tcp", "127.0.0.1:0"); err == nil {
		t.Error("a listener has it all the same")
	}
}
