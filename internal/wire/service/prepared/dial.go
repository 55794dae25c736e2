package prepared

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"slices"
	"sync"
	"syscall"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/http"
	"wirelab.dev/internal/wire/service"
)

// errClosed is the error of calls after Close.
var errClosed = errors.New("the client is closed")

// dialer opens the connections of a client, until that is closed.
type dialer struct {
	service.Plan
	tls     *tls.Config // nil: cleartext
	version httpwire.Version

	life    context.Context // ends with Close
	endLife context.CancelFunc
	told    sync.Once
}

func newDialer(plan service.Plan) (*dialer, error) {
	d := &dialer{Plan: plan, version: httpwire.HTTP2}
	if plan.Wire == service.HTTP1 {
		d.version = httpwire.HTTP1
	}
	var err error
	if d.tls, err = plan.TLSConfig(); err != nil {
		return nil, err
	}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// dial opens a connection, within a call's timeout.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	conn, err := d.connect(ctx)
	return conn, d.ifClosed(err)
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

func (d *dialer) connect(ctx context.Context) (net.Conn, error) {
	raw, err := d.Dialer.DialContext(ctx, d.Network, d.Address)
	if err != nil {
		return nil, err
	}
	if d.tls == nil {
		if _, is := raw.(syscall.Conn); is {
			return plainSocket{raw}, nil
		}
		return raw, nil
	}
	conn, err := d.Dialer.HandshakeTLS(ctx, raw, d.tls)
	if err != nil {
		return nil, err // not conn: a nil *tls.Conn is a non-nil net.Conn
	}
	// A server without ALPN chooses no protocol, and speaks HTTP/1.1.
	agreed := conn.ConnectionState().NegotiatedProtocol
	if d.version == httpwire.HTTP2 && !slices.Contains(httpwire.HTTP2.Protocols(), agreed) {
		_ = conn.Close()
		return nil, failure.As(failure.WrongProtocol, fmt.Errorf(
			"the server at %s does not speak HTTP/2: asked for h2, it chose the protocol %q", d.Address, agreed))
	}
	return conn, nil
}

// answered reports the protocol of the first answer.
func (d *dialer) answered(protocol string) {
	d.told.Do(func() { d.Dialer.UsedProtocol(protocol) })
}

// plainSocket is what the plan's dialer opened, a socket that it may count but whose bytes
// it does not change.
type plainSocket struct{ net.Conn }

// Socket implements batchio.Transparent.
func (s plainSocket) Socket() net.Conn { return s.Conn }
