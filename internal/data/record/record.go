// Package record stores the measurements of a trial, and the directory with a run's trials. It is
// the only connection between measuring and judging. The lab writes a complete record when a trial
// ends. Analysis and reports read only records, so that newer rules can judge an old run again.
//
// A record is plain data. Names of fields end in the unit: NS for nanoseconds, Bytes for bytes;
// shares are between 0 and 1. A figure that could not be measured is absent (a nil pointer), never
// zero.
//
// This package must not know how a figure was measured, nor what it means.
package record

import (
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/tuning"
)

// Version is the version of the records that this program writes. The program reads all versions
// from 1 to Version.
const Version = 1

// A Record holds one measurement of a cell, from start to stop.
type Record struct {
	Version int       `json:"version"`
	Trial   int       `json:"trial"`  // index in the plan, from 0; unique in a run
	Repeat  int       `json:"repeat"` // number of the repeat, from 1
	Cell    Cell      `json:"cell"`
	Started time.Time `json:"started"`
	// Duration of the whole trial, including processes and warm-up.
	TookNS int64 `json:"took_ns"`
	// Block is the same for trials that were measured together, by turns: 1 + the lowest of their
	// numbers. It is 0 for a trial alone.
	Block int `json:"block,omitempty"`

	// Failure is the failed worker's error, if there is no measurement. All fields below are then
	// absent or incomplete.
	Failure string `json:"failure,omitempty"`

	// Foreign is present if another program measured this trial and wirelab read its file.
	Foreign *Foreign `json:"foreign,omitempty"`

	WindowNS int64 `json:"window_ns"`
	Measurement
	Errors []ErrorCount `json:"errors,omitempty"`

	// Settings lists the settings that differ from the libraries' defaults, with reasons, as client
	// and server report them. It is absent if neither reports any.
	Settings    []tuning.Setting `json:"settings,omitempty"`
	Client      Process          `json:"client"`
	Server      Process          `json:"server"`
	Connections Connections      `json:"connections"`
	Engine      Engine           `json:"engine"`
	Host        HostState        `json:"host"`
	// Fleet is present if agents of a fleet ran client and server. Then Client has the sum over all
	// clients, and Host describes the server's machine.
	Fleet *Fleet `json:"fleet,omitempty"`
	// Link holds the effects of an emulated link. It is absent without such a link.
	Link *Link `json:"link,omitempty"`
	// Traffic holds the traffic of the client's connections in the window.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Wire holds the bytes of one call on the wire, layer by layer.
	Wire *Wire `json:"wire,omitempty"`
	// Limits lists the limits of the machine that the trial may have reached.
	Limits []Limit `json:"limits,omitempty"`
	// WorkNS is the time that each call's handler sleeps instead of working, according to the
	// workload's options. It is absent if no option sets it.
	WorkNS *int64 `json:"work_ns,omitempty"`

	Checks   []Check  `json:"checks"`             // results of the validity checks
	Warnings []string `json:"warnings,omitempty"` // missing figures and other notes

	// Probe names the probe of this trial (see Probes), or is empty. A probe slows the trial down,
	// so that the trial's other figures are not usable.
	Probe string `json:"probe,omitempty"`
	// Life holds the stages of single calls, if the probe is life.
	Life *Life `json:"life,omitempty"`
	// Profile is the older form of Probe: "allocations" means alloc. It is read but not written.
	Profile string `json:"profile,omitempty"`

	// SamplesFile names the Parquet file with every single sample, relative to the run directory.
	SamplesFile string `json:"samples_file,omitempty"`
	// Seconds holds the calls second by second, warm-up and last calls included; absent unless asked for.
	Seconds []Second `json:"seconds,omitempty"`
}

// Level says how serious the result of a check is.
type Level string

// The levels of a check. An average never includes a figure that an invalid check spoils.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Invalid Level = "invalid"
	Unknown Level = "unknown" // the check could not be made; Detail says why
)

// Severity returns a number that is higher for a more serious level. It is 0 for Unknown.
func (l Level) Severity() int { return slices.Index([]Level{OK, Warning, Invalid}, l) + 1 }

