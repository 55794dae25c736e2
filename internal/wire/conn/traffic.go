package conn

import "time"

// Traffic counts the bytes and packets of connections below TLS. The kernel counts them
// for TCP, and quic-go for QUIC.
type Traffic struct {
	Transport string `json:"transport"` // tcp or udp; empty if there was no traffic

	// Payload of TCP segments, each byte once however often it was sent, or of
	// UDP datagrams.
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
	// HeaderBytes is the size of the headers of one packet with payload: IP and TCP, with
	// the options in use, or IP and UDP. It is computed, not counted.
	HeaderBytes int64         `json:"header_bytes"`
	MinRTT      time.Duration `json:"min_rtt_ns"` // of all connections so far
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
	before := earlier.counters()
	for i, counter := range t.counters() {
		*counter -= *before[i]
	}
	return t
}

// Plus returns the sum with the traffic of other connections.
func (t Traffic) Plus(other Traffic) Traffic {
	if other.Transport == "" {
		return t
	}
	more := other.counters()
	for i, counter := range t.counters() {
		*counter += *more[i]
	}
	t.OpenRTT.Sum += other.OpenRTT.Sum
	t.OpenRTT.Count += other.OpenRTT.Count
	if t.MinRTT == 0 || other.MinRTT != 0 && other.MinRTT < t.MinRTT {
		t.MinRTT = other.MinRTT
	}
	t.Transport, t.HeaderBytes = other.Transport, other.HeaderBytes
	t.GSO = t.GSO || other.GSO
	return t
}
