package stack_test

import (
	"net"
	"strings"
	"testing"

	"wirelab.dev/internal/wire/stack"
)

// TestPrimedConnectionsResume makes them from one configuration, as a client of
// the lifecycle Resumed does.
func TestPrimedConnectionsResume(t *testing.T) {
	const calls = 3
	address, config := admit(t, 4)
	var dialer stack.Dialer
	if err := stack.Prime(t.Context(), &dialer, address, config); err != nil {
		t.Fatal(err)
	}
	for range calls {
		conn, err := dialer.DialTLS(t.Context(), address, config)
		if err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	if counts := dialer.Counts(); counts.Full != 1 || counts.Resumed != calls || counts.Open != 0 {
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
	listener := stack.Admit(raw, server, 1)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		if conn, err := listener.Accept(); err == nil {
			_ = conn.Close()
		}
	}()
	err = stack.Prime(t.Context(), &stack.Dialer{}, raw.Addr().String(), client)
	if err == nil || !strings.Contains(err.Error(), "no TLS session") {
		t.Errorf("of a server without tickets: %v", err)
	}
}
