package httpwire

import (
	"context"
	"crypto/tls"
	"net"
	"testing"
	"time"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/http/quicsocket"
)

// sourceIDBytes is the length of the connection ID that a long header's sender has
// chosen for itself (RFC 8999, section 5.1).
func sourceIDBytes(t *testing.T, packet []byte) int {
	t.Helper()
	const version = 5 // first byte and version
	if len(packet) <= version || packet[0]&0x80 == 0 {
		t.Fatalf("a packet of %d bytes has no long header", len(packet))
	}
	theirs := int(packet[version])
	if len(packet) <= version+1+theirs {
		t.Fatalf("a packet of %d bytes ends in its header", len(packet))
	}
	return int(packet[version+1+theirs])
}

// TestH3ConnectionIDs looks at the first packets of both ends: IDs that are
// short would sometimes be the same, and long ones look made up by a client to admission.
func TestH3ConnectionIDs(t *testing.T) {
	between, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = between.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = NewClient(ctx, ClientPlan{
			Version: HTTP3, Address: between.LocalAddr().String(), Dialer: &conn.Dialer{},
			TLS: &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13},
		})
	}()
	defer func() { cancel(); <-left }()

	address, _ := h3EchoServer(t, h3Identity(t), 0)
	server, err := net.ResolveUDPAddr("udp", address)
	if err != nil {
		t.Fatal(err)
	}
	_ = between.SetReadDeadline(time.Now().Add(patience))
	packet := make([]byte, 2048)
	for seen := map[string]bool{}; len(seen) < 2; {
		n, from, err := between.ReadFromUDP(packet)
		if err != nil {
			t.Fatal(err)
		}
		side := "server"
		if from.Port != server.Port {
			side = "client"
			if _, err := between.WriteToUDP(packet[:n], server); err != nil {
				t.Fatal(err)
			}
		}
		seen[side] = true
		if got := sourceIDBytes(t, packet[:n]); got != quicsocket.ConnectionIDBytes || got < 7 {
			t.Errorf("the %s's connection ID has %d bytes, want %d", side, got, quicsocket.ConnectionIDBytes)
		}
	}
}
