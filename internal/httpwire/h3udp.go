package httpwire

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"

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
		n, err := s.batch.ReadBatch(messages, flags)
		if errors.Is(err, syscall.ECONNREFUSED) {
			s.refused()
			continue
		}
		if err == nil {
			s.receiveCalls.Add(1)
			s.datagramsReceived.Add(int64(n))
		}
		return n, err
	}
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