// A FigureKind groups the figures of a trial that the same faults spoil. Failed calls, statuses and
// connections belong to no kind: they are facts about the trial, whatever happened in it.
type FigureKind string

// The kinds of figures.
const (
	Times         FigureKind = "times"          // latencies and rates
	AbsoluteTimes FigureKind = "absolute times" // latencies and rates by themselves, not their ratios within a block
	CPUTime       FigureKind = "cpu"            // CPU time per call, and its shares
	Counts        FigureKind = "counts"         // page faults, context switches, system calls, allocations
	Bytes         FigureKind = "bytes"          // bytes on the wire, memory
)

// A Check is the result of one validity check of a trial, with the figure that decided it.
type Check struct {
	Name   string   `json:"name"`
	Level  Level    `json:"level"`
	Figure *float64 `json:"figure,omitempty"`
	Limit  *float64 `json:"limit,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Detail string   `json:"detail"`
	// Spoils lists the kinds of figures that an invalid check spoils. It is absent in older records,
	// in which an invalid check spoils all figures.
	Spoils []FigureKind `json:"spoils,omitempty"`
}

// IsAgainst reports whether the check spoils figures of a kind.
func (c *Check) IsAgainst(kind FigureKind) bool {
	return c.Level == Invalid && (len(c.Spoils) == 0 || slices.Contains(c.Spoils, kind) || kind == AbsoluteTimes && slices.Contains(c.Spoils, Times))
}

// Valid reports whether the trial has latencies that can be compared.
func (r *Record) Valid() bool { return r.Failure == "" && r.SpoilerOf(Times) == nil }

// SpoilerOf returns the first check that spoils figures of a kind, or nil.
func (r *Record) SpoilerOf(kind FigureKind) *Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.IsAgainst(kind) })
	if i < 0 {
		return nil
	}
	return &r.Checks[i]
}

// FirstInvalid returns the first check that makes the trial invalid, or nil.
func (r *Record) FirstInvalid() *Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Level == Invalid })
	if i < 0 {
		return nil
	}
	return &r.Checks[i]
}

// ThroughputPerSecond returns the rate of successful calls that ended inside the window.
func (r *Record) ThroughputPerSecond() float64 {
	if r.WindowNS <= 0 {
		return 0
	}
	return float64(max(0, r.Completed-r.Failed())) / (float64(r.WindowNS) / 1e9)
}

// Ended returns the calls that ended from the window's begin to its end, or in all turns of a trial in
// a block. The cost of a process is the cost of these calls.
func (r *Record) Ended() int64 { return r.Completed + r.EndedBetween }

// AtWorkNS returns about how long the process was loaded while its cost was read: the window, or a
// little more if the window is made of slices.
func (r *Record) AtWorkNS() float64 {
	if r.EndedBetween <= 0 || r.Completed <= 0 {
		return float64(r.WindowNS)
	}
	return float64(r.WindowNS) * float64(r.Ended()) / float64(r.Completed)
}

// Failed returns the number of measured requests that failed.
func (r *Record) Failed() int64 {
	var n int64
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}

// ServerMayBeOther reports whether the server may be among the other programs of the machine, because wirelab
// did not start it and does not know its processes.
func (r *Record) ServerMayBeOther() bool {
	_, known := r.Server.CPUNS()
	return r.Cell.Target != "" && !r.Cell.Kind().Unplaced && !known
}

// Calls returns the number of calls in the warm-up and in the window.
func (r *Record) Calls() int64 { return r.WarmUp.Requests + r.Requests }

func (r *Record) checkIndices() error {
	for _, seen := range []*Seen{r.Server.Seen, r.Client.Seen} {
		if seen == nil || seen.Stacks == nil {
			continue
		}
		for _, stack := range seen.Stacks.Stacks {
			for _, frame := range stack.Frames {
				if frame < 0 || frame >= len(seen.Stacks.Frames) {
					return fmt.Errorf("a call stack refers to function %d, but the record lists %d functions", frame, len(seen.Stacks.Frames))
				}
			}
		}
	}
	if r.Life == nil {
		return nil
	}
	if n := len(r.Life.Begins); n > 0 && n != len(r.Life.Calls) {
		return fmt.Errorf("the record has the stages of %d calls, but the begins of %d calls", len(r.Life.Calls), n)
	}
	for _, call := range r.Life.Calls {
		if len(call) != len(r.Life.Stages) {
			return fmt.Errorf("a call has %d stages, but the record names %d stages", len(call), len(r.Life.Stages))
		}
	}
	if r.Life.Stacks != nil {
		return r.Life.Stacks.check()
	}
	return nil
}

// FleetWanted selects the agents of a fleet that measure a run.
type FleetWanted struct {
	// Name or URL of the hub; empty means the hub on this machine.
	Hub       string `json:"hub,omitempty"`
	TokenFile string `json:"token_file,omitempty"` // file with the controller's token
	// Selector of the server's agent; empty means that no agent starts the server.
	Server string `json:"server,omitempty"`
	Client string `json:"client"` // selector of the clients' agents
}

// IsNamed reports whether the user names a fleet.
func (w FleetWanted) IsNamed() bool { return w.Hub != "" || w.TokenFile != "" }

// Fleet says which agents of a fleet ran a trial's server and clients, each on its machine.
type Fleet struct {
	Server  Agent         `json:"server,omitzero"` // empty if no agent started the server
	Clients []FleetClient `json:"clients"`
	// OpenedApartNS is the time between the first and the last opening of the clients' windows,
	// according to the compared clocks.
	OpenedApartNS int64 `json:"opened_apart_ns"`
}

// Agent describes the agent that ran the server or a client.
type Agent struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Machine string            `json:"machine"` // system, kernel and processor
	Boot    string            `json:"boot"`    // boot id; equal for agents on the same machine
	Clock   Clock             `json:"clock"`
}

// A Clock compares an agent's clock with the lab's. Both clocks are monotonic, so that changes of
// the wall-clock time do not affect latencies. At each instant the agent's clock shows the lab's
// time plus OffsetNS, with an error of at most ErrorNS.
type Clock struct {
	OffsetNS int64 `json:"offset_ns"` // offset after the trial
	ErrorNS  int64 `json:"error_ns"`  // half of the shortest message exchange, plus the drift
	DriftNS  int64 `json:"drift_ns"`  // change of the offset during the trial
	// WallNS is the difference between the agent's wall clock and the lab's. It affects nothing.
	WallNS int64 `json:"wall_ns"`
}

// A FleetClient holds the figures of one of several clients. The record's other figures are sums
// over all clients. It has the figures that judge its trial, but no distributions.
type FleetClient struct {
	Agent

	Clients int `json:"clients"`
	// Begin of this client's window, after the begin of the first client's window.
	BeginNS    int64 `json:"begin_ns"`
	WindowNS   int64 `json:"window_ns"` // length of the window without pauses
	Requests   int64 `json:"requests"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed,omitempty"`
	Straddling int64 `json:"straddling"`

	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	BacklogNS    int64 `json:"backlog_ns,omitempty"`

	InFlight  float64 `json:"in_flight"`
	Active    float64 `json:"active"`
	ServiceNS int64   `json:"service_ns"` // sum of the service times
	// Percentiles and maximum of the response times.
	P50NS       int64       `json:"p50_ns"`
	P99NS       int64       `json:"p99_ns"`           //
	MaxNS       int64       `json:"max_ns"`           //
	WarmUp      WarmUp      `json:"warm_up"`          //
	Pacing      *Pacing     `json:"pacing,omitempty"` // only in an open loop
	Process     Process     `json:"process"`          //
	Connections Connections `json:"connections"`      // without distributions
	Engine      Engine      `json:"engine"`           //
	Host        HostState   `json:"host"`             // state of the client's machine
	Limits      []Limit     `json:"limits,omitempty"` // limits of the client's machine
}

// Foreign names the other program that measured a record's figures, and the program's file.
type Foreign struct {
	Tool    string `json:"tool"`              // name of the program, such as ghz
	Version string `json:"version,omitempty"` // absent if the file does not state it
	File    string `json:"file"`              // name of the file without its folder
	SHA256  string `json:"sha256"`            // SHA-256 sum of the file
}

// Program returns the name of the tool, with its version if known.
func (f *Foreign) Program() string {
	if f.Version == "" {
		return f.Tool
	}
	return f.Tool + " " + f.Version
}
