package httpwire

import (
	"context"
	"net/http"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3Conn is a client's connection.
type h3Conn struct {
	quic *quic.Conn
	http *http3.ClientConn // nil with early data: h3exchange.go speaks HTTP/3
	gone chan struct{}     // closed when the connection has ended and is counted
	// handshake is closed when the handshake is done and counted. Only for
	// connections with early data.
	handshake chan struct{}
}

// track adds a connection to those that Close closes, and counts it.
func (c *h3Client) track(conn *quic.Conn) *h3Conn {
	opened := &h3Conn{quic: conn, gone: make(chan struct{})}
	closed := c.plan.Dialer.Opened()
	c.mu.Lock()
	c.open[opened] = struct{}{}
	c.workers.Add(1) // safe beside Wait: the attempt holds the count above zero
	c.mu.Unlock()
	context.AfterFunc(conn.Context(), func() {
		defer c.workers.Done()
		defer close(opened.gone)
		closed()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, opened)
		c.closed.add(conn)
	})
	if c.life.Err() != nil { // Close may have read c.open already
		_ = opened.Close()
	}
	return opened
}

// isClosed reports whether the channel is closed.
func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// RoundTrip implements http.RoundTripper.
func (c *h3Conn) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := c.http.RoundTrip(request)
	if err != nil {
		return failRequest(request, err)
	}
	return response, nil
}

// Close closes the connection and waits for its end.
func (c *h3Conn) Close() error {
	closeQUIC(c.quic)
	<-c.gone
	return nil
}

// Err reports the end of the connection.
func (c *h3Conn) Err() error { return c.quic.Context().Err() }

// h3Pool is a pool that counts traffic.
type h3Pool struct {
	*h3Client
	kept *pool
}

func newH3Pool(ctx context.Context, client *h3Client) (*h3Pool, error) {
	kept, err := openPool(ctx, client.plan, client)
	return &h3Pool{client, kept}, err
}

// RoundTrip implements http.RoundTripper.
func (p *h3Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	return p.kept.RoundTrip(request)
}
