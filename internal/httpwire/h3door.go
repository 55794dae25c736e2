package httpwire

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
)

// acceptQueue is how many connections may wait for Accept in quic-go, which
// refuses more (MaxAcceptQueueSize in its internal/protocol).
const acceptQueue = 32

// door tells a server's gate what becomes of the connections that it let in. A
// connection keeps its place until it is accepted, so that quic-go's queue
// cannot overflow; where handshakes are bounded, until it has shaken hands.
type door struct {
	gate    *gate
	bounded bool
}

// roomFor is how many connections may be on their way to be accepted.
func roomFor(handshakes int) int {
	if handshakes > 0 {
		return min(acceptQueue, handshakes)
	}
	return acceptQueue
}

func newDoor(socket *udpSocket, handshakes int) *door {
	socket.gate = newGate(roomFor(handshakes), socket.wake)
	return &door{gate: socket.gate, bounded: handshakes > 0}
}

// visit is what a connection's context knows of its way in.
type visit struct {
	id   string                    // by which the gate knows it
	conn atomic.Pointer[quic.Conn] // once it was accepted
}

// shaken tells whether the connection got as far.
func (v *visit) shaken() bool {
	conn := v.conn.Load()
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

type visitKey struct{}

// greet is called for a new connection, and before know.
func (*door) greet(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	return context.WithValue(ctx, visitKey{}, &visit{}), nil
}

// know learns the connection ID that the client invented: only tracers are told.
// It traces nothing.
func (d *door) know(ctx context.Context, _ bool, id quic.ConnectionID) qlogwriter.Trace {
	v := ctx.Value(visitKey{}).(*visit)
	v.id = string(id.Bytes())
	context.AfterFunc(ctx, func() { d.gate.end(v.id, v.shaken() || endedByPeer(context.Cause(ctx)), time.Now()) })
	return nil
}

// endedByPeer tells whether a connection was closed by a client that has no more
// to say but that it is closed.
func endedByPeer(cause error) bool {
	var application *quic.ApplicationError
	var transport *quic.TransportError
	return errors.As(cause, &application) && application.Remote || errors.As(cause, &transport) && transport.Remote
}

// accepted gives the place back, now or when hands are shaken.
func (d *door) accepted(conn *quic.Conn) {
	v := conn.Context().Value(visitKey{}).(*visit)
	v.conn.Store(conn)
	if !d.bounded {
		d.gate.leave(v.id, time.Now())
		return
	}
	// The goroutine ends with the handshake, or with the connection, which the
	// server's Close ends. There are as many as handshakes in progress.
	go func() {
		select {
		case <-conn.HandshakeComplete():
			d.gate.leave(v.id, time.Now())
		case <-conn.Context().Done():
		}
	}()
}

// doorListener tells the door who was accepted.
type doorListener struct {
	*quic.EarlyListener
	door *door
}

// Accept implements http3.QUICListener.
func (l *doorListener) Accept(ctx context.Context) (*quic.Conn, error) {
	conn, err := l.EarlyListener.Accept(ctx)
	if err == nil {
		l.door.accepted(conn)
	}
	return conn, err
}
