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

// h1Pool is net/http's pool of HTTP/1.1 connections with a list of the open ones:
// net/http can close only idle connections, and Close must close busy ones too.
type h1Pool struct {
	*http.Transport
	plan   ClientPlan
	opened chan net.Conn // for net/http to take

	mu     sync.Mutex
	open   map[*h1Conn]bool
	closed bool
}

// h1Conn is a connection on the pool's list.
type h1Conn struct {
	net.Conn
	pool *h1Pool
}

func newH1Pool(ctx context.Context, plan ClientPlan) (*h1Pool, error) {
	size := max(plan.Connections, 1)
	p := &h1Pool{Transport: plan.newTransport(), plan: plan, opened: make(chan net.Conn, size), open: map[*h1Conn]bool{}}
	p.DialContext, p.DialTLSContext = p.openedOr(p.dial), p.openedOr(p.dialTLS)
	if err := p.openAll(ctx, size); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// dialFunc is the type of http.Transport's DialContext.
type dialFunc = func(ctx context.Context, network, address string) (net.Conn, error)

// openedOr returns a dialFunc that takes a connection from p.opened, or dials if
// there is none.
func (p *h1Pool) openedOr(dial dialFunc) dialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		select {
		case conn := <-p.opened:
			return conn, nil
		default:
			return dial(ctx, network, address)
		}
	}
}

func (p *h1Pool) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.plan.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &h1Conn{Conn: conn, pool: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	p.open[opened] = true
	return opened, nil
}

func (p *h1Pool) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn, err := p.plan.Dialer.ShakeHands(ctx, raw, p.plan.TLS)
	if err != nil {
		return nil, err // not conn: a nil *tls.Conn is a non-nil net.Conn
	}
	return conn, nil
}

// NetConn returns the connection that the dialer opened.
func (c *h1Conn) NetConn() net.Conn { return c.Conn }

// ReadFrom implements io.ReaderFrom, which net/http uses to send with sendfile or
// splice on TCP.
func (c *h1Conn) ReadFrom(r io.Reader) (int64, error) {
	if direct, ok := c.Conn.(io.ReaderFrom); ok {
		return direct.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

func (c *h1Conn) Close() error {
	c.pool.mu.Lock()
	delete(c.pool.open, c)
	c.pool.mu.Unlock()
	return c.Conn.Close()
}

// Close closes all connections, and those that are opened later.
func (p *h1Pool) Close() error {
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

// openAll opens n connections and leaves them idle. It does not let net/http dial:
// if ctx ended, net/http would report only that, and not the error of the dial.
func (p *h1Pool) openAll(ctx context.Context, n int) error {
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
	return p.handOver(ctx, n)
}

// handOver moves the n connections into net/http's pool with one request on each.
// No request is sent before every request has its connection, so that none
// reuses the connection of one that is finished.
func (p *h1Pool) handOver(ctx context.Context, n int) error {
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
