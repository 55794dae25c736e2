package httpwire

import (
	"context"
	"fmt"
	"io"
	"sync"

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
	closed := c.observer.Opened()
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
		opened.close()
	}
	return opened
}

// isOpen reports whether the connection accepts requests.
func (c *h3Conn) isOpen() bool { return c.quic.Context().Err() == nil }

// handshakeDone reports whether a connection with early data has completed its
// handshake.
func (c *h3Conn) handshakeDone() bool {
	select {
	case <-c.handshake:
		return true
	default:
		return false
	}
}

// close closes the connection and waits for its end. It may be called again.
func (c *h3Conn) close() {
	closeQUIC(c.quic)
	<-c.gone
}

// closeAfter wraps a response's body: the connection ends with the body, or when
// ctx ends, since a caller may cancel its context instead of closing the body.
func (c *h3Conn) closeAfter(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	return &h3LastBody{ReadCloser: body, conn: c, stop: context.AfterFunc(ctx, c.close)}
}

// h3LastBody closes the connection with the body of its only response.
type h3LastBody struct {
	io.ReadCloser
	conn *h3Conn
	stop func() bool
}

// Read closes the connection at the end of the body.
func (b *h3LastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close closes the connection, even if part of the body is unread.
func (b *h3LastBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func (b *h3LastBody) end() {
	b.stop()
	b.conn.close()
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
	if s.current != nil && s.current.isOpen() {
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
