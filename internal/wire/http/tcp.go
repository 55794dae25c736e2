package httpwire

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
)

// tcpClient opens connections over TCP through the plan's dialer. It has a list of
// the open ones: net/http can close only idle connections, and Close must close busy
// ones too.
type tcpClient struct {
	plan      ClientPlan
	transport *http.Transport
	sessions  *SessionCache   // nil, unless connections resume a session
	life      context.Context // ends with Close
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
	c.transport = &http.Transport{
		Protocols:          plan.Version.protocols(plan.TLS != nil),
		DialContext:        c.dial,
		DialTLSContext:     c.dialTLS,
		DisableCompression: true,
	}
	if plan.Version == HTTP1 && plan.Lifecycle == Kept {
		c.transport.MaxConnsPerHost = max(plan.Connections, 1)
		c.transport.MaxIdleConnsPerHost = c.transport.MaxConnsPerHost
	}
	if plan.Lifecycle == Resumed && plan.TLS != nil {
		c.sessions = NewSessionCache()
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
func (c *tcpClient) dial(ctx context.Context, network, address string) (net.Conn, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.life, cancel)()
	conn, err := c.plan.Dialer.DialContext(ctx, network, address)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		if err == nil {
			_ = conn.Close()
		}
		return nil, errClosed
	}
	if err != nil {
		return nil, err
	}
	opened := &tcpConn{Conn: conn, client: c}
	c.open[opened] = struct{}{}
	return opened, nil
}

func (c *tcpClient) dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := c.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	conn, err := c.plan.Dialer.HandshakeTLS(ctx, raw, c.plan.TLS)
	if err != nil {
		return nil, err // not conn: a nil *tls.Conn is a non-nil net.Conn
	}
	// A server without ALPN chooses no protocol, and speaks HTTP/1.1.
	if got := conn.ConnectionState().NegotiatedProtocol; c.plan.Version == HTTP2 && !slices.Contains(HTTP2.Protocols(), got) {
		_ = conn.Close()
		return nil, fmt.Errorf("the server at %s does not speak HTTP/2: it chose the protocol %q", address, got)
	}
	return conn, nil
}

// connect implements connector.
func (c *tcpClient) connect(ctx context.Context) (connection, error) {
	conn, err := c.transport.NewClientConn(ctx, c.plan.Scheme(), c.plan.Address)
	if err != nil {
		return nil, err // not conn: a nil *http.ClientConn is a non-nil connection
	}
	return conn, nil
}

// verify implements connector. It makes a request.
func (c *tcpClient) verify(ctx context.Context, conn connection) error {
	if err := c.plan.ping(ctx, conn); err != nil || c.sessions == nil {
		return err
	}
	return c.sessions.await(ctx, nil)
}

// Close closes all connections.
func (c *tcpClient) Close() error {
	c.mu.Lock()
	c.endLife()
	for conn := range c.open {
		_ = conn.Conn.Close()
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
