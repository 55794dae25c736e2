// Package record holds what one trial measured, and the directory that holds a
// run's trials. It is the only door between measuring and judging: the lab
// writes a record at once and whole when a trial ends; analysis and reports
// read records, and never anything live, so that an old run can be judged again
// by newer rules.
//
// A record is plain data. Its units are in its names: nanoseconds end in NS,
// bytes in Bytes, shares are between 0 and 1. What could not be measured is
// absent (a nil pointer), never zero.
//
// This package must not know how anything was measured, nor what it means.
package record

import (
	"time"

	"wirelab.dev/internal/latency"
	"wirelab.dev/internal/tuning"
)

// Version is the form of the records that this program writes. It reads all
// from 1 to Version.
const Version = 1

// Record is one start-to-stop measurement of a cell.
type Record struct {
	Version int       `json:"version"`
	Trial   int       `json:"trial"`  // its place in the plan, from 0; unique in a run
	Repeat  int       `json:"repeat"` // from 1
	Cell    Cell      `json:"cell"`
	Started time.Time `json:"started"`
	TookNS  int64     `json:"took_ns"` // the whole trial, processes and warm-up included

	// Failure says why there is no measurement, in the words of the worker
	// that failed. All of what follows is then absent or partial.
	Failure string `json:"failure,omitempty"`

	WindowNS int64 `json:"window_ns"`
	Measurement
	Errors []ErrorCount `json:"errors,omitempty"`

	// Settings are those that are not the libraries' defaults, each with its
	// reason, as both ends told them. Absent where they did not.
	Settings    []tuning.Setting `json:"settings,omitempty"`
	Client      Process          `json:"client"`
	Server      Process          `json:"server"`
	Connections Connections      `json:"connections"`
	Engine      Engine           `json:"engine"`
	Host        HostState        `json:"host"`
	// Link is what an emulated link did; absent where there is none.
	Link *Link `json:"link,omitempty"`
	// Traffic is what the client saw go over its connections in the window.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Wire is what one call puts on the wire, layer by layer.
	Wire *Wire `json:"wire,omitempty"`
	// Limits are those of the machine that the trial could have run into.
	Limits []Limit `json:"limits,omitempty"`

	Checks   []Check  `json:"checks"`             // the validity, check by check
	Warnings []string `json:"warnings,omitempty"` // what could not be had, and else worth knowing

	// Profile is what the trial was profiled for: "allocations", or nothing. What
	// is profiled is slowed down, so that no other figure of it means anything.
	Profile string `json:"profile,omitempty"`

	// SamplesFile names the Parquet file of every single sample, relative to
	// the run directory.
	SamplesFile string `json:"samples_file,omitempty"`
}

// Measurement is what the client measured of its calls, as its worker reports it.
type Measurement struct {
	// ClientProgram names the program of others that made the calls, with its version;
	// empty where wirelab's own client did. The window is then that program's life,
	// from its start to its end; of the service times only the totals are known, and
	// of InFlight, Active, the connections and the engine nothing.
	ClientProgram string `json:"client_program,omitempty"`

	Requests   int64 `json:"requests"`   // measured, failed ones included
	Completed  int64 `json:"completed"`  // ended within the window, whenever they began
	Straddling int64 `json:"straddling"` // in flight at an edge of the window
	// StraddlingNS is how long the straddling calls took, all of it.
	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	// InFlight is the mean number of calls in flight over the window, from
	// the time each client spent in calls, clipped to the window.
	InFlight float64 `json:"in_flight"`
	// Active is the mean number of clients at work: below all of them where
	// some had made their requests before others.
	Active float64 `json:"active"`

	// Service is from the actual send; Response from the intended one, and
	// absent in a closed loop without a limit, where they are the same. Wait
	// is the time before a permit of the in-flight limit, part of Response.
	Service  latency.Distribution  `json:"service"`
	Response *latency.Distribution `json:"response,omitempty"`
	Wait     *latency.Distribution `json:"wait,omitempty"`

	WarmUp    WarmUp     `json:"warm_up"`
	Intervals []Interval `json:"intervals,omitempty"` // from the first request on, warm-up included

	// Negotiated is what the client's connections and their peers agreed on.
	// Absent in records that are older than it.
	Negotiated *Negotiated `json:"negotiated,omitempty"`

	Pacing *Pacing `json:"pacing,omitempty"` // open loop only
	Search *Search `json:"search,omitempty"` // load model search only
}

