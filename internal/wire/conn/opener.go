// Package conn opens client connections and counts them and their traffic. It is the only
// package of wirelab that connects to a measured server.
//
//  1. A Dialer opens TCP connections and does TLS handshakes. It counts and times connections
//     and handshakes, sums the traffic, and collects the negotiated parameters.
//  2. An Opener holds the server's address, the TLS configuration and the required
//     protocol. It opens connections through a Dialer.
//  3. PreopenedConns gives open connections to a library that dials by itself;
//     Credentials tell a gRPC library that the TLS handshake is done.
//  4. RoundRobin distributes calls over kept connections. The other lifecycles open a
//     connection for each call.
//
// The server's half is in handshake.go: LimitHandshakes bounds the concurrent handshakes.
//
// Glossary:
//
//	opened    connected by TCP or QUIC; the TLS handshake may still fail
//	source    the local address of a connection
//	session   data with which a client later resumes a TLS connection
//	traffic   bytes and packets as the kernel or QUIC counts them
//	record    a TLS record; counting records costs time, so only untimed calls are counted
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
	Network string // tcp or unix; empty means tcp
	Address string
	TLS     *tls.Config // nil means cleartext
	// Protocol is the protocol that the server must choose in the TLS handshake (RFC 7301). If it
	// is empty, the client accepts any protocol or none.
	Protocol string
	// Wrap, if set, wraps each connection below TLS. The wrapper must have a method NetConn.
	Wrap func(net.Conn) net.Conn
}

// Open opens a connection. With TLS it returns a *tls.Conn whose handshake is done. Without TLS it
// returns the wrapped connection, or a *CleartextConn if Wrap is nil.
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
		return nil, err // do not return conn: a nil *tls.Conn would be a non-nil net.Conn
	}
	if agreed := conn.ConnectionState().NegotiatedProtocol; o.Protocol != "" && agreed != o.Protocol {
		return nil, failure.WithClass(failure.WrongProtocol, errors.Join(fmt.Errorf(
			"the server at %s does not speak %s: it chose the protocol %q", o.Address, cmp.Or(map[string]string{"h2": "HTTP/2"}[o.Protocol], o.Protocol), agreed), conn.Close()))
	}
	return conn, nil
}

// OpenEach calls open with each number from 0 to n-1, at most 64 at a time: a listen backlog of
// 128 has room for them. The first error cancels the other calls, and is returned.
func OpenEach(ctx context.Context, n int, open func(ctx context.Context, i int) error) error {
	const atOnce = 64
	opening, ctx := errgroup.WithContext(ctx)
	opening.SetLimit(atOnce)
	for i := range n {
		opening.Go(func() error { return open(ctx, i) })
	}
	return opening.Wait()
}

// PreopenedConns holds connections that were opened before a library dials.
type PreopenedConns struct {
	dial   func(context.Context) (net.Conn, error)
	opened chan net.Conn
}

// PreopenConns opens n connections with dial.
func PreopenConns(ctx context.Context, n int, dial func(context.Context) (net.Conn, error)) (*PreopenedConns, error) {
	a := &PreopenedConns{dial: dial, opened: make(chan net.Conn, n)}
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

// Dial returns a preopened connection, or dials a new one if all were taken.
func (a *PreopenedConns) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case conn := <-a.opened:
		return conn, nil
	default:
		return a.dial(ctx)
	}
}

// Close closes the connections that Dial has not returned.
func (a *PreopenedConns) Close() {
	for {
		select {
		case conn := <-a.opened:
			_ = conn.Close()
		default:
			return
		}
	}
}

// A Lifecycle says whether calls share connections, and how a new connection begins.
type Lifecycle int

// The lifecycles.
const (
	Kept    Lifecycle = iota // connections stay open, and many calls use each
	Fresh                    // each call opens a connection; with TLS it does a full handshake
	Resumed                  // each call opens a connection that resumes an earlier TLS session
	Early                    // like Resumed, but the request is sent as QUIC's early data (RFC 9001, section 4.6)
)

// LifecycleOf returns the lifecycle that a connection mode requests.
func LifecycleOf(mode scenario.ConnectionMode) Lifecycle {
	return map[scenario.ConnectionMode]Lifecycle{scenario.New: Fresh, scenario.Resumed: Resumed, scenario.Early: Early}[mode]
}

// RoundRobin returns the elements of All one after another. Set All first. After that, any
// goroutine may call Next.
type RoundRobin[T any] struct {
	All  []T
	turn atomic.Uint64
}

// Next returns the next element.
func (t *RoundRobin[T]) Next() T { return t.All[t.turn.Add(1)%uint64(len(t.All))] }
