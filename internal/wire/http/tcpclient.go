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

	"wirelab.dev/internal/wire/conn"
)

// tcpClient opens TCP connections through the plan's dialer. It keeps a list of them, because
// net/http closes only idle connections.
type tcpClient struct {
	plan      ClientPlan
	opener    conn.Opener
	transport *http.Transport
	sessions  *conn.SessionCache // nil, unless connections resume a session
	life      context.Context    // ends when Close is called
	endLife   context.CancelFunc

	mu   sync.Mutex
	open map[*tcpConn]struct{}
}

type tcpConn struct {
	net.Conn
	client *tcpClient
}

func newTCPClient(plan ClientPlan) *tcpClient {
	c := &tcpClient{plan: plan, open: map[*tcpConn]struct{}{}}
	c.life, c.endLife = context.WithCancel(context.Background())
	c.opener = conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address, TLS: plan.TLS, Wrap: c.track}
	if plan.Version == HTTP2 { // a server without ALPN chooses no protocol and speaks HTTP/1.1
		c.opener.Protocol = "h2"
	}
	c.transport = c.newTransport(c.dial)
	if plan.Lifecycle == conn.Resumed && plan.TLS != nil {
		c.sessions = conn.NewSessionCache()
		plan.TLS.ClientSessionCache = c.sessions
	}
	return c
}

// protocols returns net/http's setting that allows only this version.
func (v Version) protocols(secure bool) *http.Protocols {
	protocols := new(http.Protocols)
	switch {
	case v == HTTP1:
		protocols.SetHTTP1(true)
	case secure:
		protocols.SetHTTP2(true)
	default:
		protocols.SetUnencryptedHTTP2(true)
	}
	return protocols
}

func (c *tcpClient) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	opened, err := c.opener.Open(ctx)
	if c.life.Err() == nil {
		return opened, err
	}
	if err == nil {
		_ = opened.Close()
	}
	return nil, errClosed
}

func (c *tcpClient) track(raw net.Conn) net.Conn {
	opened := &tcpConn{Conn: raw, client: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		_ = raw.Close()
	} else {
		c.open[opened] = struct{}{}
	}
	return opened
}

func (c *tcpClient) newTransport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		Protocols:          c.plan.Version.protocols(c.plan.TLS != nil),
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true,
	}
	t.DialTLSContext = t.DialContext
	if c.plan.Version == HTTP1 && c.plan.Lifecycle == conn.Kept && !c.plan.Silent { // a silent client has its own pool
		t.MaxConnsPerHost = max(c.plan.Connections, 1)
		t.MaxIdleConnsPerHost = t.MaxConnsPerHost
	}
	return t
}

func (c *tcpClient) connect(ctx context.Context) (connection, error) {
	host := c.plan.Host()
	if c.plan.Network == "unix" {
		host += ":80" // net/http wants a port, and the dialer ignores it
	}
	opened, err := c.transport.NewClientConn(ctx, c.plan.Scheme(), host)
	if err != nil {
		return nil, err // do not return opened: a nil *http.ClientConn would be a non-nil connection
	}
	return opened, nil
}

// verify implements connector. It sends a request.
func (c *tcpClient) verify(ctx context.Context, opened connection) error {
	if err := c.plan.sendOptions(ctx, opened); err != nil || c.sessions == nil {
		return err
	}
	return c.sessions.Await(ctx, ctx)
}

func (*tcpClient) waitError(err error) error { return err }

// Close closes all connections.
func (c *tcpClient) Close() error {
	c.mu.Lock()
	c.endLife()
	for opened := range c.open {
		_ = opened.Conn.Close()
	}
	clear(c.open)
	c.mu.Unlock()
	c.transport.CloseIdleConnections()
	return nil
}

// NetConn returns the connection that the dialer opened.
func (c *tcpConn) NetConn() net.Conn { return c.Conn }

// ReadFrom lets net/http send with sendfile or splice on TCP.
func (c *tcpConn) ReadFrom(r io.Reader) (int64, error) {
	if direct, ok := c.Conn.(io.ReaderFrom); ok {
		return direct.ReadFrom(r)
	}
	return io.Copy(struct{ io.Writer }{c.Conn}, r)
}

func (c *tcpConn) Close() error {
	c.client.mu.Lock()
	delete(c.client.open, c)
	c.client.mu.Unlock()
	return c.Conn.Close()
}

// newTCPRoundTripper opens the kept connections, or returns a RoundTripper without kept
// connections.
func newTCPRoundTripper(ctx context.Context, client *tcpClient) (http.RoundTripper, error) {
	switch plan := client.plan; {
	case plan.Lifecycle != conn.Kept:
		return newSingleUseRoundTripper(ctx, plan, client)
	case plan.Version == HTTP2 || plan.Silent: // a silent client measures a service, and counts every request
		return openPool(ctx, plan, client)
	}
	// Connections are opened before net/http needs them, because net/http's error does not include
	// a dial's error if ctx ends during the dial.
	size := max(client.plan.Connections, 1)
	ahead, err := conn.PreopenConns(ctx, size, client.dial)
	if err != nil {
		return nil, err
	}
	client.transport = client.newTransport(ahead.Dial)
	return client.transport, client.fillPool(ctx, size)
}

// fillPool moves the n connections of HTTP/1.1 into net/http's pool, with one request on each. It
// sends the requests only when each has its own connection.
func (c *tcpClient) fillPool(ctx context.Context, n int) error {
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
		group.Go(func() error { return c.plan.sendOptions(ctx, c.transport) })
	}
	return group.Wait()
}
