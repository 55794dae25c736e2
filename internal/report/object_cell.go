package report

import (
	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
)

// EndObject is what one end cost over the window. Figures are null where they
// were not measured; of these, peak_bytes alone has an interval.
type EndObject struct {
	Share      Number `json:"cpu_share"`  // of the CPU time of both ends
	Busy       Number `json:"busy"`       // share of the CPUs it was given
	RSS        Number `json:"rss_bytes"`  // at the window's end
	Peak       Number `json:"peak_bytes"` // the most in the window
	Own        Number `json:"own_bytes"`  // the most without the pages of files
	Heap       Number `json:"heap_bytes"`
	Threads    Number `json:"threads"` // the most at once, as the next two
	Sockets    Number `json:"sockets"`
	Goroutines Number `json:"goroutines"`
}

// SurvivalObject is how many requests were answered, over all trials that came
// to a measurement, invalid ones included.
type SurvivalObject struct {
	Trials    int                 `json:"trials"`
	Requests  int64               `json:"requests"`
	Succeeded int64               `json:"succeeded"`
	Share     Number              `json:"share"`    // null where nothing was requested
	Failures  []record.ErrorCount `json:"failures"` // by class and code, most frequent first
}

// ConnectionsObject is what was asked for and what came of it in the window,
// over the trials that the cell's figures are of.
type ConnectionsObject struct {
	PerRequest      bool        `json:"per_request"` // every request asks for a connection of its own
	Secure          bool        `json:"secure"`      // over TLS or QUIC
	Want            int         `json:"want"`        // at once
	During          int64       `json:"during"`      // opened in the window
	Failed          int64       `json:"failed"`      // attempts
	Full            int64       `json:"full"`        // handshakes with a certificate
	Resumed         int64       `json:"resumed"`     // handshakes that resumed a session
	Early           int64       `json:"early"`       // of those, with early data that the server took
	EarlyRefused    int64       `json:"early_refused"`
	HandshakeFailed int64       `json:"handshake_failed"`
	Achieved        Number      `json:"achieved"`      // share of the connections that began as asked; null in modes that keep theirs
	Differs         bool        `json:"differs"`       // what was achieved is not what was asked for
	Connect         TimesObject `json:"connect_us"`    // TCP: SYN to established
	Handshake       TimesObject `json:"handshake_us"`  // TLS or QUIC
	FirstByte       TimesObject `json:"first_byte_us"` // from a call's beginning, on its own connection, to its answer's first byte
}

// TimesObject is a short distribution of times, in microseconds; null where
// nothing was timed.
type TimesObject struct {
	Mean Number `json:"mean"`
	P50  Number `json:"p50"`
	P99  Number `json:"p99"`
}

// TrafficObject is what went over the connections in the window, below TLS.
type TrafficObject struct {
	Transport   string          `json:"transport"` // tcp or udp
	Offload     string          `json:"offload"`   // gso or none; empty where it is not known
	Sent        DirectionObject `json:"sent"`      // by the client
	Received    DirectionObject `json:"received"`
	Retransmits Number          `json:"retransmits_per_thousand"` // requests
	RTT         Number          `json:"rtt_us"`
	MinRTT      Number          `json:"min_rtt_us"`
}

// DirectionObject is one way of the traffic, by the request. Figures are null
// where they were not measured; of these, bytes alone has an interval.
type DirectionObject struct {
	Bytes     Number `json:"bytes"`     // payload of segments or datagrams
	Handshake Number `json:"handshake"` // bytes before a call's first
	Packets   Number `json:"packets"`
	PureAcks  Number `json:"pure_acks"`        // segments without payload
	PerCall   Number `json:"packets_per_call"` // of the system
}

// WireObject is what one call puts on the wire, in bytes, layer by layer.
type WireObject struct {
	Request           WireBytesObject `json:"request"`
	Response          WireBytesObject `json:"response"`
	FirstSent         Number          `json:"first_sent_bytes"` // by a connection's first call
	FirstReceived     Number          `json:"first_received_bytes"`
	HandshakeSent     Number          `json:"handshake_sent_bytes"` // besides a connection's calls
	HandshakeReceived Number          `json:"handshake_received_bytes"`
}

// WireBytesObject is one direction of a call. A layer is null where it could
// not be told apart.
type WireBytesObject struct {
	Message   Number `json:"message_bytes"`
	Protocol  Number `json:"protocol_bytes"`
	Security  Number `json:"security_bytes"`
	Transport Number `json:"transport_bytes"`
	Acks      Number `json:"ack_bytes"`
	Total     Number `json:"total_bytes"`
}

