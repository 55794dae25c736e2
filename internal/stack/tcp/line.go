package tcp

import (
	"context"
	"net"

	"wirelab.dev/internal/stack"
)

// line is what a client's connections are made from.
type line struct {
	*stack.Connector
	settings settings
	clock    *stack.FirstByte // of the only call; nil where connections are kept
}

func (l line) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.Open(ctx)
	if err != nil || l.clock == nil {
		return conn, err
	}
	return &firstByte{Conn: conn, clock: l.clock}, nil
}

// pool is a client that keeps its connections, and has opened them.
func (l line) pool(ctx context.Context, connections int) (stack.Client, error) {
	c := newClient(l, connections)
	if err := c.openAll(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// single is a client for one call.
func (l line) single(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
	l.clock = clock
	return l.pool(ctx, 1)
}

// firstByte tells the clock of the peer's first word. Nothing precedes an answer on
// this wire.
type firstByte struct {
	net.Conn
	clock *stack.FirstByte // nil once it has come
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && f.clock != nil {
		f.clock.Came()
		f.clock = nil
	}
	return n, err
}
