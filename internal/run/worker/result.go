package worker

import (
	"cmp"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/wire/conn"
)

// Result is a worker's last event.
type Result struct {
	Server *ServerResult `json:"server,omitempty"`
	Client *ClientResult `json:"client,omitempty"`
	// Watched is the result of a sentinel.
	Watched []probe.Watched `json:"watched,omitempty"`

	// Workers do not print the fields below. An agent on another machine adds them, or whoever
	// merges several clients into one.
	Machine *Machine `json:"machine,omitempty"`
	// Parts holds the clients that Client was merged from. All instants are then on the clock
	// of the lab's machine.
	Parts []Part `json:"parts,omitempty"`
}

// A ServerResult holds a server's measurements of itself over its whole life; the lab cuts
// out the window.
type ServerResult struct {
	Usage *probe.Series `json:"usage,omitempty"`
	Noise *Noise        `json:"noise,omitempty"`
	// Allowance says what the kernel let the process use when it ended.
	Allowance *host.Allowance `json:"allowance,omitempty"`
	// Allocations counts the allocations since the server was ready, if the spec asked for it.
	Allocations *record.Allocations `json:"allocations,omitempty"`
	// CPU holds the call stacks on a CPU since the server was ready, if the spec asked for them.
	CPU *record.Stacks `json:"cpu,omitempty"`
	// Handled holds the instants of its handlers, if the spec asked for them.
	Handled Instants `json:"handled,omitempty"`
}

// A ClientResult holds what a client measured. Instants are nanoseconds of
// CLOCK_MONOTONIC, which all processes of one machine share.
type ClientResult struct {
	record.Measurement
	BeginNS       int64               `json:"begin_ns"`
	EndNS         int64               `json:"end_ns"`
	Failures      []record.ErrorCount `json:"failures,omitempty"`
	Connections   Connections         `json:"connections"`
	Usage         *probe.Window       `json:"usage,omitempty"`   // of the window
	Traffic       *Traffic            `json:"traffic,omitempty"` // in the window
	Census        *Census             `json:"census,omitempty"`
	CensusFailed  string              `json:"census_failed,omitempty"` // why there is none
	Noise         *Noise              `json:"noise,omitempty"`
	Allowance     *host.Allowance     `json:"allowance,omitempty"` // after the window
	EngineOwnNS   float64             `json:"engine_own_ns"`
	BetweenNS     int64               `json:"between_ns"`
	SamplesFailed string              `json:"samples_failed,omitempty"` // why the samples were not kept
	Allocations   *record.Allocations `json:"allocations,omitempty"`    // of all calls, where they were asked for
	CPU           *record.Stacks      `json:"cpu,omitempty"`            // call stacks of all calls, where they were asked for
	Calls         Instants            `json:"calls,omitempty"`          // in the window, where they were asked for
	// CallsWritten is the number of calls in the spec's CallsFile. If it is not 0, the
	// measurement is computed from them.
	CallsWritten int64 `json:"calls_written,omitempty"`
}

// Plus returns the result of two clients that worked at the same time, as if they were one: counts
// are sums. r keeps its figures that Measurement.Plus leaves out. It returns either census, since
// all calls have the same number of bytes.
func (r ClientResult) Plus(other ClientResult) ClientResult {
	r.Measurement = r.Measurement.Plus(other.Measurement)
	r.BeginNS, r.EndNS = min(r.BeginNS, other.BeginNS), max(r.EndNS, other.EndNS)
	r.Failures = record.PlusErrors(r.Failures, other.Failures)
	r.Connections = r.Connections.Plus(other.Connections)
	r.Usage = sum.Both(r.Usage, other.Usage)
	r.Traffic = sum.Both(r.Traffic, other.Traffic)
	r.Census = cmp.Or(r.Census, other.Census)
	r.CensusFailed = cmp.Or(r.CensusFailed, other.CensusFailed)
	r.Noise = sum.Any(r.Noise, other.Noise)
	r.Allowance = sum.Both(r.Allowance, other.Allowance)
	r.EngineOwnNS = max(r.EngineOwnNS, other.EngineOwnNS)
	r.BetweenNS += other.BetweenNS
	r.SamplesFailed = cmp.Or(r.SamplesFailed, other.SamplesFailed)
	r.Allocations = sum.Any(r.Allocations, other.Allocations)
	r.CPU = sum.Any(r.CPU, other.CPU)
	r.Calls = r.Calls.Plus(other.Calls)
	r.CallsWritten = 0 // the calls of each are already in its measurement
	return r
}

// LengthNS returns how long the load ran between the window's edges.
func (r *ClientResult) LengthNS() int64 { return r.EndNS - r.BeginNS - r.PausedNS }

// Connections holds the connections that a client was to open, and those that it opened.
type Connections struct {
	Mode   string      `json:"mode"`
	Want   int         `json:"want"`
	Total  conn.Counts `json:"total"`
	During int64       `json:"during"` // opened inside the window
	// Window holds the counts inside the window.
	Window conn.Counts `json:"window"`
	// How long opening took, for connections opened in the window; absent if there were none.
	Connect   *latency.Distribution `json:"connect,omitempty"`
	Handshake *latency.Distribution `json:"handshake,omitempty"`
	FirstByte *latency.Distribution `json:"first_byte,omitempty"`
}

