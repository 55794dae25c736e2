// Package quicsocket provides UDP sockets for quic-go. They count datagrams, report a closed
// port at once, and admit a server's new connections in order.
//
//  1. quic-go reads datagrams from a Socket, as from a *net.UDPConn.
//  2. A server's socket passes the datagrams of new connections to an admission, a pure state
//     machine. The admission lets the datagrams pass, or keeps them.
//  3. A Listener tells the admission that quic-go has accepted a connection or completed its
//     handshake. The admission then admits the next connection.
//
// The package must not know HTTP.
package quicsocket

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/quic-go/quic-go"
	"github.com/quic-go/quic-go/qlogwriter"
	"golang.org/x/net/ipv4"
)

// A Socket is a UDP socket that counts datagrams. It has the methods that quic-go needs to read
// many datagrams at once and to write in segments (UDP_SEGMENT, linux/udp.h).
type Socket struct {
	*net.UDPConn
	batch     *ipv4.PacketConn
	connected bool       // the socket has one fixed peer
	refused   func()     // called when the peer's host reports that no process listens on the port
	admission *admission // nil means that every connection is admitted
	closing   atomic.Bool

	// SendCalls and ReceiveCalls count successful calls of sendmsg and recvmmsg.
	SendCalls, ReceiveCalls atomic.Int64
	// Sent and Received count datagrams.
	Sent, Received atomic.Int64
}

// New wraps a UDP connection. It calls refused whenever the peer's host reports that no process
// listens on the port. Only a connected socket gets this report.
func New(conn *net.UDPConn, refused func()) *Socket {
	return &Socket{UDPConn: conn, batch: ipv4.NewPacketConn(conn), connected: conn.RemoteAddr() != nil, refused: refused}
}

// ReadBatch waits for a datagram and reads all that have arrived. After an ICMP message "port
// unreachable", the next read of a connected socket fails; ReadBatch then calls refused and reads
// again.
func (s *Socket) ReadBatch(messages []ipv4.Message, flags int) (int, error) {
	for {
		if n := s.takeAdmitted(messages); n > 0 {
			return n, nil
		}
		n, err := s.batch.ReadBatch(messages, flags)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			s.refused()
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.closing.Load(): // interruptRead ended the wait
			_ = s.UDPConn.SetReadDeadline(time.Time{}) // ignore errors: the next read reports them
			if s.closing.Load() {
				s.interruptRead() // set the deadline again that SetReadDeadline has just set
			}
			continue
		case err != nil:
			return n, err
		}
		s.ReceiveCalls.Add(1)
		s.Received.Add(int64(n))
		s.emptyUnadmitted(messages[:n])
		return n, nil
	}
}

// takeAdmitted returns the kept datagrams of admitted connections.
func (s *Socket) takeAdmitted(messages []ipv4.Message) int {
	if s.admission == nil {
		return 0
	}
	taken := s.admission.takeDatagrams(len(messages))
	for i, d := range taken {
		m := &messages[i]
		m.N, m.NN, m.Addr = copy(m.Buffers[0], d.data), copy(m.OOB, d.control), d.from
	}
	return len(taken)
}

// emptyUnadmitted empties datagrams that are not admitted yet, because quic-go ignores empty ones.
func (s *Socket) emptyUnadmitted(messages []ipv4.Message) {
	if s.admission == nil {
		return
	}
	now := time.Now()
	for i := range messages {
		m := &messages[i]
		if !s.admission.receive(datagram{data: m.Buffers[0][:m.N], control: m.OOB[:m.NN], from: m.Addr}, now) {
			m.N = 0
		}
	}
}

// interruptRead makes ReadBatch return the datagrams of newly admitted connections.
func (s *Socket) interruptRead() { _ = s.UDPConn.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed socket

// SetReadDeadline sets a deadline. quic-go calls it once, to stop reading.
func (s *Socket) SetReadDeadline(t time.Time) error {
	s.closing.Store(!t.IsZero())
	return s.UDPConn.SetReadDeadline(t)
}

// WriteMsgUDP sends a datagram, or several if the control message gives their size.
func (s *Socket) WriteMsgUDP(b, control []byte, to *net.UDPAddr) (n, controlWritten int, err error) {
	if s.connected {
		to = nil
	}
	n, controlWritten, err = s.UDPConn.WriteMsgUDP(b, control, to)
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.refused()
		n, controlWritten, err = s.UDPConn.WriteMsgUDP(b, control, to)
	}
	if err == nil {
		s.SendCalls.Add(1)
		s.Sent.Add(countDatagrams(b, control))
	}
	return n, controlWritten, err
}

