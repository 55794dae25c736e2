package stack

import (
	"context"
	"net"
	"sync/atomic"
)

// Dialer opens TCP connections and counts them. Every stack over TCP dials
// through one, so that "connections achieved" means the same for all.
type Dialer struct {
	opened, failed, open atomic.Int64
}

// DialContext has the form that net/http and grpc-go ask for.
func (d *Dialer) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		d.failed.Add(1)
		return nil, err
	}
	d.opened.Add(1)
	d.open.Add(1)
	return &countedConn{TCPConn: conn.(*net.TCPConn), dialer: d}, nil
}

// Counts returns what was achieved so far. Any goroutine may ask.
func (d *Dialer) Counts() ConnectionCounts {
	return ConnectionCounts{Opened: d.opened.Load(), Failed: d.failed.Load(), Open: d.open.Load()}
}

// countedConn embeds the concrete type, so that writev, sendfile and
// SyscallConn stay within reach of whoever looks for them.
type countedConn struct {
	*net.TCPConn
	dialer *Dialer
	closed atomic.Bool
}

func (c *countedConn) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.dialer.open.Add(-1)
	}
	return c.TCPConn.Close()
}
