package httpwire

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"

	"wirelab.dev/internal/wire/conn"
)

// tcpClient opens connections over TCP through the plan's dialer. It has a list of
// the open ones: net/http can close only idle connections, and Close must close busy
// ones too.
type tcpClient struct {
	plan      ClientPlan
	opener    conn.Opener
	transport *http.Transport
	sessions  *conn.SessionCache // nil, unless connections resume a session
	life      context.Context    // ends with Close
	endLife   context.CancelFunc

	mu   sync.Mutex
	open map[*tcpConn]struct{}
}

// tcpConn is a connection on the list.
type tcpConn struct {
	net.Conn
	client *tcpClient
}

// newTCPClient makes a client that speaks only the plan's version.
func newTCPClient(plan ClientPlan) *tcpClient {
	c := &tcpClient{plan: plan, open: map[*tcpConn]struct{}{}}
	c.life, c.endLife = context.WithCancel(context.Background())
	c.opener = conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address, TLS: plan.TLS, Wrap: c.track}
	if plan.Version == HTTP2 { // a server without ALPN chooses no protocol, and speaks HTTP/1.1
		c.opener.Protocol = "h2"
	}
	c.transport = c.newTransport(c.dial)
	if plan.Lifecycle == conn.Resumed && plan.TLS != nil {
		c.sessions = conn.NewSessionCache()
		plan.TLS.ClientSessionCache = c.sessions
	}
	return c
}

// protocols returns net/http's setting for this version alone.
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

// dial opens a connection. It ends when ctx ends or Close is called.
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

// track adds a connection to the list.
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

// newTransport makes a transport that dials with the function.
func (c *tcpClient) newTransport(dial func(context.Context) (net.Conn, error)) *http.Transport {
	t := &http.Transport{
		Protocols:          c.plan.Version.protocols(c.plan.TLS != nil),
		DialContext:        func(ctx context.Context, _, _ string) (net.Conn, error) { return dial(ctx) },
		DisableCompression: true,
	}
	t.DialTLSContext = t.DialContext
	if c.plan.Version == HTTP1 && c.plan.Lifecycle == conn.Kept {
		t.MaxConnsPerHost = max(c.plan.Connections, 1)
		t.MaxIdleConnsPerHost = t.MaxConnsPerHost
	}
	return t
}

// connect implements connector.
func (c *tcpClient) connect(ctx context.Context) (connection, error) {
	opened, err := c.transport.NewClientConn(ctx, c.plan.Scheme(), c.plan.Host())
	if err != nil {
		return nil, err // not opened: a nil *http.ClientConn is a non-nil connection
	}
	return opened, nil
}

// verify implements connector. It makes a request.
func (c *tcpClient) verify(ctx context.Context, opened connection) error {
	if err := c.plan.ping(ctx, opened); err != nil || c.sessions == nil {
		return err
	}
	return c.sessions.Await(ctx, ctx)
}

// waitError implements connector.
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

// ReadFrom implements io.ReaderFrom, which net/http uses to send with sendfile or
// splice on TCP.
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