// Cell is the set-up of a trial: one point of a scenario's matrix. Cells that
// are equal are repeats of one another.
type Cell struct {
	Part          string `json:"part"`           // of the scenario
	Stack         string `json:"stack"`          // the name alone
	Variant       string `json:"variant"`        // the stack with its options
	Workload      string `json:"workload"`       // the service that was called
	RequestBytes  int    `json:"request_bytes"`  // of payload
	ResponseBytes int    `json:"response_bytes"` // of payload
	Clients       int    `json:"clients"`        // concurrent ones
	Connection    string `json:"connection"`     // shared, per-worker, pool or pool:N
	Load          Load   `json:"load"`
	Target        string `json:"target,omitempty"` // a server that wirelab did not start
	// Network is the trial's own; the zero value is the machine's loopback.
	Network Network `json:"network,omitzero"`
}

// Network is a network namespace of a trial's own.
type Network struct {
	Ports         int   `json:"ports,omitempty"` // 0: as the kernel has it
	TimeWaitReuse bool  `json:"time_wait_reuse,omitempty"`
	DelayNS       int64 `json:"delay_ns,omitempty"` // each way
}

// Load is how the cell was loaded.
type Load struct {
	Model             string  `json:"model"`                         // closed, open, sustained, burst, ramp, search
	RequestsPerClient int     `json:"requests_per_client,omitempty"` // or
	TotalRequests     int     `json:"total_requests,omitempty"`      // of all clients together, or
	DurationNS        int64   `json:"duration_ns,omitempty"`
	RatePerSecond     float64 `json:"rate_per_second,omitempty"` // open: total; ramp: at its beginning
	RampTo            float64 `json:"ramp_to,omitempty"`         // ramp: the rate at its end
	Burst             int     `json:"burst,omitempty"`           // requests at one instant
	Goal              string  `json:"goal,omitempty"`            // search: as in p99<10ms
	Arrivals          string  `json:"arrivals,omitempty"`        // open: constant, poisson
	InFlightLimit     int     `json:"in_flight_limit,omitempty"`
}

// ErrorCount is one class of failure.
type ErrorCount struct {
	// Class is what the call met, as package failure names it: "refused",
	// "port-exhaustion", "tls-alert: bad certificate".
	Class   string `json:"class,omitempty"`
	Code    string `json:"code"` // a gRPC status code, or "WrongAnswer"
	Count   int64  `json:"count"`
	Example string `json:"example"` // the first one, verbatim
}

// WarmUp is what went before the window.
type WarmUp struct {
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	// Settled tells whether the detector saw a steady state before the
	// longest warm-up was over.
	Settled bool   `json:"settled"`
	Method  string `json:"method"` // how it was detected
	// EnoughNS and EnoughRequests are where, seen afterwards over warm-up
	// and window together, the steady state had begun; absent where it had
	// not.
	EnoughNS       *int64 `json:"enough_ns,omitempty"`
	EnoughRequests *int64 `json:"enough_requests,omitempty"`
}

// Interval is one step of the trial's course.
type Interval struct {
	StartNS  int64 `json:"start_ns"` // relative to the window's start: negative in warm-up
	TookNS   int64 `json:"took_ns"`
	Requests int64 `json:"requests"`
	SumNS    int64 `json:"sum_ns"` // of their service times
}

// Process is what one end cost over the window.
type Process struct {
	CPUs       []int  `json:"cpus,omitempty"` // what it was pinned to
	GoMaxProcs int    `json:"gomaxprocs,omitempty"`
	Version    string `json:"version,omitempty"` // of the worker's runtime
	UserNS     *int64 `json:"user_ns,omitempty"`
	SystemNS   *int64 `json:"system_ns,omitempty"`
	// RSSBytes is the resident memory at the window's end, PeakBytes the most
	// in the window: the kernel's own peak where it rose in the window, and
	// otherwise the most that was seen in it.
	RSSBytes  *int64 `json:"rss_bytes,omitempty"`
	PeakBytes *int64 `json:"peak_bytes,omitempty"`
	// OwnBytes is the most in the window of the memory that is the process's
	// own: without the pages of files, of which wirelab's program has some 34
	// MB, whatever it carries.
	OwnBytes *int64 `json:"own_bytes,omitempty"`
	// The most that was seen in the window.
	Threads     *int64   `json:"threads,omitempty"`
	Sockets     *int64   `json:"sockets,omitempty"`
	Goroutines  *int64   `json:"goroutines,omitempty"`
	HeapBytes   *int64   `json:"heap_bytes,omitempty"`
	SwitchesVol *int64   `json:"switches_voluntary,omitempty"`
	SwitchesInv *int64   `json:"switches_involuntary,omitempty"`
	MinorFaults *int64   `json:"minor_faults,omitempty"`
	MajorFaults *int64   `json:"major_faults,omitempty"`
	GCCycles    *int64   `json:"gc_cycles,omitempty"`
	GCCPUNS     *int64   `json:"gc_cpu_ns,omitempty"`
	SchedP50NS  *int64   `json:"sched_p50_ns,omitempty"` // goroutines: ready to running
	SchedP99NS  *int64   `json:"sched_p99_ns,omitempty"`
	Busy        *float64 `json:"busy,omitempty"` // share of the CPUs it was given
	// Allocations are those of all calls, warm-up included; there only where the
	// trial was profiled for them, and the process's runtime tells.
	Allocations *Allocations `json:"allocations,omitempty"`
}

