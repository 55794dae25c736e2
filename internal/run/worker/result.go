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

// A Result is what a worker reports in its result event.
type Result struct {
	Server *ServerResult `json:"server,omitempty"`
	Client *ClientResult `json:"client,omitempty"`
	Visit  *VisitResult  `json:"visit,omitempty"`
	// Watched holds the observations of a sentinel.
	Watched []probe.SentinelResult `json:"watched,omitempty"`

	// Machine is added by an agent: no worker prints it.
	Machine *MachineReadings `json:"machine,omitempty"`
	// Parts holds the results that wirelab has merged into Client. Their instants are on the clock
	// of the lab's machine.
	Parts []ClientPart `json:"parts,omitempty"`
}

// A VisitResult says how the first call to a service went. It has nothing that could change the
// requests of the load.
type VisitResult struct {
	Notes   []string `json:"notes,omitempty"`   // one line about each answer
	Failure string   `json:"failure,omitempty"` // why the load must not start; empty if it may
	Class   string   `json:"class,omitempty"`   // class of the failure
	Address string   `json:"address"`           // the address that was called last, of those in the definition
	Events  bool     `json:"events,omitempty"`  // the answer is a stream of events, which clients hold open
}

// A ServerResult holds a server's measurements of itself from its start to its end. The lab later
// selects the part inside the window.
type ServerResult struct {
	Usage *probe.Series `json:"usage,omitempty"`
	// Allowance holds the CPUs and the quota that the process was allowed to use at its end.
	Allowance *host.Allowance `json:"allowance,omitempty"`
	// Allocations counts allocations since the server was ready. It is nil if the spec did not ask
	// for it.
	Allocations *record.Allocations `json:"allocations,omitempty"`
	// CPU holds call stacks sampled since the server was ready. It is nil if the spec did not ask
	// for it.
	CPU *record.Stacks `json:"cpu,omitempty"`
	// Handled holds the instants of handlers. It is empty if the spec did not ask for it.
	Handled CallInstants `json:"handled,omitempty"`
}

// A ClientResult holds a client's measurements. Instants are nanoseconds of CLOCK_MONOTONIC, which
// is the same for all processes of a machine.
type ClientResult struct {
	record.Measurement
	BeginNS       int64               `json:"begin_ns"`
	EndNS         int64               `json:"end_ns"`
	CostBeforeNS  int64               `json:"cost_before_ns,omitempty"` // see CostSpan
	CostAfterNS   int64               `json:"cost_after_ns,omitempty"`
	Failures      []record.ErrorCount `json:"failures,omitempty"`
	Connections   Connections         `json:"connections"`
	Usage         *probe.Window       `json:"usage,omitempty"`   // inside the window
	Traffic       *Traffic            `json:"traffic,omitempty"` // inside the window
	Census        *ByteCensus         `json:"census,omitempty"`
	CensusFailed  string              `json:"census_failed,omitempty"` // why Census is nil
	Allowance     *host.Allowance     `json:"allowance,omitempty"`     // at the end of the window
	EngineOwnNS   float64             `json:"engine_own_ns"`
	BetweenNS     int64               `json:"between_ns"`
	SamplesFailed string              `json:"samples_failed,omitempty"` // why no samples were kept
	// Allocations counts the allocations of all calls. It is nil unless the spec asks for it.
	Allocations *record.Allocations `json:"allocations,omitempty"`
	// CPU holds the call stacks sampled in all calls. It is nil unless the spec asks for it.
	CPU *record.Stacks `json:"cpu,omitempty"`
	// Calls holds the instants of the window's calls. It is nil unless the spec asks for it.
	Calls CallInstants `json:"calls,omitempty"`
	// CallsWritten is the number of calls in the spec's CallsFile. If it is above 0, wirelab
	// computes the measurement from these calls.
	CallsWritten int64 `json:"calls_written,omitempty"`
}

// CostSpan returns the time in which the cost of the counted calls arose. It is the window, or more
// than the window if that is made of slices.
func (r *ClientResult) CostSpan() (begin, end int64) {
	return r.BeginNS - r.CostBeforeNS, r.EndNS + r.CostAfterNS
}

// Window returns the measured window for probes.
func (r *ClientResult) Window() probe.Span {
	return probe.Span{BeginNS: r.BeginNS, EndNS: r.EndNS, Alone: r.Outside != nil && *r.Outside == 0}
}

// Plus returns one result for two clients that ran at the same time. It adds counts. Figures that
// cannot be added keep the value of r. The census is from either client, since the calls of both
// clients have equally many bytes.
func (r ClientResult) Plus(other ClientResult) ClientResult {
	r.Measurement = r.Measurement.Plus(other.Measurement)
	r.BeginNS, r.EndNS = min(r.BeginNS, other.BeginNS), max(r.EndNS, other.EndNS)
	r.CostBeforeNS, r.CostAfterNS = max(r.CostBeforeNS, other.CostBeforeNS), max(r.CostAfterNS, other.CostAfterNS)
	r.Failures = record.PlusErrors(r.Failures, other.Failures)
	r.Connections = r.Connections.Plus(other.Connections)
	r.Usage = sum.AddIfBoth(r.Usage, other.Usage)
	r.Traffic = sum.AddIfBoth(r.Traffic, other.Traffic)
	r.Census = cmp.Or(r.Census, other.Census)
	r.CensusFailed = cmp.Or(r.CensusFailed, other.CensusFailed)
	r.Allowance = sum.AddIfBoth(r.Allowance, other.Allowance)
	r.EngineOwnNS = max(r.EngineOwnNS, other.EngineOwnNS)
	r.BetweenNS += other.BetweenNS
	r.SamplesFailed = cmp.Or(r.SamplesFailed, other.SamplesFailed)
	r.Allocations = sum.AddPresent(r.Allocations, other.Allocations)
	r.CPU = sum.AddPresent(r.CPU, other.CPU)
	r.Calls = r.Calls.Plus(other.Calls)
	r.CallsWritten = 0 // both measurements already include the calls in files
	return r
}

