package httpwire

import (
	"errors"
	"net"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/net/ipv4"
)

// udpSocket is a UDP socket that counts what passes. It offers all that quic-go
// looks for in a *net.UDPConn, so that datagrams are still read in batches and
// written in segments (UDP_SEGMENT, linux/udp.h).
type udpSocket struct {
	*net.UDPConn
	batch     *ipv4.PacketConn
	connected bool   // to the one peer
	refused   func() // the peer's host answered that nobody listens there
	gate      *gate  // nil: everybody may come in
	closing   atomic.Bool

	sendCalls, receiveCalls, datagramsSent, datagramsReceived atomic.Int64
}

func newUDPSocket(conn *net.UDPConn) *udpSocket {
	return &udpSocket{UDPConn: conn, batch: ipv4.NewPacketConn(conn), connected: conn.RemoteAddr() != nil, refused: func() {}}
}

// ReadBatch reads as many datagrams as there are, waiting for the first. On a
// connected socket an ICMP "port unreachable" comes up as an error of whichever
// call is next; it is told and the call made again.
func (s *udpSocket) ReadBatch(messages []ipv4.Message, flags int) (int, error) {
	for {
		if n := s.takeKept(messages); n > 0 {
			return n, nil
		}
		n, err := s.batch.ReadBatch(messages, flags)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			s.refused()
			continue
		case errors.Is(err, os.ErrDeadlineExceeded) && !s.closing.Load(): // woken by wake
			_ = s.UDPConn.SetReadDeadline(time.Time{}) // a closed socket says so in the next read
			if s.closing.Load() {
				s.wake() // and one that is told to end just now must not sleep
			}
			continue
		case err != nil:
			return n, err
		}
		s.receiveCalls.Add(1)
		s.datagramsReceived.Add(int64(n))
		s.keepBack(messages[:n])
		return n, nil
	}
}

// takeKept hands on what the gate kept.
func (s *udpSocket) takeKept(messages []ipv4.Message) int {
	if s.gate == nil {
		return 0
	}
	taken := s.gate.take(len(messages))
	for i, d := range taken {
		m := &messages[i]
		m.N, m.NN, m.Addr = copy(m.Buffers[0], d.data), copy(m.OOB, d.control), d.from
	}
	return len(taken)
}

// keepBack empties what the gate does not let pass: quic-go passes over an empty
// datagram.
func (s *udpSocket) keepBack(messages []ipv4.Message) {
	if s.gate == nil {
		return
	}
	now := time.Now()
	for i := range messages {
		m := &messages[i]
		if !s.gate.arrive(datagram{data: m.Buffers[0][:m.N], control: m.OOB[:m.NN], from: m.Addr}, now) {
			m.N = 0
		}
	}
}

// wake has ReadBatch look at what the gate has ready.
func (s *udpSocket) wake() { _ = s.UDPConn.SetReadDeadline(time.Unix(1, 0)) } // a closed socket sleeps no more

// SetReadDeadline is quic-go's way to end a read for good.
func (s *udpSocket) SetReadDeadline(t time.Time) error {
	s.closing.Store(!t.IsZero())
	return s.UDPConn.SetReadDeadline(t)
}

// WriteMsgUDP sends one datagram, or several where the control message says how
// long each is.
func (s *udpSocket) WriteMsgUDP(b, control []byte, to *net.UDPAddr) (n, controlWritten int, err error) {
	if s.connected {
		to = nil
	}
	n, controlWritten, err = s.UDPConn.WriteMsgUDP(b, control, to)
	if errors.Is(err, syscall.ECONNREFUSED) {
		s.refused()
		n, controlWritten, err = s.UDPConn.WriteMsgUDP(b, control, to)
	}
	if err == nil {
		s.sendCalls.Add(1)
		s.datagramsSent.Add(datagramsIn(b, control))
	}
	return n, controlWritten, err
}
