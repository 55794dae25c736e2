package conn

import (
	"net"
	"sync"
	"time"

	"wirelab.dev/internal/base/latency"
)

// Counts holds a Dialer's numbers of connections and handshakes.
type Counts struct {
	Opened int64 `json:"opened"` // connections opened since the dialer was made
	Failed int64 `json:"failed"` // attempts to connect that failed
	Open   int64 `json:"open"`   // connections that are open at present

	Full          int64 `json:"full,omitempty"`           // TLS handshakes that resumed no session
	Resumed       int64 `json:"resumed,omitempty"`        // TLS handshakes that resumed a session
	Early         int64 `json:"early,omitempty"`          // resumed handshakes whose early data the server accepted
	EarlyRefused  int64 `json:"early_refused,omitempty"`  // resumed handshakes whose early data the server rejected
	HandshakeFail int64 `json:"handshake_fail,omitempty"` // connections whose handshake failed
	SentAgain     int64 `json:"sent_again,omitempty"`     // requests in refused early data, which were sent again
}

func (c *Counts) counters() []*int64 {
	return []*int64{&c.Opened, &c.Failed, &c.Full, &c.Resumed, &c.Early, &c.EarlyRefused, &c.HandshakeFail, &c.SentAgain}
}

// Since subtracts an earlier count. Open keeps its current value.
func (c Counts) Since(earlier Counts) Counts {
	addTo(c.counters(), earlier.counters(), -1)
	return c
}

// Plus returns the sums of the counts.
func (c Counts) Plus(other Counts) Counts {
	addTo(c.counters(), other.counters(), 1)
	c.Open += other.Open
	return c
}

// addTo multiplies each counter by times, and adds the product to the sum with the same index.
func addTo(sums, counters []*int64, times int64) {
	for i, counter := range counters {
		*sums[i] += times * *counter
	}
}

// Times holds the distributions of connection times. A nil recorder has no samples. The caller of
// TakeTimes must call Close.
type Times struct {
	Connect   *latency.Recorder // TCP: from the SYN to the established connection
	Handshake *latency.Recorder // TLS or QUIC: from the start to the end at the client
	FirstByte *latency.Recorder // from the start of a call with its own connection to the first byte of the answer
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

	// SentBytes and ReceivedBytes count the payload of TCP segments or UDP datagrams. TCP bytes
	// count once, even if they are sent again.
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
	// SentPackets and ReceivedPackets count TCP segments or UDP datagrams.
	SentPackets     int64 `json:"sent_packets"`
	ReceivedPackets int64 `json:"received_packets"`
	// SentPureAcks and ReceivedPureAcks count TCP segments without payload.
	SentPureAcks     int64 `json:"sent_pure_acks,omitempty"`
	ReceivedPureAcks int64 `json:"received_pure_acks,omitempty"`
	// Handshakes counts TLS handshakes over TCP. The next two fields count their bytes.
	Handshakes             int64 `json:"handshakes,omitempty"`
	HandshakeSentBytes     int64 `json:"handshake_sent_bytes,omitempty"`
	HandshakeReceivedBytes int64 `json:"handshake_received_bytes,omitempty"`

	Retransmits int64 `json:"retransmits"` // TCP segments sent again, or QUIC packets lost
	// HeaderBytes is the computed size of one packet's headers: IP, and TCP with options or UDP.
	HeaderBytes int64         `json:"header_bytes"`
	MinRTT      time.Duration `json:"min_rtt_ns"` // the smallest RTT of all connections so far
	// ClosedRTT and OpenRTT hold the smoothed RTTs of closed and of open connections.
	ClosedRTT MeanRTT `json:"closed_rtt,omitzero"`
	OpenRTT   MeanRTT `json:"open_rtt,omitzero"`

	// Busy is the time with unacknowledged data, summed over all TCP connections. Blocked is the
	// part of Busy in which the peer's window or the send buffer was full.
	Busy    time.Duration `json:"busy_ns,omitempty"`
	Blocked time.Duration `json:"blocked_ns,omitempty"`

	// SendCalls and ReceiveCalls count system calls that carried packets. For TCP, the worker
	// counts all writes of the process instead. GSO says that a UDP call may send many packets.
	SendCalls    int64 `json:"send_calls,omitempty"`
	ReceiveCalls int64 `json:"receive_calls,omitempty"`
	GSO          bool  `json:"gso,omitempty"`
}

// A MeanRTT holds a sum of RTTs and their number, so that means can be combined.
type MeanRTT struct {
	Sum   time.Duration `json:"sum_ns"`
	Count int64         `json:"count"`
}

// RTT returns the mean over all connections, or 0 if no connection has measured an RTT.
func (t Traffic) RTT() time.Duration {
	count := t.ClosedRTT.Count + t.OpenRTT.Count
	if count == 0 {
		return 0
	}
	return (t.ClosedRTT.Sum + t.OpenRTT.Sum) / time.Duration(count)
}

func (t *Traffic) counters() []*int64 {
	return []*int64{
		&t.SentBytes, &t.ReceivedBytes, &t.SentPackets, &t.ReceivedPackets, &t.SentPureAcks, &t.ReceivedPureAcks,
		&t.Handshakes, &t.HandshakeSentBytes, &t.HandshakeReceivedBytes,
		&t.Retransmits, &t.SendCalls, &t.ReceiveCalls, (*int64)(&t.ClosedRTT.Sum), &t.ClosedRTT.Count,
		(*int64)(&t.Busy), (*int64)(&t.Blocked),
	}
}

// Since subtracts an earlier reading.
func (t Traffic) Since(earlier Traffic) Traffic {
	addTo(t.counters(), earlier.counters(), -1)
	return t
}

// Plus adds the traffic of other connections.
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

// dialTraffic sums the traffic of a dialer's TCP connections. It asks the kernel only when a
// connection closes or Traffic is called, so that calls do not become slower.
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

// remove adds a connection's traffic to closed. Call it before the connection is closed. Later
// calls do nothing.
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

// countedConn embeds *net.TCPConn and not net.Conn, so that writev, sendfile and SyscallConn work.
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

// countHandshake counts the connection's traffic so far as handshake traffic.
func (t *dialTraffic) countHandshake(conn net.Conn) {
	counted, ok := findConn[*countedConn](conn)
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

// findConn removes wrappers with a method NetConn until it finds a connection of type C.
func findConn[C any](conn net.Conn) (found C, ok bool) {
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

func tcpTraffic(conn *net.TCPConn) (t Traffic, known bool) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return Traffic{}, false
	}
	err = raw.Control(func(descriptor uintptr) { t, known = SocketTraffic(int(descriptor)) })
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