// LengthNS returns the length of the window minus its pauses.
func (r *ClientResult) LengthNS() int64 { return r.EndNS - r.BeginNS - r.PausedNS }

// Connections counts a client's connections: how many it wanted, and how many it opened.
type Connections struct {
	Mode   string      `json:"mode"`
	Want   int         `json:"want"`
	Total  conn.Counts `json:"total"`
	During int64       `json:"during"` // number of connections opened inside the window
	// Window counts only what happened inside the window.
	Window conn.Counts `json:"window"`
	// Connect holds how long TCP took to connect. It is nil if nothing connected in the window.
	Connect *latency.Distribution `json:"connect,omitempty"`
	// Handshake holds the times of TLS or QUIC handshakes. It is nil if the window had none.
	Handshake *latency.Distribution `json:"handshake,omitempty"`
	// FirstByte holds the times from the start of a call to the first byte of its answer, for calls
	// with a connection of their own. It is nil if there was none in the window.
	FirstByte *latency.Distribution `json:"first_byte,omitempty"`
}

// Plus adds the counts of c and other. It keeps the distributions of c.
func (c Connections) Plus(other Connections) Connections {
	c.Want += other.Want
	c.Total, c.Window = c.Total.Plus(other.Total), c.Window.Plus(other.Window)
	c.During += other.During
	mode, err := scenario.ParseConnection(c.Mode)
	more, otherErr := scenario.ParseConnection(other.Mode)
	if err == nil && otherErr == nil {
		c.Mode = scenario.Connection{Mode: mode.Mode, Size: mode.Size + more.Size}.String()
	} else { // another program has modes of its own
		c.Mode = cmp.Or(c.Mode, other.Mode)
	}
	return c
}

// Traffic is the traffic of the client's connections between two readings, close to the edges of
// the window. SpanNS is the time between these readings.
type Traffic struct {
	SpanNS int64 `json:"span_ns"`
	conn.Traffic
}

// Plus adds two clients' traffic, and also their spans.
func (t Traffic) Plus(other Traffic) Traffic {
	return Traffic{SpanNS: t.SpanNS + other.SpanNS, Traffic: t.Traffic.Plus(other.Traffic)}
}

// ByteCensus counts the bytes of a few calls, per protocol layer. The client makes these calls one
// at a time on a separate connection, after the window: counting would disturb the measurement.
type ByteCensus struct {
	First conn.Traffic `json:"first"` // traffic of the first call on a connection
	Calls int64        `json:"calls"` // number of later calls; only these count below
	// MessageSentBytes and MessageReceivedBytes are the sizes of encoded messages.
	MessageSentBytes     int64 `json:"message_sent_bytes"`
	MessageReceivedBytes int64 `json:"message_received_bytes"`
	Secured              bool  `json:"secured,omitempty"` // true for TLS over TCP
	// RecordsSent and RecordsReceived are numbers of TLS records.
	RecordsSent     int64 `json:"records_sent,omitempty"`
	RecordsReceived int64 `json:"records_received,omitempty"`
	// StreamSentBytes and StreamReceivedBytes are bytes in QUIC streams.
	StreamSentBytes     int64 `json:"stream_sent_bytes,omitempty"`
	StreamReceivedBytes int64 `json:"stream_received_bytes,omitempty"`
	// AckSentBytes and AckReceivedBytes are bytes of QUIC packets that only acknowledge.
	AckSentBytes     int64        `json:"ack_sent_bytes,omitempty"`
	AckReceivedBytes int64        `json:"ack_received_bytes,omitempty"`
	Traffic          conn.Traffic `json:"traffic"`
	// Handshakes counts the bytes of handshakes in the trial's connection mode.
	Handshakes Handshakes `json:"handshakes,omitzero"`
}

// Handshakes counts the bytes of handshakes. With TLS over TCP, a handshake ends with the client's
// Finished. With QUIC, it is what precedes the first call; in modes with one connection per call,
// it is every byte that does not belong to the call.
type Handshakes struct {
	Count         int64 `json:"count"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"`
}

// A ClientPart is the result of one of several clients that the lab treats as one.
type ClientPart struct {
	Agent   string
	Clients int
	Ready   Ready
	Result  Result // Parts is always empty
}

// A MachineReadings holds an agent's readings of its machine during a worker's life.
type MachineReadings struct {
	Boot    string           `json:"boot"`     // identifies a machine and its latest start
	WholeNS int64            `json:"whole_ns"` // time of all CPUs, busy or idle
	OwnNS   int64            `json:"own_ns"`   // CPU time of the agent and its processes
	State   record.HostState `json:"state"`
	PIDs    []int            `json:"pids,omitempty"` // the agent and all processes that it started
	CPUs    []int            `json:"cpus,omitempty"` // the CPUs that the worker may use
	// Seen holds what the order's probe found about the worker in the window. It is nil without a probe.
	Seen *record.Seen `json:"seen,omitempty"`
	// Watched holds a sentinel's observations of the worker's CPUs.
	Watched []probe.SentinelResult `json:"watched,omitempty"`
}

// ShiftClock adds by to all instants of a result. They are then on another machine's clock.
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
