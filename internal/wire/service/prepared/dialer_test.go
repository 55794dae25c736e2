package prepared

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/wire/service"
)

// tally is a dialer that counts.
type tally struct {
	opened, failed, handshakes atomic.Int64
	protocol                   atomic.Value
}

func (t *tally) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil {
		t.failed.Add(1)
		return nil, err
	}
	t.opened.Add(1)
	return conn, nil
}

func (t *tally) HandshakeTLS(ctx context.Context, raw net.Conn, config *tls.Config) (*tls.Conn, error) {
	conn := tls.Client(raw, config)
	if err := conn.HandshakeContext(ctx); err != nil {
		_ = raw.Close()
		return nil, err
	}
	t.handshakes.Add(1)
	return conn, nil
}

func (t *tally) UsedProtocol(protocol string) { t.protocol.Store(protocol) }
func (t *tally) FirstByte(time.Duration)      {}

// patience is longer than anything that a test waits for.
const patience = 20 * time.Second

// open makes a client that ends with the test, and its dialer.
func open(t testing.TB, plan service.Plan) (service.Client, *tally) {
	t.Helper()
	client, counts, err := tryOpen(t, plan)
	if err != nil {
		t.Fatal(err)
	}
	return client, counts
}

func tryOpen(t testing.TB, plan service.Plan) (service.Client, *tally, error) {
	t.Helper()
	counts := &tally{}
	plan.Dialer = counts
	if plan.Connections == 0 {
		plan.Connections = 1
	}
	if plan.Callers == 0 {
		plan.Callers = 1
	}
	if plan.Network == "" {
		plan.Network = "tcp"
	}
	if plan.Timeout == 0 {
		plan.Timeout = patience
	}
	if plan.Authority == "" {
		plan.Authority = "test.example"
	}
	client, err := Open(t.Context(), plan)
	if err != nil {
		return nil, counts, err
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return client, counts, nil
}
