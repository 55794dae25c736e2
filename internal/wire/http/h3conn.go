package httpwire

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

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

// h3Pool keeps a fixed number of connections and spreads requests over them in turn.
type h3Pool struct {
	*h3Client
	slots []h3Slot
	turn  atomic.Uint64
}

func newH3Pool(ctx context.Context, client *h3Client) (*h3Pool, error) {
	p := &h3Pool{h3Client: client, slots: make([]h3Slot, max(client.plan.Connections, 1))}
	for i := range p.slots {
		if _, err := p.slots[i].conn(ctx, client); err != nil {
			return nil, err
		}
	}
	return p, nil
}

// RoundTrip implements http.RoundTripper.
func (p *h3Pool) RoundTrip(request *http.Request) (*http.Response, error) {
	slot := &p.slots[p.turn.Add(1)%uint64(len(p.slots))]
	conn, err := slot.conn(request.Context(), p.h3Client)
	if err != nil {
		return failRequest(request, err)
	}
	return conn.RoundTrip(request)
}

// h3Slot holds one kept connection. When that has ended, the next request opens
// another.
type h3Slot struct {
	mu      sync.Mutex
	current *h3Conn
	opening *h3Opening
}

// h3Opening is a connection that is being opened, and that requests wait for.
type h3Opening struct {
	done chan struct{}
	conn *h3Conn
	err  error
}

// conn returns the slot's connection, and opens one if there is none.
func (s *h3Slot) conn(ctx context.Context, c *h3Client) (*h3Conn, error) {
	s.mu.Lock()
	if s.current != nil && s.current.quic.Context().Err() == nil {
		defer s.mu.Unlock()
		return s.current, nil
	}
	opening := s.opening
	if opening == nil {
		opening = &h3Opening{done: make(chan struct{})}
		s.opening = opening
		// The goroutine ends with the attempt, which the client's Close cancels
		// and waits for. It does not end with this request, since other requests
		// may wait for it.
		go s.open(c, opening)
	}
	s.mu.Unlock()
	select {
	case <-opening.done:
		return opening.conn, opening.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a QUIC connection: %w", handshakeError(ctx.Err()))
	}
}

func (s *h3Slot) open(c *h3Client, opening *h3Opening) {
	opening.conn, opening.err = c.dial(c.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.opening = opening.conn, nil
	close(opening.done)
}
