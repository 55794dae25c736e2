package tcp

import (
	"context"
	"net"

	"wirelab.dev/internal/stack"
)

// clientConfig is what a client needs to open its connections.
type clientConfig struct {
	*stack.Connector
	settings settings
	clock    *stack.FirstByte // times the only call; nil where connections are kept
}

func (cfg clientConfig) dial(ctx context.Context) (net.Conn, error) {
	conn, err := cfg.Open(ctx)
	if err != nil || cfg.clock == nil {
		return conn, err
	}
	return &firstByte{Conn: conn, clock: cfg.clock}, nil
}

// pool returns a client that keeps its connections, all of them open.
func (cfg clientConfig) pool(ctx context.Context, connections int) (stack.Client, error) {
	c := newClient(cfg, connections)
	if err := c.openAll(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// single returns a client for one call.
func (cfg clientConfig) single(ctx context.Context, clock *stack.FirstByte) (stack.Client, error) {
	cfg.clock = clock
	return cfg.pool(ctx, 1)
}

// firstByte reports the first byte that arrives to the clock. On this wire the
// answer comes first.
type firstByte struct {
	net.Conn
	clock *stack.FirstByte // nil once it has come
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && f.clock != nil {
		f.clock.Stop()
		f.clock = nil
	}
	return n, err
}
