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
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

// A Socket is a UDP socket that counts datagrams. It has the methods that quic-go
// looks for in a *net.UDPConn, so that datagrams are still read in batches and
// written in segments (UDP_SEGMENT, linux/udp.h).
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

// ReadBatch waits for a datagram and reads all that have arrived. On a connected
// socket an ICMP "port unreachable" makes the next call fail; ReadBatch reports it
// to refused and reads again.
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

// dropPending empties the datagrams of connections that are not admitted yet:
// quic-go skips empty datagrams.
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

// WriteMsgUDP sends one datagram, or several if the control message gives their
// size.
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
