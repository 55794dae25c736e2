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

// A Result is the content of a worker's result event.
type Result struct {
	Server *ServerResult `json:"server,omitempty"`
	Client *ClientResult `json:"client,omitempty"`
	// Watched holds a sentinel's observations.
	Watched []probe.SentinelResult `json:"watched,omitempty"`

	// Workers do not print the fields below. An agent adds Machine, and merging several clients
	// adds Parts.
	Machine *MachineReadings `json:"machine,omitempty"`
	// Parts holds the results that were merged into Client. Their instants are on the clock of
	// the lab's machine.
	Parts []ClientPart `json:"parts,omitempty"`
}

// A ServerResult holds a server's measurements of itself over its whole life. The lab uses only
// the part in the window.
type ServerResult struct {
	Usage *probe.Series `json:"usage,omitempty"`
	Noise *CPUNoise     `json:"noise,omitempty"`
	// Allowance holds the CPUs and the quota that the kernel allowed the process at its end.
	Allowance *host.Allowance `json:"allowance,omitempty"`
	// Allocations counts the allocations since the server was ready, if the spec asked for it.
	Allocations *record.Allocations `json:"allocations,omitempty"`
	// CPU holds the call stacks on a CPU since the server was ready, if the spec asked for them.
	CPU *record.Stacks `json:"cpu,omitempty"`
	// Handled holds the instants of the server's handlers, if the spec asked for them.
	Handled CallInstants `json:"handled,omitempty"`
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
	Census        *ByteCensus         `json:"census,omitempty"`
	CensusFailed  string              `json:"census_failed,omitempty"` // why there is none
	Noise         *CPUNoise           `json:"noise,omitempty"`
	Allowance     *host.Allowance     `json:"allowance,omitempty"` // after the window
	EngineOwnNS   float64             `json:"engine_own_ns"`
	BetweenNS     int64               `json:"between_ns"`
	SamplesFailed string              `json:"samples_failed,omitempty"` // why the samples were not kept
	Allocations   *record.Allocations `json:"allocations,omitempty"`    // of all calls, where they were asked for
	CPU           *record.Stacks      `json:"cpu,omitempty"`            // call stacks of all calls, where they were asked for
	Calls         CallInstants        `json:"calls,omitempty"`          // in the window, where they were asked for
	// CallsWritten is the number of calls in the spec's CallsFile. If it is not 0, the
	// measurement is computed from them.
	CallsWritten int64 `json:"calls_written,omitempty"`
}

// Plus returns the result of two clients that ran at the same time, as if they were one client: it
// adds counts. Figures that cannot be added keep the value of r. It returns the census of either
// client, since the calls of both have the same number of bytes.
func (r ClientResult) Plus(other ClientResult) ClientResult {
	r.Measurement = r.Measurement.Plus(other.Measurement)
	r.BeginNS, r.EndNS = min(r.BeginNS, other.BeginNS), max(r.EndNS, other.EndNS)
	r.Failures = record.PlusErrors(r.Failures, other.Failures)
	r.Connections = r.Connections.Plus(other.Connections)
	r.Usage = sum.AddIfBoth(r.Usage, other.Usage)
	r.Traffic = sum.AddIfBoth(r.Traffic, other.Traffic)
	r.Census = cmp.Or(r.Census, other.Census)
	r.CensusFailed = cmp.Or(r.CensusFailed, other.CensusFailed)
	r.Noise = sum.AddPresent(r.Noise, other.Noise)
	r.Allowance = sum.AddIfBoth(r.Allowance, other.Allowance)
	r.EngineOwnNS = max(r.EngineOwnNS, other.EngineOwnNS)
	r.BetweenNS += other.BetweenNS
	r.SamplesFailed = cmp.Or(r.SamplesFailed, other.SamplesFailed)
	r.Allocations = sum.AddPresent(r.Allocations, other.Allocations)
	r.CPU = sum.AddPresent(r.CPU, other.CPU)
	r.Calls = r.Calls.Plus(other.Calls)
	r.CallsWritten = 0 // the calls of each are already in its measurement
	return r
}

// LengthNS returns the length of the window without its pauses.
func (r *ClientResult) LengthNS() int64 { return r.EndNS - r.BeginNS - r.PausedNS }

// Connections counts the connections that a client wanted and those that it opened.
type Connections struct {
	Mode   string      `json:"mode"`
	Want   int         `json:"want"`
	Total  conn.Counts `json:"total"`
	During int64       `json:"during"` // opened inside the window
	// Window holds the counts inside the window.
	Window conn.Counts `json:"window"`
	// Connect, Handshake and FirstByte say how long opening took, for connections opened in the
	// window. They are absent if there were none.
	Connect   *latency.Distribution `json:"connect,omitempty"`
	Handshake *latency.Distribution `json:"handshake,omitempty"`
	FirstByte *latency.Distribution `json:"first_byte,omitempty"`
}

