// Package record holds the measurements of one trial, and the directory that holds
// a run's trials. It is the only door between measuring and judging: the lab
// writes a record at once and whole when a trial ends; analysis and reports
// read records, and never anything live, so that an old run can be judged again
// by newer rules.
//
// A record is plain data. Its units are in its names: nanoseconds end in NS,
// bytes in Bytes, shares are between 0 and 1. A figure that could not be measured is
// absent (a nil pointer), never zero.
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

// A Cell is the set-up of a trial: one point of a scenario's matrix. Trials with
// equal cells are repeats of one another.
type Cell struct {
	Part    string `json:"part"`    // of the scenario
	Stack   string `json:"stack"`   // the name alone
	Variant string `json:"variant"` // the stack with its options
	Place
	Connection string `json:"connection"` // shared, per-worker, pool or pool:N
	Load       Load   `json:"load"`
	Target     string `json:"target,omitempty"` // a server that wirelab did not start
	// Agents is the number of machines of a fleet that the clients are spread over; 0: they are
	// on this machine, with the server.
	Agents int `json:"agents,omitempty"`
	// Network is the trial's own network; the zero value is the machine's loopback.
	Network Network `json:"network,omitzero"`
	// the program that measured the cell, if wirelab only read its file; absent
	// if wirelab measured. With it, sizes and clients of 0 are unknown.
	Tool string `json:"tool,omitempty"`
}

// Key names the cell, as in `matrix/tcp:buffers=pooled/echo/64B/c=50`: its name
// in the plan. It is for people and for finding a cell again in its own run.
// Code that compares runs must compare whole cells, because the key has neither
// load nor connection.
func (c Cell) Key() string {
	switch {
	case c.Tool != "":
		return c.foreignKey()
	case c.Stack == ServiceStack:
		return fmt.Sprintf("%s/%s/%s/c=%d", c.Part, c.ShortVariant(), c.Workload, c.Clients)
	}
	return c.Place.Key(c.Part, c.Variant)
}

// A Network is a network namespace for one trial alone.
type Network struct {
	Ports         int   `json:"ports,omitempty"` // 0: as the kernel has it
	TimeWaitReuse bool  `json:"time_wait_reuse,omitempty"`
	DelayNS       int64 `json:"delay_ns,omitempty"` // each way, in the mean of both
	// Link is the text that asks for the link, as --link reads it; none without one.
	Link string `json:"link,omitempty"`
	// The wanted conditions from client to server, and back.
	Up   Way `json:"up,omitzero"`   // from client to server
	Down Way `json:"down,omitzero"` // and back
}

// Linked reports whether there was a link between the ends.
func (n Network) Linked() bool { return n.DelayNS > 0 || n.Link != "" }

// A Way says how a link must treat the packets of one direction.
type Way struct {
	DelayNS      int64   `json:"delay_ns,omitempty"`
	JitterNS     int64   `json:"jitter_ns,omitempty"`            // a delay is this longer or shorter at most
	Loss         float64 `json:"loss,omitempty"`                 // share of packets, each independently
	BurstLoss    float64 `json:"burst_loss,omitempty"`           // share of packets, in runs
	BurstPackets float64 `json:"burst_packets,omitempty"`        // mean length of a run
	Reorder      float64 `json:"reorder,omitempty"`              // share of packets that later ones overtake
	Duplicate    float64 `json:"duplicate,omitempty"`            // share of packets that arrive twice
	Rate         int64   `json:"rate_bits_per_second,omitempty"` // including Ethernet headers; 0: no limit
	QueueBytes   int     `json:"queue_bytes,omitempty"`          // that may wait for the rate; 0: the engine's own
}

// Load describes the load of a cell.
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

// Level says how serious the finding of a check is.
type Level string

// The levels of a check. A trial with an invalid check is never averaged in.
const (
	OK      Level = "ok"
	Warning Level = "warning"
	Invalid Level = "invalid"
	Unknown Level = "unknown" // could not be judged; Detail says why
)

// Gravity orders levels. Unknown is the least, since it takes nothing from the others.
func (l Level) Gravity() int { return slices.Index([]Level{OK, Warning, Invalid}, l) + 1 }

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

// checkSeen reports indices that are out of range.
func (r *Record) checkSeen() error {
	for _, seen := range []*Seen{r.Server.Seen, r.Client.Seen} {
		if seen == nil || seen.Stacks == nil {
			continue
		}
		for _, stack := range seen.Stacks.Stacks {
			for _, frame := range stack.Frames {
				if frame < 0 || frame >= len(seen.Stacks.Frames) {
					return fmt.Errorf("holds a call stack with function %d of %d", frame, len(seen.Stacks.Frames))
				}
			}
		}
	}
	if r.Life == nil {
		return nil
	}
	for _, call := range r.Life.Calls {
		if len(call) != len(r.Life.Stages) {
			return fmt.Errorf("holds a call of %d stages, but names for %d", len(call), len(r.Life.Stages))
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
