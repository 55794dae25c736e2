package rest

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"

	"wirelab.dev/internal/stack"
)

// connections are those that the client has open. net/http can close those that
// are idle; a client that is closed ends those at work as well.
type connections struct {
	dialer *stack.Dialer

	mu     sync.Mutex
	open   map[*connection]bool
	closed bool
}

// connection keeps io.ReaderFrom, which net/http looks for.
type connection struct {
	tcpConn
	home *connections
}

type tcpConn interface {
	net.Conn
	io.ReaderFrom
}

// dial opens a connection for net/http.
func (c *connections) dial(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := c.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	opened := &connection{tcpConn: conn.(tcpConn), home: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		_ = conn.Close()
		return nil, net.ErrClosed
	}
	if c.open == nil {
		c.open = map[*connection]bool{}
	}
	c.open[opened] = true
	return opened, nil
}

func (c *connection) Close() error {
	c.home.mu.Lock()
	delete(c.home.open, c)
	c.home.mu.Unlock()
	return c.tcpConn.Close()
}

// closeAll closes what is open, and whatever will yet be opened.
func (c *connections) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open {
		_ = conn.tcpConn.Close()
	}
	clear(c.open)
}

// open opens n connections and leaves them idle in the pool. Each is opened by
// a request of its own, and none of these is sent before all have theirs: so
// none can take over the connection of another that is already done.
func (c *client) open(ctx context.Context, n int) error {
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
		group.Go(func() error { return c.ping(ctx) })
	}
	return group.Wait()
}

// ping makes the request that HTTP provides for asking nothing, OPTIONS *
// (RFC 9110, section 9.3.7). Any answer will do.
func (c *client) ping(ctx context.Context) error {
	request := &http.Request{
		Method: http.MethodOptions,
		URL:    &url.URL{Scheme: "http", Host: strings.TrimPrefix(c.base, "http://"), Path: "*"},
		Header: http.Header{},
	}
	response, err := c.http.Do(request.WithContext(ctx))
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	_, err = readWhole(nil, response.Body)
	return err
}
