package httpwire

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// acceptQueue is the number of connections that may wait for Accept in quic-go. It
// refuses further ones (MaxAcceptQueueSize in its internal/protocol).
const acceptQueue = 32

// acceptListener reports the progress of admitted connections to the admission. A
// connection holds its place until it is accepted, so that quic-go's queue cannot
// overflow; with a limit on handshakes, until its handshake is done.
type acceptListener struct {
	*quic.EarlyListener // nil until it listens
	admission           *admission
	bounded             bool
}

// maxPending is the number of admitted connections that may wait to be accepted.
func maxPending(handshakes int) int {
	if handshakes > 0 {
		return min(acceptQueue, handshakes)
	}
	return acceptQueue
}

// connState is kept in a connection's context.
type connState struct {
	id   string                    // the connection ID that the client made up
	conn atomic.Pointer[quic.Conn] // nil until accepted
}

// handshakeDone reports whether the connection's handshake is complete.
func (state *connState) handshakeDone() bool {
	conn := state.conn.Load()
	return conn != nil && isClosed(conn.HandshakeComplete())
}

type connStateKey struct{}

// connContext adds a connState to a new connection's context. quic-go calls it
// before recordID.
func (*acceptListener) connContext(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	return context.WithValue(ctx, connStateKey{}, &connState{}), nil
}

// recordID stores the connection ID that the client made up, and removes the
// connection from the admission at its end. It is a quic-go tracer, since only
// tracers get that ID, but traces nothing.
func (l *acceptListener) recordID(ctx context.Context, _ bool, id quic.ConnectionID) qlogwriter.Trace {
	state := ctx.Value(connStateKey{}).(*connState)
	state.id = string(id.Bytes())
	context.AfterFunc(ctx, func() {
		l.admission.remove(state.id, state.handshakeDone() || closedByPeer(context.Cause(ctx)), time.Now())
	})
	return nil
}

// closedByPeer reports whether the client closed the connection.
func closedByPeer(cause error) bool {
	var application *quic.ApplicationError
	var transport *quic.TransportError
	return errors.As(cause, &application) && application.Remote || errors.As(cause, &transport) && transport.Remote
}

// accepted releases the connection's place, now or after its handshake.
func (l *acceptListener) accepted(conn *quic.Conn) {
	state := conn.Context().Value(connStateKey{}).(*connState)
	state.conn.Store(conn)
	if !l.bounded {
		l.admission.release(state.id, time.Now())
		return
	}
	// The goroutine ends with the handshake, or with the connection, which the
	// server's Close closes. There is one for each handshake in progress.
	go func() {
		select {
		case <-conn.HandshakeComplete():
			l.admission.release(state.id, time.Now())
		case <-conn.Context().Done():
		}
	}()
}

// Accept implements http3.QUICListener.
func (l *acceptListener) Accept(ctx context.Context) (*quic.Conn, error) {
	conn, err := l.EarlyListener.Accept(ctx)
	if err == nil {
		l.accepted(conn)
	}
	return conn, err
}