// AcceptQueue is the number of connections that may wait in quic-go for Accept. quic-go refuses
// further ones (MaxAcceptQueueSize in its internal/protocol).
const AcceptQueue = 32

// ConnectionIDBytes is the length of the connection IDs that clients and servers choose. quic-go
// does not check for duplicate IDs; a connection with a duplicate gets no answers. With 4 bytes,
// one of thirty trials with many new connections failed for this reason. With 8 bytes, the
// admission could confuse a server's ID with a client's.
const ConnectionIDBytes = minClientIDBytes - 1

// A Listener reports the progress of connections to the admission. A connection occupies a place
// until it is accepted, so that quic-go's queue cannot overflow. If handshakes are limited, the
// connection occupies the place until its handshake is done.
type Listener struct {
	*quic.EarlyListener
	admission *admission
	bounded   bool
}

// An Admission holds the limits for new connections of a server.
type Admission struct {
	// Handshakes limits the concurrent handshakes. 0 means no limit.
	Handshakes int
	// MaxTime limits how long a connection occupies its place: its client may have given up, or
	// quic-go may have dropped its first datagram.
	MaxTime time.Duration
}

// MaxUnaccepted returns how many admitted connections may wait for Accept.
func (a Admission) MaxUnaccepted() int {
	return min(AcceptQueue, cmp.Or(a.Handshakes, AcceptQueue))
}

// Listen makes quic-go listen on the socket. After success, the caller must close the transport and
// then the socket.
func (s *Socket) Listen(a Admission, secured *tls.Config, config *quic.Config) (*Listener, *quic.Transport, error) {
	s.admission = newAdmission(a.MaxUnaccepted(), a.MaxTime, s.interruptRead)
	l := &Listener{admission: s.admission, bounded: a.Handshakes > 0}
	transport := &quic.Transport{Conn: s, ConnectionIDLength: ConnectionIDBytes, ConnContext: l.connContext}
	config.Tracer = l.recordID
	var err error
	if l.EarlyListener, err = transport.ListenEarly(secured, config); err != nil {
		return nil, nil, errors.Join(err, s.Close())
	}
	return l, transport, nil
}

// connState holds a connection's state for the Listener, in the connection's context.
type connState struct {
	id   string                    // the connection ID that the client chose for the server
	conn atomic.Pointer[quic.Conn] // nil until accepted
}

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

// connContext adds a connState to a new connection's context. quic-go calls it before recordID.
func (*Listener) connContext(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	return context.WithValue(ctx, connStateKey{}, &connState{}), nil
}

// recordID stores the connection ID that the client chose. When the connection ends, recordID
// removes it from the admission. quic-go passes the ID only to its tracer hook. recordID returns no
// tracer.
func (l *Listener) recordID(ctx context.Context, _ bool, id quic.ConnectionID) qlogwriter.Trace {
	state := ctx.Value(connStateKey{}).(*connState)
	state.id = string(id.Bytes())
	context.AfterFunc(ctx, func() {
		l.admission.remove(state.id, state.handshakeDone() || closedByPeer(context.Cause(ctx)), time.Now())
	})
	return nil
}

func closedByPeer(cause error) bool {
	var application *quic.ApplicationError
	var transport *quic.TransportError
	return errors.As(cause, &application) && application.Remote || errors.As(cause, &transport) && transport.Remote
}

// onAccepted releases the connection's place, immediately or after its handshake.
func (l *Listener) onAccepted(conn *quic.Conn) {
	state := conn.Context().Value(connStateKey{}).(*connState)
	state.conn.Store(conn)
	if !l.bounded {
		l.admission.release(state.id, time.Now())
		return
	}
	// The goroutine ends with the handshake or the connection, which the server's Close closes.
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
		l.onAccepted(conn)
	}
	return conn, err
}

// Connections returns the number of connections that wait or are admitted, without ended ones.
func (l *Listener) Connections() int {
	l.admission.mu.Lock()
	defer l.admission.mu.Unlock()
	return len(l.admission.byID)
}