// Plus returns the connections of both. Distributions stay those of c.
func (c Connections) Plus(other Connections) Connections {
	c.Want += other.Want
	c.Total, c.Window = c.Total.Plus(other.Total), c.Window.Plus(other.Window)
	c.During += other.During
	mode, err := scenario.ParseConnection(c.Mode)
	more, otherErr := scenario.ParseConnection(other.Mode)
	if err == nil && otherErr == nil {
		c.Mode = scenario.Connection{Mode: mode.Mode, Size: mode.Size + more.Size}.String()
	} else { // another program's
		c.Mode = cmp.Or(c.Mode, other.Mode)
	}
	return c
}

// Traffic holds the traffic of the client's connections in the window, to a few
// milliseconds at each edge: SpanNS is the time between the two readings.
type Traffic struct {
	SpanNS int64 `json:"span_ns"`
	conn.Traffic
}

// Plus returns the traffic of both, and the sum of their spans.
func (t Traffic) Plus(other Traffic) Traffic {
	return Traffic{SpanNS: t.SpanNS + other.SpanNS, Traffic: t.Traffic.Plus(other.Traffic)}
}

// Census holds what single calls put on the wire, as sums; the bytes of each layer
// follow from them. The calls are made one at a time over their own connection, after
// the window, so that counting disturbs nothing.
type Census struct {
	First conn.Traffic `json:"first"` // of the connection's first call
	Calls int64        `json:"calls"` // after the first; all fields below count these calls
	// Sent and received: encoded messages, and TLS records where Secured.
	MessageSentBytes     int64 `json:"message_sent_bytes"`
	MessageReceivedBytes int64 `json:"message_received_bytes"`
	Secured              bool  `json:"secured,omitempty"` // with TLS over TCP
	RecordsSent          int64 `json:"records_sent,omitempty"`
	RecordsReceived      int64 `json:"records_received,omitempty"`
	// QUIC: the content of its streams, and the packets with only acknowledgements, which Traffic
	// counts as pure. QUIC's probes for larger packets, which come in a connection's first
	// calls, are left out.
	StreamSentBytes     int64        `json:"stream_sent_bytes,omitempty"`
	StreamReceivedBytes int64        `json:"stream_received_bytes,omitempty"`
	AckSentBytes        int64        `json:"ack_sent_bytes,omitempty"`
	AckReceivedBytes    int64        `json:"ack_received_bytes,omitempty"`
	Traffic             conn.Traffic `json:"traffic"`
	Handshakes          Handshakes   `json:"handshakes,omitzero"` // of connections as the trial's mode begins them
}

// Handshakes holds the bytes on connections besides calls: with TLS over TCP, until the
// client's Finished; with QUIC, before the first call, or, in modes with a connection
// for each call, all bytes that are not the call's.
type Handshakes struct {
	Count         int64 `json:"count"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// Noise holds the share of its CPUs that a worker lost to others while it only spun. The
// worker itself spins, because its priority decides what others can take.
type Noise struct {
	LostBefore   float64 `json:"lost_before"` // shares of the spin
	LostAfter    float64 `json:"lost_after"`
	LargestGapNS int64   `json:"largest_gap_ns"`
}

// Plus returns the worse of both.
func (n Noise) Plus(other Noise) Noise {
	n.LostBefore, n.LostAfter = max(n.LostBefore, other.LostBefore), max(n.LostAfter, other.LostAfter)
	n.LargestGapNS = max(n.LargestGapNS, other.LargestGapNS)
	return n
}

// A Part is one of several clients that the lab treats as one client.
type Part struct {
	Agent   string
	Clients int
	Ready   Ready
	Result  Result // without parts
}

// A Machine holds an agent's readings of a worker's machine while the worker lived.
type Machine struct {
	Boot    string           `json:"boot"`     // differs between machines, and between their starts
	WholeNS int64            `json:"whole_ns"` // of all CPUs
	OwnNS   int64            `json:"own_ns"`   // CPU time of the agent and its children; no part of what others took
	State   record.HostState `json:"state"`
	PIDs    []int            `json:"pids,omitempty"` // the agent, and what it started
	CPUs    []int            `json:"cpus,omitempty"` // the CPUs that the worker was given
	// Watched is the result of a sentinel of those CPUs.
	Watched []probe.Watched `json:"watched,omitempty"`
}

// Shift moves all instants of a result, as from the clock of another machine to this one's.
func (r *Result) Shift(by int64) {
	for i := range r.Watched {
		r.Watched[i].Shift(by)
	}
	if m := r.Machine; m != nil {
		for i := range m.Watched {
			m.Watched[i].Shift(by)
		}
	}
	if s := r.Server; s != nil {
		if s.Usage != nil {
			s.Usage.Shift(by)
		}
		s.Handled.shift(by)
	}
	if c := r.Client; c != nil {
		c.BeginNS += by
		c.EndNS += by
		if c.Usage != nil {
			c.Usage.AtNS += by
		}
		c.Calls.shift(by)
	}
}
