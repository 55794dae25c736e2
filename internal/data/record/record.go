// Package record holds the measurements of one trial, and the directory that holds a run's trials.
// It is the only door between measuring and judging: the lab writes a record at once and whole when
// a trial ends; analysis and reports read records, and never anything live, so that an old run can
// be judged again by newer rules.
//
// A record is plain data. Its units are in its names: nanoseconds end in NS, bytes in Bytes, shares
// are between 0 and 1. A figure that could not be measured is absent (a nil pointer), never zero.
//
// This package must not know how a figure was measured, nor its meaning.
package record

import (
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/tuning"
)

// Version is the form of the records that this program writes. The program
// reads all forms from 1 to Version.
const Version = 1

// A Record is one start-to-stop measurement of a cell.
type Record struct {
	Version int       `json:"version"`
	Trial   int       `json:"trial"`  // its place in the plan, from 0; unique in a run
	Repeat  int       `json:"repeat"` // from 1
	Cell    Cell      `json:"cell"`
	Started time.Time `json:"started"`
	TookNS  int64     `json:"took_ns"` // the whole trial, processes and warm-up included

	// Attempts lists earlier measurements of this trial that were thrown away, because
	// only the machine, or too short a warm-up, spoiled them. The trial was then measured
	// later than its place in the plan: Started says when.
	Attempts []Attempt `json:"attempts,omitempty"`

	// Failure says why there is no measurement, in the words of the worker
	// that failed. All fields below are then absent or partial.
	Failure string `json:"failure,omitempty"`

	// Foreign is present if another program measured this and wirelab read its file.
	Foreign *Foreign `json:"foreign,omitempty"`

	WindowNS int64 `json:"window_ns"`
	Measurement
	Errors []ErrorCount `json:"errors,omitempty"`

	// Settings lists the settings that are not the libraries' defaults, each with
	// its reason, as both ends report them. It is absent if they do not.
	Settings    []tuning.Setting `json:"settings,omitempty"`
	Client      Process          `json:"client"`
	Server      Process          `json:"server"`
	Connections Connections      `json:"connections"`
	Engine      Engine           `json:"engine"`
	Host        HostState        `json:"host"`
	// Fleet is present if agents of a fleet ran the ends: Client then has the figures of all
	// clients together, and Host has the figures of the server's machine.
	Fleet *Fleet `json:"fleet,omitempty"`
	// Link holds the effects of an emulated link. It is absent without a link.
	Link *Link `json:"link,omitempty"`
	// Traffic holds the traffic of the client's connections in the window.
	Traffic *Traffic `json:"traffic,omitempty"`
	// Wire holds the bytes of one call on the wire, layer by layer.
	Wire *Wire `json:"wire,omitempty"`
	// Limits lists the limits of the machine that the trial could have reached.
	Limits []Limit `json:"limits,omitempty"`
	// WorkNS is the time that every call's handler sleeps, instead of work or as a stall, as
	// the workload's options say. It is absent if they do not mention it.
	WorkNS *int64 `json:"work_ns,omitempty"`

	Checks   []Check  `json:"checks"`             // the validity, check by check
	Warnings []string `json:"warnings,omitempty"` // figures that could not be had, and other notes

	// Probe names the probe that observed the trial: one of Probes, or nothing. A probe slows
	// the trial down, so that no other figure of it means anything.
	Probe string `json:"probe,omitempty"`
	// Life holds the stages of single calls, if that was the probe.
	Life *Life `json:"life,omitempty"`
	// Profile is the older form of Probe: "allocations" for alloc. It is read and not written.
	Profile string `json:"profile,omitempty"`

	// SamplesFile names the Parquet file of every single sample, relative to
	// the run directory.
	SamplesFile string `json:"samples_file,omitempty"`
}

// Level says how serious the finding of a check is.
type Level string

// The levels of a check. A trial with an invalid check is never averaged in.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Invalid Level = "invalid"
	Unknown Level = "unknown" // could not be judged; Detail says why
)

// Severity returns a number that is higher for a more serious level. It is 0 for Unknown.
func (l Level) Severity() int { return slices.Index([]Level{OK, Warning, Invalid}, l) + 1 }

// A Check is one verdict on the trial's validity, with the figure it rests on.
type Check struct {
	Name   string   `json:"name"`
	Level  Level    `json:"level"`
	Figure *float64 `json:"figure,omitempty"`
	Limit  *float64 `json:"limit,omitempty"`
	Unit   string   `json:"unit,omitempty"`
	Detail string   `json:"detail"`
}

// Valid reports whether the trial may be used.
func (r *Record) Valid() bool {
	return r.Failure == "" && r.FirstInvalid() == nil
}

// FirstInvalid returns the first check that refuses the trial, or nil.
func (r *Record) FirstInvalid() *Check {
	i := slices.IndexFunc(r.Checks, func(c Check) bool { return c.Level == Invalid })
	if i < 0 {
		return nil
	}
	return &r.Checks[i]
}

