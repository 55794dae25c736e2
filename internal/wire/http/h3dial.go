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

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
)

// An attempt opens a connection. If the caller's context ends, the caller stops waiting, but the
// attempt continues until it can close the connection properly.

// closeGrace limits how long a cancelled attempt continues: it completes the handshake and closes
// the connection. quic-go's Dial sends nothing when its context ends, so the server would keep the
// connection until its handshake timeout.
var closeGrace = time.Second // tests set a longer time, so that they pass on a busy machine

var errRefused = fmt.Errorf("no process listens on the server's UDP port: %w", syscall.ECONNREFUSED)

type dialFunc = func(context.Context, net.Addr, *tls.Config, *quic.Config) (*quic.Conn, error)

func (c *h3Client) dial(ctx context.Context) (*h3Conn, error) {
	ctx, done, err := c.startAttempt(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	begin := time.Now()
	dialed, err := c.startDial(ctx, c.quic.Dial)
	if err != nil {
		return nil, err
	}
	took := time.Since(begin)
	opened := c.track(dialed)
	opened.http = c.http.NewClientConn(dialed)
	c.plan.Dialer.Handshake(conn.Handshake{Took: took, State: dialed.ConnectionState().TLS})
	c.plan.Dialer.UsedProtocol("h3")
	return opened, nil
}

// startDial dials. It returns no later than the end of the attempt's context.
func (c *h3Client) startDial(ctx context.Context, dial dialFunc) (*quic.Conn, error) {
	type outcome struct {
		quic *quic.Conn
		err  error
	}
	results := make(chan outcome)
	dialCtx, end := c.extendForClose(ctx)
	c.workers.Go(func() { // cannot race with Wait: the running attempt keeps the count above zero
		defer end()
		opened, err := dial(dialCtx, c.remote, c.tls, c.config)
		select {
		case results <- outcome{opened, err}:
		case <-ctx.Done():
			if err == nil {
				closeQUIC(opened)
			}
		}
	})
	var result outcome
	select {
	case result = <-results:
	case <-ctx.Done():
		result.err = context.Cause(ctx)
	}
	if result.err != nil {
		var transport *quic.TransportError
		var version *quic.VersionNegotiationError
		if errors.As(result.err, &transport) || errors.As(result.err, &version) { // the server answered
			c.plan.Dialer.HandshakeFailed()
		} else {
			c.plan.Dialer.Failed()
		}
		return nil, fmt.Errorf("open a QUIC connection: %w", handshakeError(result.err))
	}
	return result.quic, nil
}

// extendForClose returns a context that ends closeGrace after ctx. If the port was refused or the
// server has never answered, there is no connection to close, and the returned context ends
// together with ctx.
func (c *h3Client) extendForClose(ctx context.Context) (extended context.Context, end func()) {
	extended, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		cause := context.Cause(ctx)
		if errors.Is(cause, errRefused) || c.socket.Received.Load() == 0 {
			cancel(cause)
			return
		}
		time.AfterFunc(closeGrace, func() { cancel(cause) })
	})
	return extended, func() {
		stop()
		cancel(nil)
	}
}

// closeQUIC closes a connection. It sends CONNECTION_CLOSE, which UDP may lose.
func closeQUIC(conn *quic.Conn) {
	_ = conn.CloseWithError(quic.ApplicationErrorCode(http3.ErrCodeNoError), "")
}

// startAttempt returns the context of an attempt, and a function that ends the attempt.
func (c *h3Client) startAttempt(ctx context.Context) (context.Context, func(), error) {
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

// cancelAttempts cancels the attempts, because no process listens on the port. Open connections
// continue: the ICMP message may be forged (RFC 9000, section 14.2.1).
func (c *h3Client) cancelAttempts() { c.endAttempts(errRefused) }

func (c *h3Client) endAttempts(why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for cancel := range c.attempts {
		(*cancel)(why)
	}
}

// handshakeError marks a timeout as a handshake timeout, because later code cannot recognise it.
func handshakeError(err error) error {
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() {
		return failure.WithClass(failure.HandshakeTimeout, fmt.Errorf("the QUIC handshake did not complete in time: %w", err))
	}
	return err
}
