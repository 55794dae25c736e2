package httpwire

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/http3"
)

// An attempt is a connection on its way. It ends twice: for the one who waits
// for it, with their context, and for the server, who must be told.

// farewell is how long an attempt goes on that nobody waits for any more. When
// its context ends, quic-go's Dial leaves without a word, and gives nobody the
// connection to close; what the server has of it would stay there until the
// server's patience ends. So the handshake is brought to its end, and the
// connection closed, where the server answers soon.
var farewell = time.Second // tests, which no pause of the machine may break, take longer

var errRefused = fmt.Errorf("the host answers that nobody listens there: %w", syscall.ECONNREFUSED)

// quicDial is quic.Transport's Dial or DialEarly.
type quicDial = func(context.Context, net.Addr, *tls.Config, *quic.Config) (*quic.Conn, error)

// dial opens a connection and shakes hands on it.
func (c *h3Client) dial(ctx context.Context) (*h3Conn, error) {
	ctx, done, err := c.attempt(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	begin := time.Now()
	conn, err := c.begin(ctx, c.quic.Dial)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	opened := c.adopt(conn)
	opened.http = c.http.NewClientConn(conn)
	c.observer.Handshake(Handshake{Took: took, State: conn.ConnectionState().TLS})
	c.plan.Dialer.Spoke("h3")
	return opened, nil
}

// begin dials, and returns at the latest when the attempt's context ends.
func (c *h3Client) begin(ctx context.Context, dial quicDial) (*quic.Conn, error) {
	type outcome struct {
		conn *quic.Conn
		err  error
	}
	come := make(chan outcome)
	lasting, end := c.outlast(ctx)
	c.workers.Go(func() { // the attempt holds them above zero
		defer end()
		conn, err := dial(lasting, c.remote, c.tls, c.config)
		select {
		case come <- outcome{conn, err}:
		case <-ctx.Done():
			if err == nil {
				sayGoodbye(conn)
			}
		}
	})
	var came outcome
	select {
	case came = <-come:
	case <-ctx.Done():
		came.err = context.Cause(ctx)
	}
	if came.err != nil {
		c.account(came.err)
		return nil, fmt.Errorf("open a QUIC connection: %w", inHandshake(came.err))
	}
	return came.conn, nil
}

// outlast is a context that ends a farewell after another. Where nobody listens,
// or nobody was ever heard, there is none to take leave of.
func (c *h3Client) outlast(ctx context.Context) (lasting context.Context, end func()) {
	lasting, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		why := context.Cause(ctx)
		if errors.Is(why, errRefused) || c.socket.datagramsReceived.Load() == 0 {
			cancel(why)
			return
		}
		time.AfterFunc(farewell, func() { cancel(why) })
	})
	return lasting, func() {
		stop()
		cancel(nil)
	}
}

// sayGoodbye closes a connection: its peer is told, as far as anybody can be told
// by UDP, before this returns.
func sayGoodbye(conn *quic.Conn) {
	_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// account counts a connection that did not come about: one that was answered
// got as far as its handshake.
func (c *h3Client) account(err error) {
	var transport *quic.TransportError
	var version *quic.VersionNegotiationError
	if errors.As(err, &transport) || errors.As(err, &version) {
		c.observer.HandshakeFailed()
		return
	}
	c.observer.Failed()
}

// attempt is the context of a connection on its way.
func (c *h3Client) attempt(ctx context.Context) (context.Context, func(), error) {
	ctx, cancel := context.WithCancelCause(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.life.Err() != nil {
		cancel(nil)
		return nil, nil, errClosed
	}
	c.workers.Add(1)
	c.attempts[&cancel] = struct{}{}
	return ctx, func() {
		c.mu.Lock()
		delete(c.attempts, &cancel)
		c.mu.Unlock()
		cancel(nil)
		c.workers.Done()
	}, nil
}

// refuse ends the attempts: TCP would have told them as much. A connection that
// stands is not ended by what anybody can forge (RFC 9000, section 14.2.1).
func (c *h3Client) refuse() { c.endAttempts(errRefused) }

func (c *h3Client) endAttempts(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.attempts {
		(*cancel)(why)
	}
}

// handshakeTimeout is a connection that was not there when somebody's patience
// ended: with QUIC there is none before its handshake.
type handshakeTimeout struct{ cause error }

func (e *handshakeTimeout) Error() string {
	return fmt.Sprintf("the handshake was not done in time: %v", e.cause)
}
func (e *handshakeTimeout) Unwrap() error { return e.cause }

// FailureClass is how package failure names it.
func (*handshakeTimeout) FailureClass() string { return "handshake-timeout" }

// inHandshake is what a handshake ended with: later, nobody could tell its
// timeout from another.
func inHandshake(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return &handshakeTimeout{err}
	}
	return err
}
