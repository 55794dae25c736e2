package conn

import (
	"net"
	"sync"
)

// dialTraffic sums the traffic of a dialer's TCP connections. The kernel counts it;
// it is read only when a connection closes and when Traffic is called, so that calls
// do not pay for it.
type dialTraffic struct {
	mu     sync.Mutex
	open   map[*countedConn]struct{}
	closed Traffic // of closed connections
}

// Traffic returns the traffic of all TCP connections so far. It costs some 2 µs for
// each open connection.
func (d *Dialer) Traffic() Traffic {
	d.traffic.mu.Lock()
	defer d.traffic.mu.Unlock()
	sum := d.traffic.closed
	for conn := range d.traffic.open {
		if one, known := tcpTraffic(conn.TCPConn); known {
			sum = sum.Plus(one)
		}
	}
	return sum
}

func (t *dialTraffic) add(conn *countedConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open == nil {
		t.open = map[*countedConn]struct{}{}
	}
	t.open[conn] = struct{}{}
}

// remove is called before the connection is closed, and may be called again.
func (t *dialTraffic) remove(conn *countedConn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.open[conn]; !open {
		return
	}
	delete(t.open, conn)
	if one, known := tcpTraffic(conn.TCPConn); known {
		one.ClosedRTT, one.OpenRTT = one.OpenRTT, MeanRTT{}
		t.closed = t.closed.Plus(one)
	}
}

// countHandshake counts all traffic of a connection so far as its TLS handshake.
func (t *dialTraffic) countHandshake(conn net.Conn) {
	counted, ok := unwrap[*countedConn](conn)
	if !ok {
		return
	}
	one, known := tcpTraffic(counted.TCPConn)
	if !known {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed.Handshakes++
	t.closed.HandshakeSentBytes += one.SentBytes
	t.closed.HandshakeReceivedBytes += one.ReceivedBytes
}

// unwrap finds the connection of a type below wrappers that have a method NetConn, as
// tls.Conn has.
func unwrap[C net.Conn](conn net.Conn) (found C, ok bool) {
	for {
		if found, ok = conn.(C); ok {
			return found, true
		}
		wrapper, wraps := conn.(interface{ NetConn() net.Conn })
		if !wraps {
			return found, false
		}
		conn = wrapper.NetConn()
	}
}

// tcpTraffic reads a connection's traffic from the kernel.
func tcpTraffic(conn *net.TCPConn) (t Traffic, known bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Traffic{}, false
	}
	err = raw.Control(func(descriptor uintptr) { t, known = socketTraffic(int(descriptor)) })
	if err != nil || !known {
		return Traffic{}, false
	}
	if remote, is := conn.RemoteAddr().(*net.TCPAddr); is && remote.IP.To4() == nil {
		t.HeaderBytes += ipv6HeaderBytes - ipv4HeaderBytes
	}
	return t, true
}

// Header sizes without options: RFC 791, RFC 8200, RFC 9293, RFC 768.
const (
	ipv4HeaderBytes = 20
	ipv6HeaderBytes = 40
	tcpHeaderBytes  = 20
	udpHeaderBytes  = 8
)

// DatagramHeaderBytes returns the size of a UDP datagram's headers, over IPv6 or IPv4.
func DatagramHeaderBytes(ipv6 bool) int64 {
	if ipv6 {
		return udpHeaderBytes + ipv6HeaderBytes
	}
	return udpHeaderBytes + ipv4HeaderBytes
}