// CPUNS is user and system time together.
func (p Process) CPUNS() (int64, bool) {
	if p.UserNS == nil || p.SystemNS == nil {
		return 0, false
	}
	return *p.UserNS + *p.SystemNS, true
}

// Connections is what was asked for and what came of it.
type Connections struct {
	Mode   string `json:"mode"`
	Want   int    `json:"want"`
	Opened int64  `json:"opened"`
	Failed int64  `json:"failed"`
	// During is how many were opened inside the window.
	During int64 `json:"during"`

	// What was achieved inside the window, counted from the TLS and QUIC
	// state itself. All zero on a wire without TLS.
	Full            int64 `json:"full,omitempty"`             // handshakes with a certificate
	Resumed         int64 `json:"resumed,omitempty"`          // handshakes that resumed a session
	Early           int64 `json:"early,omitempty"`            // of those, with early data that the server took
	EarlyRefused    int64 `json:"early_refused,omitempty"`    // with early data that it did not
	HandshakeFailed int64 `json:"handshake_failed,omitempty"` // connections that got no further

	// How long the beginnings of those took that were opened in the window.
	Connect   *latency.Distribution `json:"connect,omitempty"`    // TCP: SYN to established
	Handshake *latency.Distribution `json:"handshake,omitempty"`  // TLS or QUIC
	FirstByte *latency.Distribution `json:"first_byte,omitempty"` // call's begin, on its own connection, to the answer's first byte
}

// Negotiated is what was agreed on, taken from the connections themselves.
type Negotiated struct {
	// Protocol is what the server answered in: h1, h2, h3, tcp-plain, tcp-calls;
	// with commas where they were several, empty where nothing answered.
	Protocol string `json:"protocol,omitempty"`
	// Sessions are the kinds of TLS sessions; none where all was cleartext.
	Sessions []Session `json:"sessions,omitempty"`
}

// Session is one kind of TLS session.
type Session struct {
	Version     string `json:"version"` // as in TLS 1.3
	Cipher      string `json:"cipher"`
	Group       string `json:"group"` // of the key exchange; empty: there was none
	ALPN        string `json:"alpn,omitempty"`
	Resumed     bool   `json:"resumed,omitempty"`
	Connections int64  `json:"connections"` // since the client began
}

// Traffic is what went over a client's connections in the window, below TLS,
// as the kernel or the QUIC connection counted it. Wire tells its layers apart.
type Traffic struct {
	Transport string `json:"transport"` // tcp or udp
	// SpanNS is the time from the first reading to the last: the window, to a
	// few milliseconds at each edge, so that a figure a request is
	// bytes/SpanNS over the window's completed/WindowNS.
	SpanNS        int64 `json:"span_ns"`
	SentBytes     int64 `json:"sent_bytes"`
	ReceivedBytes int64 `json:"received_bytes"` // payload of TCP segments or UDP datagrams
	// Packets are TCP segments or UDP datagrams, those without payload
	// included.
	SentPackets     *int64 `json:"sent_packets,omitempty"`
	ReceivedPackets *int64 `json:"received_packets,omitempty"`
	// PureAcks are the segments sent that carried nothing: TCP only.
	SentPureAcks     *int64 `json:"sent_pure_acks,omitempty"`
	ReceivedPureAcks *int64 `json:"received_pure_acks,omitempty"`
	// HandshakeBytes are those of the bytes above that went before the first
	// byte of a call, on connections that shook hands in the window.
	HandshakeSentBytes     *int64 `json:"handshake_sent_bytes,omitempty"`
	HandshakeReceivedBytes *int64 `json:"handshake_received_bytes,omitempty"`
	Retransmits            *int64 `json:"retransmits,omitempty"` // segments sent again, or packets lost
	RTTNS                  *int64 `json:"rtt_ns,omitempty"`      // smoothed, mean over connections
	MinRTTNS               *int64 `json:"min_rtt_ns,omitempty"`
	SendCalls              *int64 `json:"send_calls,omitempty"` // system calls that sent: over UDP those of its sockets, over TCP all writes of the process
	ReceiveCalls           *int64 `json:"receive_calls,omitempty"`
	Offload                string `json:"offload,omitempty"` // gso, none
	// BusyNS is how long the connections had something sent and not yet
	// acknowledged, all of them together; BlockedNS how long of it the peer's
	// window or the send buffer held them back. TCP only, as the kernel keeps
	// count (TCP_INFO).
	BusyNS    *int64 `json:"busy_ns,omitempty"`
	BlockedNS *int64 `json:"blocked_ns,omitempty"`
}

