package httpwire

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
)

// pool keeps HTTP/1.1 connections: it is net/http's, with a list of what is
// open. net/http can close those that are idle; a client that is closed ends
// those at work as well.
type pool struct {
	*http.Transport
	plan ClientPlan

	mu     sync.Mutex
	open   map[*pooled]bool
	closed bool
}

// pooled keeps io.ReaderFrom, which net/http looks for.
type pooled struct {
	tcpConn
	home *pool
}

type tcpConn interface {
	net.Conn
	io.ReaderFrom
}

func newPool(ctx context.Context, plan ClientPlan) (*pool, error) {
	size := max(plan.Connections, 1)
	p := &pool{Transport: plan.newTransport(), plan: plan, open: map[*pooled]bool{}}
	p.MaxConnsPerHost, p.MaxIdleConnsPerHost = size, size
	p.DialContext, p.DialTLSContext = p.dial, p.dialTLS
	if err := p.fill(ctx, size); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

func (p *pool) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := p.plan.Dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &pooled{tcpConn: conn.(tcpConn), home: p}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_ = conn.Close()
		return nil, errClosed
	}
	p.open[opened] = true
	return opened, nil
}

// dialTLS is the dialer's own DialTLS on a connection of the list.
func (p *pool) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := p.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn := tls.Client(raw, p.plan.TLS)
	begin := time.Now()
	if err := conn.HandshakeContext(ctx); err != nil {
		p.plan.Dialer.HandshakeFailed()
		_ = raw.Close()
		return nil, err
	}
	p.plan.Dialer.Shaken(time.Since(begin), conn.ConnectionState().DidResume, false, false)
	return conn, nil
}

func (c *pooled) Close() error {
	c.home.mu.Lock()
	delete(c.home.open, c)
	c.home.mu.Unlock()
	return c.tcpConn.Close()
}

// Close closes what is open, and whatever will yet be opened.
func (p *pool) Close() error {
	p.mu.Lock()
	p.closed = true
	for conn := range p.open {
		_ = conn.tcpConn.Close()
	}
	clear(p.open)
	p.mu.Unlock()
	p.CloseIdleConnections()
	return nil
}

// fill opens n connections and leaves them idle. Each is opened by a request of
// its own, and none of these is sent before all have theirs: so none can take
// over the connection of another that is already done.
func (p *pool) fill(ctx context.Context, n int) error {
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