// figures turns those of a cell into numbers, and notes their intervals.
type figures struct {
	cell      *analysis.Cell
	intervals IntervalsByField
}

// take notes the figure's interval under its path. A nil figure is null, as is
// any of a cell that has none.
func (f figures) take(path string, figure *analysis.Figure) Number {
	if figure == nil || !f.cell.HasFigures() {
		figure = &none
	}
	return f.intervals.take(path, *figure)
}

// bare leaves the interval out: a page with one for everything would be twice
// as large.
func (f figures) bare(figure *analysis.Figure) Number {
	if figure == nil || !f.cell.HasFigures() {
		figure = &none
	}
	return Number(figure.Value)
}

func (f figures) end(path string, e *analysis.End) EndObject {
	return EndObject{
		Share: f.bare(e.Share), Busy: f.bare(e.Busy),
		RSS: f.bare(e.RSS), Peak: f.take(path+".peak_bytes", e.Peak), Own: f.bare(e.Own), Heap: f.bare(e.Heap),
		Threads: f.bare(e.Threads), Sockets: f.bare(e.Sockets), Goroutines: f.bare(e.Goroutines),
	}
}

func (f figures) times(path string, t *analysis.Times) TimesObject {
	if t == nil {
		t = &analysis.Times{Mean: none, P50: none, P99: none}
	}
	return TimesObject{
		Mean: f.take(path+".mean", &t.Mean),
		P50:  f.take(path+".p50", &t.P50),
		P99:  f.take(path+".p99", &t.P99),
	}
}

func (f figures) connections(c *analysis.Connections) ConnectionsObject {
	object := ConnectionsObject{
		PerRequest: c.PerRequest, Secure: c.Secure, Want: c.Want,
		During: c.During, Failed: c.Failed,
		Full: c.Full, Resumed: c.Resumed, Early: c.Early,
		EarlyRefused: c.EarlyRefused, HandshakeFailed: c.HandshakeFailed,
		Achieved: Number(none.Value), Differs: c.Differs,
		Connect:   f.times("connections.connect_us", c.Connect),
		Handshake: f.times("connections.handshake_us", c.Handshake),
		FirstByte: f.times("connections.first_byte_us", c.FirstByte),
	}
	if c.Achieved != nil {
		object.Achieved = Number(*c.Achieved)
	}
	return object
}

func survivalObject(s *analysis.Survival) SurvivalObject {
	object := SurvivalObject{
		Trials: s.Trials, Requests: s.Requests, Succeeded: s.Succeeded,
		Share: Number(none.Value), Failures: listed(s.Failures),
	}
	if share, known := s.Share(); known {
		object.Share = Number(share)
	}
	return object
}

func (f figures) traffic(t *analysis.Traffic) *TrafficObject {
	if t == nil {
		return nil
	}
	direction := func(path string, d *analysis.Direction) DirectionObject {
		return DirectionObject{
			Bytes:     f.take(path+".bytes", &d.Bytes),
			Handshake: f.bare(d.Handshake),
			Packets:   f.bare(d.Packets), PureAcks: f.bare(d.PureAcks), PerCall: f.bare(d.PerCall),
		}
	}
	return &TrafficObject{
		Transport: t.Transport, Offload: t.Offload,
		Sent:        direction("traffic.sent", &t.Sent),
		Received:    direction("traffic.received", &t.Received),
		Retransmits: f.bare(t.Retransmits), RTT: f.bare(t.RTT), MinRTT: f.bare(t.MinRTT),
	}
}

func (f figures) wire(w *analysis.Wire) *WireObject {
	if w == nil {
		return nil
	}
	layers := func(b *analysis.WireBytes) WireBytesObject {
		return WireBytesObject{
			Message: f.bare(&b.Message), Protocol: f.bare(&b.Protocol), Security: f.bare(b.Security),
			Transport: f.bare(b.Transport), Acks: f.bare(b.Acks), Total: f.bare(&b.Total),
		}
	}
	return &WireObject{
		Request: layers(&w.Request), Response: layers(&w.Response),
		FirstSent: f.bare(&w.FirstSent), FirstReceived: f.bare(&w.FirstReceived),
		HandshakeSent: f.bare(&w.HandshakeSent), HandshakeReceived: f.bare(&w.HandshakeReceived),
	}
}
