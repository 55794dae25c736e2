package matrix

import (
	"math"

	"wirelab.dev/internal/data/record"
)

// Traffic counts what went over the connections in the window, below TLS.
type Traffic struct {
	Transport   string    `json:"transport"`         // tcp or udp
	Offload     string    `json:"offload"`           // gso or none; empty if it is not known
	Sent        Direction `json:"sent" csv:"sent_*"` // by the client
	Received    Direction `json:"received" csv:"received_*"`
	Retransmits *Figure   `json:"retransmits_per_thousand" csv:"retransmits_per_thousand" interval:"-"` // requests
	RTT         *Figure   `json:"rtt_us" csv:"rtt_us" interval:"-"`
	MinRTT      *Figure   `json:"min_rtt_us" interval:"-"`
}

// A Direction is one way of the traffic, per request. Figures are null if they were not
// measured; of these, bytes alone has an interval.
type Direction struct {
	Bytes     Figure  `json:"bytes" csv:"bytes_per_request"` // payload of segments or datagrams
	Handshake *Figure `json:"handshake" interval:"-"`        // bytes before a call's first
	Packets   *Figure `json:"packets" csv:"packets_per_request" interval:"-"`
	PureAcks  *Figure `json:"pure_acks" interval:"-"`                               // segments without payload
	PerCall   *Figure `json:"packets_per_call" csv:"packets_per_call" interval:"-"` // of the system
}

// trafficOf returns nil unless every trial measured its traffic.
func trafficOf(trials []Trial) *Traffic {
	if !hasAll(trials, func(t Trial) bool { return t.Traffic != nil && t.Completed > 0 }) {
		return nil
	}
	one := trials[0].Traffic
	return &Traffic{
		Transport: one.Transport, Offload: one.Offload,
		Sent: directionOf(trials, func(t *record.Traffic) counters {
			return counters{t.SentBytes, t.HandshakeSentBytes, t.SentPackets, t.SentPureAcks, t.SendCalls}
		}),
		Received: directionOf(trials, func(t *record.Traffic) counters {
			return counters{t.ReceivedBytes, t.HandshakeReceivedBytes, t.ReceivedPackets, t.ReceivedPureAcks, t.ReceiveCalls}
		}),
		Retransmits: Known(trials, Retransmits),
		RTT:         Known(trials, func(t Trial) float64 { return Number(t.Traffic.RTTNS) / 1e3 }),
		MinRTT:      Known(trials, func(t Trial) float64 { return Number(t.Traffic.MinRTTNS) / 1e3 }),
	}
}

// counters holds the counters of one direction in a record.
type counters struct {
	bytes                               int64
	handshake, packets, pureAcks, calls *int64
}

func directionOf(trials []Trial, of func(*record.Traffic) counters) Direction {
	perRequest := func(count func(counters) *int64) *Figure {
		return Known(trials, func(t Trial) float64 { return Number(count(of(t.Traffic))) / RequestsSeen(t) })
	}
	return Direction{
		Bytes:     Over(trials, func(t Trial) float64 { return float64(of(t.Traffic).bytes) / RequestsSeen(t) }),
		Handshake: perRequest(func(c counters) *int64 { return c.handshake }),
		Packets:   perRequest(func(c counters) *int64 { return c.packets }),
		PureAcks:  perRequest(func(c counters) *int64 { return c.pureAcks }),
		PerCall: Known(trials, func(t Trial) float64 {
			if c := of(t.Traffic); Number(c.calls) != 0 {
				return Number(c.packets) / Number(c.calls)
			}
			return math.NaN()
		}),
	}
}
