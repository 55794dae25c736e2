package analysis

import "wirelab.dev/internal/record"

// Traffic is what went over the connections in the window, below TLS.
type Traffic struct {
	Transport   string    `json:"transport"`         // tcp or udp
	Offload     string    `json:"offload"`           // gso or none; empty where it is not known
	Sent        Direction `json:"sent" csv:"sent_*"` // by the client
	Received    Direction `json:"received" csv:"received_*"`
	Retransmits *Figure   `json:"retransmits_per_thousand" csv:"retransmits_per_thousand" interval:"-"` // requests
	RTT         *Figure   `json:"rtt_us" csv:"rtt_us" interval:"-"`
	MinRTT      *Figure   `json:"min_rtt_us" interval:"-"`
}

// Direction is one way of the traffic, by the request. Figures are null where
// they were not measured; of these, bytes alone has an interval.
type Direction struct {
	Bytes     Figure  `json:"bytes" csv:"bytes_per_request"` // payload of segments or datagrams
	Handshake *Figure `json:"handshake" interval:"-"`        // bytes before a call's first
	Packets   *Figure `json:"packets" csv:"packets_per_request" interval:"-"`
	PureAcks  *Figure `json:"pure_acks" interval:"-"`                               // segments without payload
	PerCall   *Figure `json:"packets_per_call" csv:"packets_per_call" interval:"-"` // of the system
}

// trafficOf is nil where it was not measured in every trial.
func trafficOf(trials []trial) *Traffic {
	if !hasAll(trials, func(t trial) bool { return t.Traffic != nil && t.Completed > 0 }) {
		return nil
	}
	one := trials[0].Traffic
	of := func(field func(*record.Traffic) *int64, scale float64) *Figure {
		return known(trials, func(t trial) (float64, bool) {
			v, ok := pointed(field(t.Traffic))
			return scale * v / requestsSeen(t), ok
		})
	}
	alone := func(field func(*record.Traffic) *int64) *Figure {
		return known(trials, func(t trial) (float64, bool) {
			v, ok := pointed(field(t.Traffic))
			return v / 1e3, ok
		})
	}
	return &Traffic{
		Transport: one.Transport, Offload: one.Offload,
		Sent: Direction{
			Bytes:     over(trials, func(t trial) float64 { return float64(t.Traffic.SentBytes) / requestsSeen(t) }),
			Handshake: of(func(t *record.Traffic) *int64 { return t.HandshakeSentBytes }, 1),
			Packets:   of(func(t *record.Traffic) *int64 { return t.SentPackets }, 1),
			PureAcks:  of(func(t *record.Traffic) *int64 { return t.SentPureAcks }, 1),
			PerCall:   perCall(trials, func(t *record.Traffic) (packets, calls *int64) { return t.SentPackets, t.SendCalls }),
		},
		Received: Direction{
			Bytes:     over(trials, func(t trial) float64 { return float64(t.Traffic.ReceivedBytes) / requestsSeen(t) }),
			Handshake: of(func(t *record.Traffic) *int64 { return t.HandshakeReceivedBytes }, 1),
			Packets:   of(func(t *record.Traffic) *int64 { return t.ReceivedPackets }, 1),
			PureAcks:  of(func(t *record.Traffic) *int64 { return t.ReceivedPureAcks }, 1),
			PerCall:   perCall(trials, func(t *record.Traffic) (packets, calls *int64) { return t.ReceivedPackets, t.ReceiveCalls }),
		},
		Retransmits: of(func(t *record.Traffic) *int64 { return t.Retransmits }, 1000),
		RTT:         alone(func(t *record.Traffic) *int64 { return t.RTTNS }),
		MinRTT:      alone(func(t *record.Traffic) *int64 { return t.MinRTTNS }),
	}
}

// requestsSeen is how many requests ended while the traffic was watched, which
// is a little more or less than the window.
func requestsSeen(t trial) float64 {
	if t.Traffic.SpanNS == 0 || t.WindowNS == 0 {
		return float64(t.Completed)
	}
	return float64(t.Completed) * float64(t.Traffic.SpanNS) / float64(t.WindowNS)
}

func perCall(trials []trial, of func(*record.Traffic) (packets, calls *int64)) *Figure {
	return known(trials, func(t trial) (float64, bool) {
		packets, calls := of(t.Traffic)
		if packets == nil || calls == nil || *calls == 0 {
			return 0, false
		}
		return float64(*packets) / float64(*calls), true
	})
}
