// Package conn opens client connections and counts what they do. It is the only package
// of the laboratory that dials a server which is measured.
//
//  1. A Dialer opens TCP connections and does TLS handshakes on them. It counts and times
//     both, sums the connections' traffic, and collects what they negotiated.
//  2. An Opener holds the server's address, the TLS configuration and the protocol that
//     the server must agree to. It opens connections through a Dialer.
//  3. Ahead gives connections that were opened before to a library that dials by itself;
//     Credentials tell a gRPC library that their handshake is done.
//  4. Turns distributes calls over kept connections. The other lifecycles open a
//     connection for each call.
//
// The server's half is in handshake.go: Admit bounds the handshakes that a server does at
// once.
//
// Glossary:
//
//	opened    TCP or QUIC is connected; TLS may still fail
//	source    the address that a connection comes from
//	session   a client's data for resuming a TLS connection later
//	traffic   bytes and packets as the kernel or QUIC counts them
//	record    a TLS record; counting them costs time, so only untimed calls are counted
//
// This package must not know what is sent over the connections, nor when.
package conn

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/scenario"
)

// An Opener opens connections to one server. Goroutines may use it concurrently.
type Opener struct {
	Dialer  *Dialer
	Network string // tcp or unix; empty: tcp
	Address string
	TLS     *tls.Config // nil: cleartext
	// Protocol is the one that the server must agree to over TLS (RFC 7301). If it is empty, any
	// protocol or none will do.
	Protocol string
	// Wrap, if set, wraps each connection below TLS. The result must have a method NetConn.
	Wrap func(net.Conn) net.Conn
}

// Open opens a connection: with TLS a *tls.Conn whose handshake is done, without TLS the wrapped
// connection, or a *CleartextConn if Wrap is nil.
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
			"the server at %s does not speak %s: it chose the protocol %q", o.Address, cmp.Or(map[string]string{"h2": "HTTP/2"}[o.Protocol], o.Protocol), agreed), conn.Close()))
	}
	return conn, nil
}

// OpenEach calls open with the numbers from 0 to n-1, 64 at a time, which fit into a listen
// backlog of 128. The first error cancels the context of the other calls, and is returned.
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

// A Lifecycle says whether connections outlive calls, and how a new one begins.
type Lifecycle int

// The lifecycles.
const (
	Kept    Lifecycle = iota // opened once, used by call after call
	Fresh                    // one per call, with TLS after a full handshake
	Resumed                  // one per call, resuming a TLS session that the client got before its first call
	Early                    // the same, with the request as QUIC's early data (RFC 9001, section 4.6)
)

// LifecycleOf returns the lifecycle of a connection mode.
func LifecycleOf(mode scenario.ConnectionMode) Lifecycle {
	return map[scenario.ConnectionMode]Lifecycle{scenario.New: Fresh, scenario.Resumed: Resumed, scenario.Early: Early}[mode]
}

// Turns gives out the elements of All in turn. Goroutines may call Next at once, when All is set.
type Turns[T any] struct {
	All  []T
	turn atomic.Uint64
}

// Next returns the element whose turn it is.
func (t *Turns[T]) Next() T { return t.All[t.turn.Add(1)%uint64(len(t.All))] }
