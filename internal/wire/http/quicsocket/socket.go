// Package quicsocket holds the UDP sockets that quic-go uses here: they count datagrams,
// tell at once that a port is closed, and admit a server's new connections in order.
//
//  1. quic-go reads datagrams from a Socket, as from a *net.UDPConn.
//  2. A server's socket passes the datagrams of a new connection to its admission, a pure
//     state machine, which lets them through or keeps them.
//  3. A Listener reports to the admission when quic-go has accepted a connection, or its
//     handshake is done, so that the next one may begin.
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
// in batches and write in segments (UDP_SEGMENT, linux/udp.h).
type Socket struct {
	*net.UDPConn
	batch     *ipv4.PacketConn
	connected bool       // the socket has one fixed peer
	refused   func()     // called when the peer's host reports that no process listens on the port
	admission *admission // nil: every connection is admitted
	closing   atomic.Bool

	// SendCalls and ReceiveCalls count the calls of sendmsg and recvmmsg that succeeded.
	SendCalls, ReceiveCalls atomic.Int64
	// Sent and Received count datagrams.
	Sent, Received atomic.Int64
}

// New makes a socket of a connection. It calls refused whenever the peer's host reports
// that no process listens on the port, which only a connected socket learns.
func New(conn *net.UDPConn, refused func()) *Socket {
	return &Socket{UDPConn: conn, batch: ipv4.NewPacketConn(conn), connected: conn.RemoteAddr() != nil, refused: refused}
}

// ReadBatch waits for a datagram and reads all that have arrived. An ICMP "port unreachable"
// makes a connected socket's next call fail; ReadBatch reports it to refused and reads again.
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
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.closing.Load(): // woken by wake
			_ = s.UDPConn.SetReadDeadline(time.Time{}) // if the socket is closed, the next read fails
			if s.closing.Load() {
				s.wake() // SetReadDeadline ran meanwhile: do not overwrite its deadline
			}
			continue
		case err != nil:
			return n, err
		}
		s.ReceiveCalls.Add(1)
		s.Received.Add(int64(n))
		s.dropPending(messages[:n])
		return n, nil
	}
}

// takeAdmitted returns the buffered datagrams of connections that were admitted.
func (s *Socket) takeAdmitted(messages []ipv4.Message) int {
	if s.admission == nil {
		return 0
	}
	taken := s.admission.takeReady(len(messages))
	for i, d := range taken {
		m := &messages[i]
		m.N, m.NN, m.Addr = copy(m.Buffers[0], d.data), copy(m.OOB, d.control), d.from
	}
	return len(taken)
}

// dropPending empties datagrams that are not admitted yet: quic-go skips empty ones.
func (s *Socket) dropPending(messages []ipv4.Message) {
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

// wake makes ReadBatch return the datagrams of newly admitted connections.
func (s *Socket) wake() { _ = s.UDPConn.SetReadDeadline(time.Unix(1, 0)) } // fails only on a closed socket

// SetReadDeadline sets a deadline. quic-go calls it to end its reads for good.
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
		s.Sent.Add(datagramsIn(b, control))
	}
	return n, controlWritten, err
}

// AcceptQueue is the number of connections that may wait for Accept in quic-go. It
// refuses further ones (MaxAcceptQueueSize in its internal/protocol).
const AcceptQueue = 32

// ConnectionIDBytes is the length of the connection IDs that an end chooses. quic-go does not
// check whether an ID is in use: of two connections with one ID, one gets no answers. With 4
// bytes that happened in one of thirty trials with many new connections. With 8 bytes the
// admission could mistake a server's ID for a client's.
const ConnectionIDBytes = minClientIDBytes - 1

// A Listener reports progress to the admission. A connection holds its place until it is
// accepted, so that quic-go's queue cannot overflow, or with a limit until its handshake is
// done.
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
	return min(AcceptQueue, cmp.Or(a.Handshakes, AcceptQueue))
}

// Listen makes quic-go listen on the socket. The caller closes the transport and then the socket,
// unless Listen returned an error.
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

// connContext adds a connState to a new connection's context, before recordID.
func (*Listener) connContext(ctx context.Context, _ *quic.ClientInfo) (context.Context, error) {
	return context.WithValue(ctx, connStateKey{}, &connState{}), nil
}

// recordID stores the ID that the client made up, and removes the connection from the admission
// at its end. Only a quic-go tracer gets that ID; this one traces nothing.
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
	// It ends with the handshake, or with the connection, which the server's Close closes.
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
