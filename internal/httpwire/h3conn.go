package httpwire

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// h3Conn is a connection of a client.
type h3Conn struct {
	quic *quic.Conn
	http *http3.ClientConn // nil where the one exchange is spoken here
	gone chan struct{}     // closed when it has ended and is accounted for
	// shaken is closed when its handshake is done and counted; of connections
	// with early data.
	shaken chan struct{}
}

// adopt makes the client responsible for a connection, and counts it.
func (c *h3Client) adopt(conn *quic.Conn) *h3Conn {
	opened := &h3Conn{quic: conn, gone: make(chan struct{})}
	closed := c.observer.Opened()
	c.mu.Lock()
	c.open[opened] = struct{}{}
	c.workers.Add(1) // an attempt holds it above zero
	c.mu.Unlock()
	context.AfterFunc(conn.Context(), func() {
		defer c.workers.Done()
		defer close(opened.gone)
		closed()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.open, opened)
		c.past.add(conn)
	})
	if c.life.Err() != nil { // Close may have looked before
		opened.close()
	}
	return opened
}

// alive tells whether the connection takes requests.
func (c *h3Conn) alive() bool { return c.quic.Context().Err() == nil }

// hasShaken tells whether the handshake was done, of a connection with early data.
func (c *h3Conn) hasShaken() bool {
	select {
	case <-c.shaken:
		return true
	default:
		return false
	}
}

// close says goodbye and waits for the connection's end. It may be called again.
func (c *h3Conn) close() {
	sayGoodbye(c.quic)
	<-c.gone
}

// closeWith is a response's body with which the connection ends, and with which
// it ends at the latest when ctx does: a caller may leave a stream that way.
func (c *h3Conn) closeWith(ctx context.Context, body io.ReadCloser) io.ReadCloser {
	return &h3LastBody{ReadCloser: body, conn: c, stop: context.AfterFunc(ctx, c.close)}
}

// h3LastBody is the body of the only response of a connection.
type h3LastBody struct {
	io.ReadCloser
	conn *h3Conn
	stop func() bool
}

// Read ends the connection with the body.
func (b *h3LastBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if err != nil {
		b.end()
	}
	return n, err
}

// Close ends the connection, whatever of the body is left.
func (b *h3LastBody) Close() error {
	err := b.ReadCloser.Close()
	b.end()
	return err
}

func (b *h3LastBody) end() {
	b.stop()
	b.conn.close()
}

// h3Slot is the place of one kept connection: when it has ended, the next
// request opens another.
type h3Slot struct {
	mu      sync.Mutex
	current *h3Conn
	coming  *h3Arrival
}

// h3Arrival is a connection that is being opened, for all who wait for it.
type h3Arrival struct {
	done chan struct{}
	conn *h3Conn
	err  error
}

// conn returns the slot's connection, opening one where there is none.
func (s *h3Slot) conn(ctx context.Context, c *h3Client) (*h3Conn, error) {
	s.mu.Lock()
	if s.current != nil && s.current.alive() {
		defer s.mu.Unlock()
		return s.current, nil
	}
	arrival := s.coming
	if arrival == nil {
		arrival = &h3Arrival{done: make(chan struct{})}
		s.coming = arrival
		// The goroutine ends with the attempt, which the client's Close ends
		// and waits for. It is not the request's, since others wait as well.
		go s.open(c, arrival)
	}
	s.mu.Unlock()
	select {
	case <-arrival.done:
		return arrival.conn, arrival.err
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for a QUIC connection: %w", inHandshake(ctx.Err()))
	}
}

func (s *h3Slot) open(c *h3Client, arrival *h3Arrival) {
	arrival.conn, arrival.err = c.dial(c.life)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current, s.coming = arrival.conn, nil
	close(arrival.done)
}
