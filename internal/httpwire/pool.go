package httpwire

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// pool keeps HTTP/1.1 connections: it is net/http's, with a list of what is
// open. net/http can close those that are idle; a client that is closed ends
// those at work as well.
type pool struct {
	*http.Transport
	plan   ClientPlan
	opened chan net.Conn // for net/http to take

	mu     sync.Mutex
	open   map[*pooled]bool
	closed bool
}

// pooled is a connection on the list.
type pooled struct {
	net.Conn
	home *pool
}

func newPool(ctx context.Context, plan ClientPlan) (*pool, error) {
	size := max(plan.Connections, 1)
	p := &pool{Transport: plan.newTransport(), plan: plan, opened: make(chan net.Conn, size), open: map[*pooled]bool{}}
	p.DialContext, p.DialTLSContext = p.takeOr(p.dial), p.takeOr(p.dialTLS)
	if err := p.fill(ctx, size); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// dialFunc is what net/http opens a connection by.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// takeOr prefers what is open already.
func (p *pool) takeOr(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case conn := <-p.opened:
			return conn, nil
		default:
			return dial(ctx, network, address)
		}
	}
}

func (p *pool) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.plan.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &pooled{Conn: conn, home: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	p.open[opened] = true
	return opened, nil
}

func (p *pool) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn, err := p.plan.Dialer.ShakeHands(ctx, raw, p.plan.TLS)
	if err != nil {
		return nil, err // and not a nil *tls.Conn
	}
	return conn, nil
}

// NetConn is what the dialer opened.
func (c *pooled) NetConn() net.Conn { return c.Conn }

// ReadFrom is for net/http, which looks for it: TCP has short cuts there.
func (c *pooled) ReadFrom(r io.Reader) (int64, error) {
	if short, has := c.Conn.(io.ReaderFrom); has {
		return short.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

func (c *pooled) Close() error {
	c.home.mu.Lock()
	delete(c.home.open, c)
	c.home.mu.Unlock()
	return c.Conn.Close()
}

// Close closes what is open, and whatever will yet be opened.
func (p *pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		_ = conn.Conn.Close()
	}
	clear(p.open)
	p.mu.Unlock()
	p.CloseIdleConnections()
	return nil
}

// fill opens n connections and leaves them idle. They are opened here, since
// net/http would report only that ctx has ended and not what was met until then.
func (p *pool) fill(ctx context.Context, n int) error {
	dial := p.dial
	if p.plan.TLS != nil {
		dial = p.dialTLS
	}
	opening, dialCtx := errgroup.WithContext(ctx)
	for range n {
		opening.Go(func() error {
			conn, err := dial(dialCtx, "tcp", p.plan.Address)
			if err == nil {
				p.opened <- conn
			}
			return err
		})
	}
	if err := opening.Wait(); err != nil {
		return err
	}
	return p.hand(ctx, n)
}

// hand gives net/http the connections, each by a request of its own. None of
// these is sent before all have theirs: so none can take over the connection of
// another that is already done.
func (p *pool) hand(ctx context.Context, n int) error {
	group, ctx := errgroup.WithContext(ctx)
	var missing atomic.Int64
	missing.Store(int64(n))
	complete := make(chan struct{})
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			if missing.Add(-1) == 0 {
				close(complete)
			}
			select {
			case <-complete:
			case <-ctx.Done():
			}
		},
	})
	for range n {
		group.Go(func() error { return p.plan.pingOnce(ctx, p.Transport) })
	}
	return group.Wait()
}
