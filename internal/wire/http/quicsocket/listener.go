package quicsocket

import (
	"context"
	"crypto/tls"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// AcceptQueue is the number of connections that may wait for Accept in quic-go. It
// refuses further ones (MaxAcceptQueueSize in its internal/protocol).
const AcceptQueue = 32

// ConnectionIDBytes is the length of the connection IDs that an end chooses. quic-go does
// not check whether an ID is in use: of two connections with the same ID, one gets no
// answers. With 4 bytes that happened in about one of thirty trials with many new
// connections, each with four IDs that outlast it. With 8 bytes the admission could
// mistake a server's ID for one that a client has made up.
const ConnectionIDBytes = minClientIDBytes - 1

// A Listener reports the progress of admitted connections to the admission. A
// connection holds its place until it is accepted, so that quic-go's queue cannot
// overflow; with a limit on handshakes, until its handshake is done.
type Listener struct {
	*quic.EarlyListener
	admission *admission
	bounded   bool
}

// An Admission limits the new connections that a server works on at the same time.
type Admission struct {
	// Handshakes limits the handshakes in progress. 0: no limit.
	Handshakes int
	// MaxTime limits the time for which a connection holds its place: its client may have
	// given up, or quic-go may have dropped its first datagram.
	MaxTime time.Duration
}

// MaxPending returns how many admitted connections may wait to be accepted.
func (a Admission) MaxPending() int {
	if a.Handshakes > 0 {
		return min(AcceptQueue, a.Handshakes)
	}
	return AcceptQueue
}

// Listen makes quic-go listen on the socket. The caller closes the transport and the
// socket, in this order. If there is an error, it need not.
func (s *Socket) Listen(a Admission, secured *tls.Config, config *quic.Config) (*Listener, *quic.Transport, error) {
	s.admission = newAdmission(a.MaxPending(), a.MaxTime, s.wake)
	l := &Listener{admission: s.admission, bounded: a.Handshakes > 0}
	transport := &quic.Transport{Conn: s, ConnectionIDLength: ConnectionIDBytes, ConnContext: l.connContext}
	config.Tracer = l.recordID
	var err error
	if l.EarlyListener, err = transport.ListenEarly(secured, config); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return l, transport, nil
}

// connState is kept in a connection's context.
type connState struct {
	id   string                    // the connection ID that the client made up
	conn atomic.Pointer[quic.Conn] // nil until accepted
}

// handshakeDone reports whether the connection's handshake is complete.
func (state *connState) handshakeDone() bool {
	conn := state.conn.Load()
	if conn == nil {
		return false
	}
	select {
	case <-conn.HandshakeComplete():
		return true
	default:
		return false
	}
}

type connStateKey struct{}

// connContext adds a connState to a new connection's context. quic-go calls it
// before recordID.
func (*Listener) connContext(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	return context.WithValue(ctx, connStateKey{}, &connState{}), nil
}

// recordID stores the connection ID that the client made up, and removes the
// connection from the admission at its end. It is a quic-go tracer, since only
// tracers get that ID, but traces nothing.
func (l *Listener) recordID(ctx context.Context, _ bool, id quic.ConnectionID) qlogwriter.Trace {
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
func (l *Listener) accepted(conn *quic.Conn) {
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
func (l *Listener) Accept(ctx context.Context) (*quic.Conn, error) {
	conn, err := l.EarlyListener.Accept(ctx)
	if err == nil {
		l.accepted(conn)
	}
	return conn, err
}

// Connections returns how many connections wait, or were admitted and have not ended.
func (l *Listener) Connections() int {
	l.admission.mu.Lock()
	defer l.admission.mu.Unlock()
	return len(l.admission.byID)
}
