package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/base/failure"
)

// An Opener opens connections to one server. Goroutines may use it concurrently.
type Opener struct {
	Dialer  *Dialer
	Network string // tcp or unix; empty: tcp
	Address string
	TLS     *tls.Config // nil: cleartext
	// Protocol is the protocol that the server must agree to over TLS (RFC 7301). Empty:
	// any, or none.
	Protocol string
	// Wrap, if set, wraps each connection below TLS. The wrapper must have a method
	// NetConn, as tls.Conn has.
	Wrap func(net.Conn) net.Conn
}

// Open opens a connection. With TLS the handshake is done and the result is a *tls.Conn.
// Without TLS the result is the wrapped connection, or a *CleartextConn if Wrap is nil.
func (o *Opener) Open(ctx context.Context) (net.Conn, error) {
	raw, err := o.Dialer.DialContext(ctx, cmp.Or(o.Network, "tcp"), o.Address)
	if err != nil {
		return nil, err
	}
	switch {
	case o.Wrap != nil:
		raw = o.Wrap(raw)
	case o.TLS == nil:
		raw = Cleartext(raw)
	}
	if o.TLS == nil {
		return raw, nil
	}
	conn, err := o.Dialer.HandshakeTLS(ctx, raw, o.TLS)
	if err != nil {
		return nil, err // not conn: a nil *tls.Conn is a non-nil net.Conn
	}
	if agreed := conn.ConnectionState().NegotiatedProtocol; o.Protocol != "" && agreed != o.Protocol {
		return nil, failure.As(failure.WrongProtocol, errors.Join(fmt.Errorf(
			"the server at %s does not speak %s: it chose the protocol %q", o.Address, protocolName(o.Protocol), agreed), conn.Close()))
	}
	return conn, nil
}

// protocolName returns the name of a protocol in messages.
func protocolName(alpn string) string {
	if alpn == "h2" {
		return "HTTP/2"
	}
	return alpn
}

// OpenEach calls open with the numbers from 0 to n-1, up to 64 calls at the same time, so
// that their connections fit into a listen backlog of 128. It returns the first error, and
// then cancels the context of the other calls.
func OpenEach(ctx context.Context, n int, open func(ctx context.Context, i int) error) error {
	const atOnce = 64
	opening, ctx := errgroup.WithContext(ctx)
	opening.SetLimit(atOnce)
	for i := range n {
		opening.Go(func() error { return open(ctx, i) })
	}
	return opening.Wait()
}

// An Ahead holds connections that were opened before a library dials.
type Ahead struct {
	dial   func(context.Context) (net.Conn, error)
	opened chan net.Conn
}

// OpenAhead opens n connections with dial.
func OpenAhead(ctx context.Context, n int, dial func(context.Context) (net.Conn, error)) (*Ahead, error) {
	a := &Ahead{dial: dial, opened: make(chan net.Conn, n)}
	err := OpenEach(ctx, n, func(ctx context.Context, _ int) error {
		conn, err := dial(ctx)
		if err == nil {
			a.opened <- conn
		}
		return err
	})
	if err != nil {
		a.Close()
		return nil, err
	}
	return a, nil
}

// Dial returns one of those connections, or a new one if all were taken.
func (a *Ahead) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case conn := <-a.opened:
		return conn, nil
	default:
		return a.dial(ctx)
	}
}

// Close closes the connections that were not taken.
func (a *Ahead) Close() {
	for {
		select {
		case conn := <-a.opened:
			_ = conn.Close()
		default:
			return
		}
	}
}
