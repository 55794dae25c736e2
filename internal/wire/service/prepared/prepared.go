// Package prepared carries calls whose requests are known before the window, at the least
// cost to the client: requests are encoded once, and answers are read only for their status
// and length.
//
//	Definition.Requests ── encode, once ──> request
//	                                           │ Client.Call
//	                                           v
//	 HTTP/1.1: a caller's goroutine writes it, waits, and parses the answer (http1.Parser)
//	 HTTP/2, gRPC: callers append frames to a shared connection (rpc/h2), which batchio
//	 writes many at a time; its reader counts the answers' bytes and wakes callers
//
// No call starts a timer. One goroutine, the watch, looks several times per timeout for
// calls that have taken too long or whose context has ended.
//
// [Can] reports whether this package can carry a plan's calls. Package library carries all
// others.
//
// Terms:
//
//   - A slot is a place for one connection after another. An HTTP/1.1 slot serves one caller
//     at a time; an HTTP/2 slot serves many at once.
//   - A caller's state is kept in its Answer between calls, with the slot it uses.
//   - A tick is one look of the watch. Times are counted in ticks.
//
// This package must not know when calls are sent, nor what a right answer is.
package prepared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"sync"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// Can returns nil if Open can carry the plan's calls. Otherwise the error names the reason,
// and wraps errors.ErrUnsupported.
func Can(plan service.Plan) error {
	why := ""
	switch {
	case plan.Wire != service.HTTP1 && plan.Wire != service.HTTP2 && plan.Wire != service.GRPC:
		why = fmt.Sprintf("the wire %s", plan.Wire)
	case plan.Keep:
		why = "answers that are looked at"
	case plan.Varied:
		why = "requests that are made while calls are sent"
	case plan.Lifecycle != conn.Kept:
		why = "one connection per call"
	}
	for i := range plan.Requests {
		switch r := &plan.Requests[i]; {
		case why != "":
		case plan.Wire == service.GRPC && r.Stream != (service.Stream{}):
			why = "calls with streams of messages"
		case plan.Wire == service.GRPC && len(r.Messages) > 1:
			why = "a unary call with several messages"
		case plan.Wire != service.GRPC && r.Method == http.MethodConnect:
			why = "the method CONNECT"
		}
	}
	if why == "" {
		return nil
	}
	return fmt.Errorf("prepared requests: not with %s: %w", why, errors.ErrUnsupported)
}

// Open makes a client of a plan. Its connections are open when it returns.
func Open(ctx context.Context, plan service.Plan) (service.Client, error) {
	if err := Can(plan); err != nil {
		return nil, err
	}
	dialer, err := newDialer(plan)
	if err != nil {
		return nil, err
	}
	var client engine
	if plan.Wire == service.HTTP1 {
		client, err = newH1Client(dialer)
	} else {
		client, err = newH2Client(dialer)
	}
	if err != nil {
		return nil, err
	}
	err = conn.OpenEach(ctx, dialer.places(), client.open)
	dialer.watch.start(client.look)
	if err != nil {
		_ = client.Close()
		return nil, err
	}
	return client, nil
}

// An engine is a client of one version of HTTP.
type engine interface {
	service.Client
	// open opens the connection of a slot.
	open(ctx context.Context, slot int) error
	// look ends the calls that are late or cancelled.
	look(now int64)
}

// requests holds the encoded form of a definition's requests.
type requests[T any] struct {
	first *service.Request // most definitions have one
	only  *T
	all   map[*service.Request]*T
}

func encodeAll[T any](d *service.Definition, encode func(*service.Definition, *service.Request) (*T, error)) (requests[T], error) {
	r := requests[T]{all: map[*service.Request]*T{}}
	for i := range d.Requests {
		one := &d.Requests[i]
		encoded, err := encode(d, one)
		if err != nil {
			return r, fmt.Errorf("request %d of %d (%s %s): %w", i+1, len(d.Requests), one.Method, one.Path, err)
		}
		if r.all[one] = encoded; r.first == nil {
			r.first, r.only = one, encoded
		}
	}
	return r, nil
}

func (r *requests[T]) find(request *service.Request) (*T, error) {
	if request == r.first {
		return r.only, nil
	}
	if encoded, found := r.all[request]; found {
		return encoded, nil
	}
	return nil, errors.New("the request is not in the definition: only the definition's requests are prepared")
}

// errClosed is the error of calls after Close.
var errClosed = errors.New("the client is closed")

// dialer opens the connections of a client, until that is closed.
type dialer struct {
	service.Plan
	opener conn.Opener
	watch  *watch

	life    context.Context // ends with Close
	endLife context.CancelFunc
	told    sync.Once
}

func newDialer(plan service.Plan) (*dialer, error) {
	d := &dialer{Plan: plan, watch: newWatch(plan.Timeout), opener: conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address}}
	if plan.Wire != service.HTTP1 { // a server without ALPN chooses no protocol, and speaks HTTP/1.1
		d.opener.Protocol = "h2"
	}
	var err error
	if d.opener.TLS, err = plan.TLSConfig(); err != nil {
		return nil, err
	}
	if d.opener.TLS == nil {
		d.opener.Wrap = func(raw net.Conn) net.Conn { return plainSocket{raw} }
	}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// places returns the number of places for connections.
func (d *dialer) places() int { return max(d.Connections, 1) }

// dial opens a connection, within a call's timeout.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	nc, err := d.opener.Open(ctx)
	return nc, d.ifClosed(err)
}

// within bounds what opens a connection by a call's timeout and the client's life.
func (d *dialer) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := d.Timeout
	if limit <= 0 {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(d.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// ifClosed says instead of an error that the client was closed, if that is why.
func (d *dialer) ifClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errClosed
	}
	return err
}

// answered reports the protocol of the first answer.
func (d *dialer) answered(protocol string) {
	d.told.Do(func() { d.Dialer.UsedProtocol(protocol) })
}

// A plainSocket is a socket that the plan's dialer opened. The dialer may count its bytes but
// does not change them.
type plainSocket struct{ net.Conn }

// Socket implements batchio.Transparent.
func (s plainSocket) Socket() net.Conn { return s.Conn }
