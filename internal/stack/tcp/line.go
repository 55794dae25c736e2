package tcp

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"wirelab.dev/internal/stack"
)

// line is what a client's connections are made from.
type line struct {
	settings settings
	target   stack.Target
	dialer   *stack.Dialer
	tls      *tls.Config // nil: cleartext
	begin    time.Time   // of the only call; zero where connections are kept
}

// newLine prepares connections to the target.
func newLine(set settings, target stack.Target) (line, error) {
	l := line{settings: set, target: target, dialer: stack.DialerOf(target)}
	if !set.security.On {
		return l, nil
	}
	var err error
	l.tls, err = set.security.ClientConfig(target.Address, target.Trust)
	return l, err
}

// rehearse begins a connection as the first call will, so that a client whose
// calls must fail is never made. Where they are to resume a TLS session, this
// brings it.
func (l line) rehearse(ctx context.Context) error {
	if l.target.Lifecycle == stack.Resumed {
		return stack.Prime(ctx, l.dialer, l.target.Address, l.tls)
	}
	conn, err := l.open(ctx)
	if err != nil {
		return err
	}
	return conn.Close()
}

func (l line) dial(ctx context.Context) (net.Conn, error) {
	conn, err := l.open(ctx)
	if err != nil || l.begin.IsZero() {
		return conn, err
	}
	return &firstByte{Conn: conn, begin: l.begin, dialer: l.dialer}, nil
}

func (l line) open(ctx context.Context) (net.Conn, error) {
	if l.tls != nil {
		conn, err := l.dialer.DialTLS(ctx, l.target.Address, l.tls)
		if err != nil {
			return nil, err
		}
		return conn, nil
	}
	conn, err := l.dialer.DialContext(ctx, "tcp", l.target.Address)
	if err != nil {
		return nil, err
	}
	return stack.Cleartext(conn), nil
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

// single is a client for one call, which begins now.
func (l line) single(ctx context.Context) (stack.Client, error) {
	l.begin = time.Now()
	return l.pool(ctx, 1)
}

// firstByte takes the time until the peer's first word. Nothing precedes an
// answer on this wire.
type firstByte struct {
	net.Conn
	begin  time.Time
	dialer *stack.Dialer // nil once it has come
}

func (f *firstByte) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if n > 0 && f.dialer != nil {
		f.dialer.FirstByte(time.Since(f.begin))
		f.dialer = nil
	}
	return n, err
}
