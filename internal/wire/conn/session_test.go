package conn

import (
	"net"
	"strings"
	"testing"
)

// TestPrimedConnectionsResume makes them from one configuration, as a client of
// the lifecycle Resumed does.
func TestPrimedConnectionsResume(t *testing.T) {
	const calls = 3
	address, config := admit(t, 4)
	opener := Opener{Dialer: &Dialer{}, Address: address, TLS: config}
	if err := opener.PrimeSession(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range calls {
		conn, err := opener.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if counts := opener.Dialer.Counts(); counts.Full != 1 || counts.Resumed != calls || counts.Open != 0 {
		t.Errorf("primed, then %d connections: %+v", calls, counts)
	}
}

func TestPrimeFailsWithoutTicket(t *testing.T) {
	server, client := ends(t)
	server.SessionTicketsDisabled = true
	raw, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listener := LimitHandshakes(raw, server, 1)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	err = (&Opener{Dialer: &Dialer{}, Address: raw.Addr().String(), TLS: client}).PrimeSession(t.Context())
	if err == nil || !strings.Contains(err.Error(), "no TLS session") {
		t.Errorf("of a server without tickets: %v", err)
	}
}
