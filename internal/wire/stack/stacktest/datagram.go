package stacktest

import (
	"net"
	"net/netip"
	"testing"
)

const (
	largestDatagram = 1<<16 - 1 // of UDP (RFC 768)
	socketBuffer    = 4 << 20   // for the bursts that QUIC sends; less would cost time, not the check
	sessionQueue    = 1024      // datagrams; further ones are dropped, as UDP may
)

// udpListener is a UDP socket that looks like a net.Listener: Accept returns a
// connection for each address that sends something.
type udpListener struct {
	*net.UDPConn
	accepted chan net.Conn
	sessions map[netip.AddrPort]*udpSession
}

// udpSession is the connection with one address.
type udpSession struct {
	*net.UDPConn // shared
	peer         netip.AddrPort
	received     chan []byte // closed with the listener
}

func listenUDP(t testing.TB) *udpListener {
	t.Helper()
	conn, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	noError(t, "listen on UDP", err)
	_ = conn.SetReadBuffer(socketBuffer)
	l := &udpListener{UDPConn: conn, accepted: make(chan net.Conn), sessions: map[netip.AddrPort]*udpSession{}}
	go l.receive() // ends with Close
	return l
}

func (l *udpListener) Addr() net.Addr { return l.LocalAddr() }

func (l *udpListener) Accept() (net.Conn, error) {
	conn, ok := <-l.accepted
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

// receive hands each datagram to its session.
func (l *udpListener) receive() {
	defer func() {
		close(l.accepted)
		for _, session := range l.sessions {
			close(session.received)
		}
	}()
	buffer := make([]byte, largestDatagram)
	for {
		n, from, err := l.ReadFromUDPAddrPort(buffer)
		if err != nil {
			return
		}
		session := l.sessions[from]
		if session == nil {
			session = &udpSession{UDPConn: l.UDPConn, peer: from, received: make(chan []byte, sessionQueue)}
			l.sessions[from] = session
			l.accepted <- session
		}
		select {
		case session.received <- append([]byte(nil), buffer[:n]...):
		default:
		}
	}
}

func (s *udpSession) Read(p []byte) (int, error) {
	datagram, ok := <-s.received
	if !ok {
		return 0, net.ErrClosed
	}
	return copy(p, datagram), nil
}

func (s *udpSession) Write(p []byte) (int, error) { return s.WriteToUDPAddrPort(p, s.peer) }

// Close does nothing: nothing but its peer can end a connection made of datagrams.
func (s *udpSession) Close() error { return nil }