// ThroughputPerSecond returns the successful calls per second that ended within the window.
func (r *Record) ThroughputPerSecond() float64 {
	if r.WindowNS <= 0 {
		return 0
	}
	return float64(max(0, r.Completed-r.Failed())) / (float64(r.WindowNS) / 1e9)
}

// Failed returns the number of measured requests that failed.
func (r *Record) Failed() int64 {
	var n int64
	for _, e := range r.Errors {
		n += e.Count
	}
	return n
}

// Calls returns the number of calls before the window and in it.
func (r *Record) Calls() int64 { return r.WarmUp.Requests + r.Requests }

// checkIndices reports indices that are out of range.
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
	for _, call := range r.Life.Calls {
		if len(call) != len(r.Life.Stages) {
			return fmt.Errorf("a call has %d stages, but the record names %d stages", len(call), len(r.Life.Stages))
		}
	}
	return nil
}

// An Attempt is a measurement of a trial that was thrown away, because only the machine, or
// too short a warm-up, spoiled it. setback.jsonl has its whole record.
type Attempt struct {
	Started time.Time `json:"started"`
	TookNS  int64     `json:"took_ns"`
	Check   string    `json:"check"`  // the check that refused it
	Detail  string    `json:"detail"` // the finding of the check
}

// FleetWanted selects the agents of a fleet that measure a run.
type FleetWanted struct {
	Hub       string `json:"hub,omitempty"`        // its name or URL; empty: the hub on this machine
	TokenFile string `json:"token_file,omitempty"` // the file with the controller's token
	Server    string `json:"server,omitempty"`     // selects the server's agent; empty: the server is given
	Client    string `json:"client"`               // selects the clients' agents
}

// Fleet says which agents of a fleet ran a trial's ends, on machines of their own.
type Fleet struct {
	Server  Agent         `json:"server,omitzero"` // none if the server was given
	Clients []FleetClient `json:"clients"`
	// OpenedApartNS is the time between the first and the last opening of the clients' windows,
	// by the clocks that were compared.
	OpenedApartNS int64 `json:"opened_apart_ns"`
}

// Agent describes the agent that ran an end.
type Agent struct {
	Name    string            `json:"name"`
	Labels  map[string]string `json:"labels,omitempty"`
	Machine string            `json:"machine"` // system, kernel and processor
	Boot    string            `json:"boot"`    // the same for agents of one machine
	Clock   Clock             `json:"clock"`
}

// A Clock compares an agent's clock with the lab's. Both are monotonic: they measure latencies, and
// setting the time of day does not move them. At each instant the agent's clock shows the lab's
// time plus OffsetNS, give or take ErrorNS.
type Clock struct {
	OffsetNS int64 `json:"offset_ns"` // after the trial
	ErrorNS  int64 `json:"error_ns"`  // half of the shortest exchange, before and after, and the drift
	DriftNS  int64 `json:"drift_ns"`  // of the offset, over the trial
	// WallNS is the difference between the agent's time of day and the lab's. Nothing depends on it.
	WallNS int64 `json:"wall_ns"`
}

// A FleetClient holds the figures of one of several clients; all other figures add the clients up.
// It has the figures that judge its trial, and no distributions.
type FleetClient struct {
	Agent

	Clients    int   `json:"clients"`
	BeginNS    int64 `json:"begin_ns"`  // of its window, after the begin of the first client's window
	WindowNS   int64 `json:"window_ns"` // pauses left out
	Requests   int64 `json:"requests"`
	Completed  int64 `json:"completed"`
	Failed     int64 `json:"failed,omitempty"`
	Straddling int64 `json:"straddling"`

	StraddlingNS int64 `json:"straddling_ns,omitempty"`
	BacklogNS    int64 `json:"backlog_ns,omitempty"`

	InFlight    float64     `json:"in_flight"`
	Active      float64     `json:"active"`
	ServiceNS   int64       `json:"service_ns"`       // the sum of the service times
	P50NS       int64       `json:"p50_ns"`           // of the response times, like the next two
	P99NS       int64       `json:"p99_ns"`           //
	MaxNS       int64       `json:"max_ns"`           //
	WarmUp      WarmUp      `json:"warm_up"`          //
	Pacing      *Pacing     `json:"pacing,omitempty"` // open loop only
	Process     Process     `json:"process"`          //
	Connections Connections `json:"connections"`      // without distributions
	Engine      Engine      `json:"engine"`           //
	Host        HostState   `json:"host"`             // of its machine
	Limits      []Limit     `json:"limits,omitempty"` // likewise
	// SamplesFile is like SamplesFile of a record.
	SamplesFile string `json:"samples_file,omitempty"`
}

// Foreign names the program that measured a record's figures in place of wirelab, and its file.
type Foreign struct {
	Tool    string `json:"tool"`              // as in ghz
	Version string `json:"version,omitempty"` // absent if its file does not say
	File    string `json:"file"`              // the name of the file, without its folder
	SHA256  string `json:"sha256"`            // of that file
}

// Program returns the tool with its version, if that is known.
func (f *Foreign) Program() string {
	if f.Version == "" {
		return f.Tool
	}
	return f.Tool + " " + f.Version
}
