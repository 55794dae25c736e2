package conn

import (
	"net"
	"sync"
	"time"

	"wirelab.dev/internal/base/latency"
)

// Counts holds the numbers of connections that a Dialer opened, as they happened.
type Counts struct {
	Opened int64 `json:"opened"` // since the dialer was made
	Failed int64 `json:"failed"` // attempts that did not become a connection
	Open   int64 `json:"open"`   // now

	Full          int64 `json:"full,omitempty"`           // TLS handshakes with a certificate
	Resumed       int64 `json:"resumed,omitempty"`        // TLS handshakes that resumed a session
	Early         int64 `json:"early,omitempty"`          // of those, with early data that the server accepted
	EarlyRefused  int64 `json:"early_refused,omitempty"`  // with early data that the server rejected
	HandshakeFail int64 `json:"handshake_fail,omitempty"` // connections whose handshake failed
}

// counters returns the figures that only grow.
func (c *Counts) counters() []*int64 {
	return []*int64{&c.Opened, &c.Failed, &c.Full, &c.Resumed, &c.Early, &c.EarlyRefused, &c.HandshakeFail}
}

// Since returns the difference to an earlier count. Open stays the current value.
func (c Counts) Since(earlier Counts) Counts {
	addTo(c.counters(), earlier.counters(), -1)
	return c
}

// Plus returns the counts of both.
func (c Counts) Plus(other Counts) Counts {
	addTo(c.counters(), other.counters(), 1)
	c.Open += other.Open
	return c
}

// addTo adds each counter, multiplied by times, to the sum at the same index.
func addTo(sums, counters []*int64, times int64) {
	for i, counter := range counters {
		*sums[i] += times * *counter
	}
}

// Times holds the distributions of the times to open connections. A nil recorder has no samples.
// The caller of TakeTimes calls Close.
type Times struct {
	Connect   *latency.Recorder // TCP: from the SYN to the established connection
	Handshake *latency.Recorder // TLS or QUIC: until it was done at the client
	FirstByte *latency.Recorder // from the beginning of a call with its own connection to its answer's first byte
}

// Close frees the recorders' memory.
func (t Times) Close() {
	for _, r := range []*latency.Recorder{t.Connect, t.Handshake, t.FirstByte} {
		if r != nil {
			r.Close()
		}
	}
}

// Traffic counts the bytes and packets of connections below TLS. The kernel counts them
// for TCP, and quic-go for QUIC.
type Traffic struct {
	Transport string `json:"transport"` // tcp or udp; empty if there was no traffic

	// Payload of TCP segments, each byte once however often sent, or of UDP datagrams.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
	// TCP segments, or UDP datagrams.
	SentPackets     int64 `json:"sent_packets"`
	ReceivedPackets int64 `json:"received_packets"`
	// The segments without payload among them: TCP only.
	SentPureAcks     int64 `json:"sent_pure_acks,omitempty"`
	ReceivedPureAcks int64 `json:"received_pure_acks,omitempty"`
	// The payload of TLS handshakes: TCP only, for the handshakes that Handshakes counts.
	Handshakes             int64 `json:"handshakes,omitempty"`
	HandshakeSentBytes     int64 `json:"handshake_sent_bytes,omitempty"`
	HandshakeReceivedBytes int64 `json:"handshake_received_bytes,omitempty"`

	Retransmits int64 `json:"retransmits"` // segments sent again, or packets lost
	// HeaderBytes is the computed size of one packet's headers: IP and TCP, with its options, or
	// IP and UDP.
	HeaderBytes int64         `json:"header_bytes"`
	MinRTT      time.Duration `json:"min_rtt_ns"` // the least RTT of all connections so far
	// The smoothed RTTs of closed connections, and of open ones.
	ClosedRTT MeanRTT `json:"closed_rtt,omitzero"`
	OpenRTT   MeanRTT `json:"open_rtt,omitzero"`

	// TCP only, summed over all connections. Busy is the time with unacknowledged data.
	// Blocked is the part of it in which the peer's window or the send buffer was full.
	Busy    time.Duration `json:"busy_ns,omitempty"`
	Blocked time.Duration `json:"blocked_ns,omitempty"`

	// System calls that carried packets: over UDP the sockets' own; over TCP all writes of
	// the process, which the worker fills in. GSO says that one call may send several
	// packets: UDP only.
	SendCalls    int64 `json:"send_calls,omitempty"`
	ReceiveCalls int64 `json:"receive_calls,omitempty"`
	GSO          bool  `json:"gso,omitempty"`
}

// A MeanRTT holds the sum and the count of RTTs, so that means can be added.
type MeanRTT struct {
	Sum   time.Duration `json:"sum_ns"`
	Count int64         `json:"count"`
}

// RTT returns the mean over connections, or 0 if none has measured it.
func (t Traffic) RTT() time.Duration {
	count := t.ClosedRTT.Count + t.OpenRTT.Count
	if count == 0 {
		return 0
	}
	return (t.ClosedRTT.Sum + t.OpenRTT.Sum) / time.Duration(count)
}

// counters returns the figures that only grow.
func (t *Traffic) counters() []*int64 {
	return []*int64{
		&t.SentBytes, &t.ReceivedBytes, &t.SentPackets, &t.ReceivedPackets, &t.SentPureAcks, &t.ReceivedPureAcks,
		&t.Handshakes, &t.HandshakeSentBytes, &t.HandshakeReceivedBytes,
		&t.Retransmits, &t.SendCalls, &t.ReceiveCalls, (*int64)(&t.ClosedRTT.Sum), &t.ClosedRTT.Count,
		(*int64)(&t.Busy), (*int64)(&t.Blocked),
	}
}

// Since returns the traffic after an earlier reading.
func (t Traffic) Since(earlier Traffic) Traffic {
	addTo(t.counters(), earlier.counters(), -1)
	return t
}

// Plus returns the sum with the traffic of other connections.
func (t Traffic) Plus(other Traffic) Traffic {
	if other.Transport == "" {
		return t
	}
	addTo(t.counters(), other.counters(), 1)
	t.OpenRTT.Sum += other.OpenRTT.Sum
	t.OpenRTT.Count += other.OpenRTT.Count
	if t.MinRTT == 0 || other.MinRTT != 0 && other.MinRTT < t.MinRTT {
		t.MinRTT = other.MinRTT
	}
	t.Transport, t.HeaderBytes = other.Transport, other.HeaderBytes
	t.GSO = t.GSO || other.GSO
	return t
}

// dialTraffic sums the traffic of a dialer's TCP connections. The kernel's counts are read only
// when a connection closes and when Traffic is called, so that calls do not pay.
type dialTraffic struct {
	mu     sync.Mutex
	open   map[*countedConn]struct{}
	closed Traffic // sum over closed connections
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

// countedConn embeds the concrete type, so that writev, sendfile and SyscallConn work.
type countedConn struct {
	*net.TCPConn
	closed  func()
	traffic *dialTraffic
}

func (c *countedConn) Close() error {
	c.closed()
	c.traffic.remove(c)
	return c.TCPConn.Close()
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

// unwrap finds the connection of a type below wrappers with a method NetConn.
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
