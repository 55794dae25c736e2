package prepared

import (
	"context"
	"errors"
	"math"
	"net"
	"sync"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// errClosed is the error of calls after Close.
var errClosed = errors.New("the client is closed")

// dialer opens the connections of a client, until that is closed.
type dialer struct {
	service.Plan
	opener conn.Opener

	life    context.Context // ends with Close
	endLife context.CancelFunc
	told    sync.Once
}

func newDialer(plan service.Plan) (*dialer, error) {
	d := &dialer{Plan: plan, opener: conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address}}
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
