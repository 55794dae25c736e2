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

// Wire holds the bytes that one call puts on the wire, layer by layer.
type Wire struct {
	Request           WireBytes `json:"request" csv:"request_*"`
	Response          WireBytes `json:"response" csv:"response_*"`
	FirstSent         Figure    `json:"first_sent_bytes" interval:"-"` // by a connection's first call
	FirstReceived     Figure    `json:"first_received_bytes" interval:"-"`
	HandshakeSent     Figure    `json:"handshake_sent_bytes" interval:"-"` // besides a connection's calls
	HandshakeReceived Figure    `json:"handshake_received_bytes" interval:"-"`
}

// WireBytes is one direction of a call. A layer is null if its bytes could not be separated.
type WireBytes struct {
	Message   Figure  `json:"message_bytes" interval:"-"`
	Protocol  Figure  `json:"protocol_bytes" interval:"-"`
	Security  *Figure `json:"security_bytes" interval:"-"`
	Transport *Figure `json:"transport_bytes" interval:"-"`
	Acks      *Figure `json:"ack_bytes" interval:"-"`
	Total     Figure  `json:"total_bytes" csv:"bytes" interval:"-"`
}

// wireOf returns nil if no trial counted its bytes.
func wireOf(trials []Trial) *Wire {
	looked := Filter(trials, func(t Trial) bool { return t.Wire != nil })
	if len(looked) == 0 {
		return nil
	}
	of := func(field func(*record.Wire) float64) Figure {
		return Over(looked, func(t Trial) float64 { return field(t.Wire) })
	}
	return &Wire{
		Request:           wireBytesOf(looked, func(w *record.Wire) record.WireBytes { return w.Request }),
		Response:          wireBytesOf(looked, func(w *record.Wire) record.WireBytes { return w.Response }),
		FirstSent:         of(func(w *record.Wire) float64 { return w.FirstSentBytes }),
		FirstReceived:     of(func(w *record.Wire) float64 { return w.FirstReceivedBytes }),
		HandshakeSent:     of(func(w *record.Wire) float64 { return w.HandshakeSentBytes }),
		HandshakeReceived: of(func(w *record.Wire) float64 { return w.HandshakeReceivedBytes }),
	}
}

func wireBytesOf(trials []Trial, side func(*record.Wire) record.WireBytes) WireBytes {
	layer := func(field func(record.WireBytes) *float64) *Figure {
		return Known(trials, func(t Trial) float64 { return Number(field(side(t.Wire))) })
	}
	return WireBytes{
		Message:   Over(trials, func(t Trial) float64 { return side(t.Wire).MessageBytes }),
		Protocol:  Over(trials, func(t Trial) float64 { return side(t.Wire).ProtocolBytes }),
		Security:  layer(func(b record.WireBytes) *float64 { return b.SecurityBytes }),
		Transport: layer(func(b record.WireBytes) *float64 { return b.TransportBytes }),
		Acks:      layer(func(b record.WireBytes) *float64 { return b.AckBytes }),
		Total:     Over(trials, func(t Trial) float64 { return side(t.Wire).TotalBytes() }),
	}
}

// Bulk holds the cost and the rate of messages under a load of large ones.
type Bulk struct {
	ServerCPU *Figure `json:"server_cpu_s_per_gb"` // null if it was not measured
	Rate      Figure  `json:"gb_per_second"`       // of messages, both ways together
}

const (
	leastBulk = 1 << 20 // bytes of a call's messages
	gigabyte  = 1e9
)

// bulkOf returns nil if calls carry little, or nobody counted.
func bulkOf(trials []Trial) *Bulk {
	looked := Filter(trials, func(t Trial) bool { return t.Wire != nil })
	carried := func(t Trial) float64 { return t.Wire.Request.MessageBytes + t.Wire.Response.MessageBytes }
	if len(looked) == 0 || Over(looked, carried).Value < leastBulk {
		return nil
	}
	return &Bulk{
		ServerCPU: Known(looked, func(t Trial) float64 { return CPUOf(ServerOf)(t) / 1e6 / (carried(t) / gigabyte) }),
		Rate:      Over(looked, func(t Trial) float64 { return throughput(t) * carried(t) / gigabyte }),
	}
}