// Link is what an emulated link did, both ways together, from the server's start
// to the client's end.
type Link struct {
	Frames    int64 `json:"frames"`
	Dropped   int64 `json:"dropped"`     // for want of room
	LateP50NS int64 `json:"late_p50_ns"` // how much later than due they were sent
	LateP99NS int64 `json:"late_p99_ns"`
}

// Limit is one of the machine's that a trial could run into.
type Limit struct {
	Name string `json:"name"` // file-descriptors, ports, backlog, udp-buffer …
	Need int64  `json:"need"`
	Have int64  `json:"have"`
	// How it was met, or what would raise it.
	Note string `json:"note,omitempty"`
}

// Pacing is how well an open loop's schedule was kept.
type Pacing struct {
	Scheduled int64 `json:"scheduled"` // arrivals that fell into the window
	// Late is the generator's own lateness: from the intended instant, or the
	// end of the client's last call where that came later, until the client
	// was ready to send.
	Late   latency.Distribution `json:"late"`
	Queued int64                `json:"queued"`  // arrivals that found no free client
	Unsent int64                `json:"unsent"`  // arrivals that never went out
	SpunNS int64                `json:"spun_ns"` // CPU time that waiting for instants took
}

// Search is what a search for the highest rate found. The record's other
// figures are those of the highest rate that was kept.
type Search struct {
	KeptPerSecond   float64 `json:"kept_per_second"`   // the highest rate that kept the goal
	MissedPerSecond float64 `json:"missed_per_second"` // the lowest above it that did not: the capacity lies between
	Steps           []Step  `json:"steps"`
	Why             string  `json:"why,omitempty"` // what ended it before the two came close
}

// Step is one rate that a search tried.
type Step struct {
	RatePerSecond     float64 `json:"rate_per_second"`
	AchievedPerSecond float64 `json:"achieved_per_second"`
	FigureNS          int64   `json:"figure_ns"` // of the goal's percentile
	Kept              bool    `json:"kept"`
	Why               string  `json:"why,omitempty"`
}

// Engine is the load engine's own cost in this trial.
type Engine struct {
	// BetweenNS is the time the clients spent between calls, outside of
	// them: recording, checking answers, being off the CPU.
	BetweenNS int64 `json:"between_ns"`
	// OwnNS is what a request costs the engine on this machine, measured
	// against a stack that answers at once.
	OwnNS float64 `json:"own_ns"`
}

// HostState is the machine around the trial.
type HostState struct {
	StolenShare   *float64 `json:"stolen_share,omitempty"` // CPU time that the hypervisor gave to others
	OthersShare   *float64 `json:"others_share,omitempty"` // CPU time that other processes took
	LostBefore    *float64 `json:"lost_before,omitempty"`  // share of a spin calibration that the CPU was away
	LostAfter     *float64 `json:"lost_after,omitempty"`
	LargestGapNS  *int64   `json:"largest_gap_ns,omitempty"`
	PressureShare *float64 `json:"pressure_share,omitempty"` // PSI: some task waited for a CPU
	// What the kernel dropped in the trial's network, from the client's start
	// to its end.
	AcceptDrops *int64 `json:"accept_drops,omitempty"` // connections that found a listen backlog full
	UDPDrops    *int64 `json:"udp_drops,omitempty"`    // datagrams that found a receive buffer full
}

// Level is how much a check found wrong.
type Level string

// The levels of a check. A trial with an invalid check is never averaged in.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Invalid Level = "invalid"
	Unknown Level = "unknown" // could not be judged; Detail says why
)

// Check is one verdict on the trial's validity, with the figure it rests on.
type Check struct {
	Name   string   `json:"name"`
	Level  Level    `json:"level"`
	Figure *float64 `json:"figure,omitempty"`
	Limit  *float64 `json:"limit,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Detail string   `json:"detail"`
}

// Valid tells whether the trial may be used.
func (r *Record) Valid() bool {
	if r.Failure != "" {
		return false
	}
	for _, c := range r.Checks {
		if c.Level == Invalid {
			return false
		}
	}
	return true
}

// ThroughputPerSecond is the calls that ended well within the window, a second.
func (r *Record) ThroughputPerSecond() float64 {
	if r.WindowNS <= 0 {
		return 0
	}
	return float64(max(0, r.Completed-r.Failed())) / (float64(r.WindowNS) / 1e9)
}

// Failed is the number of measured requests that failed.
func (r *Record) Failed() int64 {
	var n int64
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}