// Plus adds the counts of two clients' connections. The distributions of other are ignored.
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

// Traffic holds the traffic of the client's connections between two readings, a few milliseconds
// from the window's edges. SpanNS is the time between the readings.
type Traffic struct {
	SpanNS int64 `json:"span_ns"`
	conn.Traffic
}

// Plus adds the traffic and the spans of two clients.
func (t Traffic) Plus(other Traffic) Traffic {
	return Traffic{SpanNS: t.SpanNS + other.SpanNS, Traffic: t.Traffic.Plus(other.Traffic)}
}

// ByteCensus counts the bytes that a few calls send and receive in each protocol layer. The client
// makes these calls one at a time, over a separate connection and after the window, so that
// counting does not disturb the measurement.
type ByteCensus struct {
	First conn.Traffic `json:"first"` // traffic of the connection's first call
	Calls int64        `json:"calls"` // after the first; all fields below count these calls
	// Bytes of the encoded messages, and, if Secured, the number of TLS records.
	MessageSentBytes     int64 `json:"message_sent_bytes"`
	MessageReceivedBytes int64 `json:"message_received_bytes"`
	Secured              bool  `json:"secured,omitempty"` // with TLS over TCP
	RecordsSent          int64 `json:"records_sent,omitempty"`
	RecordsReceived      int64 `json:"records_received,omitempty"`
	// QUIC: bytes of its streams, and bytes of packets that contain only acknowledgements. QUIC's
	// probes for larger packets are left out.
	StreamSentBytes     int64        `json:"stream_sent_bytes,omitempty"`
	StreamReceivedBytes int64        `json:"stream_received_bytes,omitempty"`
	AckSentBytes        int64        `json:"ack_sent_bytes,omitempty"`
	AckReceivedBytes    int64        `json:"ack_received_bytes,omitempty"`
	Traffic             conn.Traffic `json:"traffic"`
	Handshakes          Handshakes   `json:"handshakes,omitzero"` // of connections as the trial's mode begins them
}

// Handshakes counts the bytes of handshakes. With TLS over TCP these are the bytes until the
// client's Finished. With QUIC they are the bytes before the first call; in modes with a
// connection per call, they are all bytes that do not belong to the call.
type Handshakes struct {
	Count         int64 `json:"count"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// CPUNoise holds the share of its CPU time that a worker lost to other programs while it spun in a
// loop. The worker itself measures this, because the share depends on its priority.
type CPUNoise struct {
	LostBefore   float64 `json:"lost_before"` // shares of the spin
	LostAfter    float64 `json:"lost_after"`
	LargestGapNS int64   `json:"largest_gap_ns"`
}

// Plus returns the larger noise of both.
func (n CPUNoise) Plus(other CPUNoise) CPUNoise {
	n.LostBefore, n.LostAfter = max(n.LostBefore, other.LostBefore), max(n.LostAfter, other.LostAfter)
	n.LargestGapNS = max(n.LargestGapNS, other.LargestGapNS)
	return n
}

// A ClientPart is one of several clients that the lab treats as one client.
type ClientPart struct {
	Agent   string
	Clients int
	Ready   Ready
	Result  Result // without parts
}

// A MachineReadings holds an agent's readings of a worker's machine while the worker lived.
type MachineReadings struct {
	Boot    string           `json:"boot"`     // differs between machines, and between their starts
	WholeNS int64            `json:"whole_ns"` // CPU time that all CPUs offered
	OwnNS   int64            `json:"own_ns"`   // CPU time of the agent and its children
	State   record.HostState `json:"state"`
	PIDs    []int            `json:"pids,omitempty"` // the agent and the processes that it started
	CPUs    []int            `json:"cpus,omitempty"` // the CPUs that the worker was given
	// Watched holds a sentinel's observations of those CPUs.
	Watched []probe.SentinelResult `json:"watched,omitempty"`
}

// ShiftClock adds by to all instants of a result, to convert them to another machine's clock.
func (r *Result) ShiftClock(by int64) {
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
		s.Handled.shiftBy(by)
	}
	if c := r.Client; c != nil {
		c.BeginNS += by
		c.EndNS += by
		if c.Usage != nil {
			c.Usage.AtNS += by
		}
		c.Calls.shiftBy(by)
	}
}
