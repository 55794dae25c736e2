// Package live defines the reports of a run in progress: its events, the progress of a trial, and
// figures of its calls. Workers print the reports, the lab and the fleet forward the reports, and
// views show them. No report is stored: the record has the measurements.
//
// This package must not know who measures, nor how anything is shown.
package live

import (
	"time"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
)

// An Event is an event of a run: Begun, Progress or Ended.
type Event interface{ event() }

// An Observer receives the events of a run, from one goroutine at a time. It must return quickly,
// because a trial is running.
type Observer func(Event)

// A Begun event reports that a trial begins.
type Begun struct{ Trial record.PlannedTrial }

// A Progress event reports the progress of a trial. A client prints an event at least every second.
// Otherwise the lab assumes that the client hangs.
type Progress struct {
	Warming  bool    `json:"warming"`
	Paused   bool    `json:"paused,omitempty"`
	Done     int64   `json:"done"`     // requests since the start, including the warm-up
	Fraction float64 `json:"fraction"` // part of the window that is over, by time or by requests
	// Settled reports that the warm-up may end. A worker of a group continues its warm-up until
	// the lab tells it to open the window.
	Settled bool `json:"settled,omitempty"`
	// MeanNS is the mean service time since the start, once Settled.
	MeanNS int64  `json:"mean_ns,omitempty"`
	Live   *Calls `json:"live,omitempty"` // nil unless the run requests live figures
	// The lab adds the CPU time that each end has used so far to live figures. 0 means unknown.
	ClientCPU time.Duration `json:"-"`
	ServerCPU time.Duration `json:"-"`
	// Agents holds the state of each agent of a fleet. The controller adds it.
	Agents []Agent `json:"-"`
}

// An Agent describes an agent of a fleet during a trial.
type Agent struct {
	Name string
	Role string   // "server" or "client"
	Rate *float64 // requests per second; nil means unknown, as for servers
	CPU  *float64 // share of its CPUs that its workers use, from 0 to 1; nil means unknown
	Health
	Remark string // describes a health that is not Fine
}

// Health says whether an agent spoils its trial. A larger value is worse.
type Health int

// The values of Health.
const (
	Fine      Health = iota
	Limiting         // its client uses all of its CPUs
	Disturbed        // other programs use its machine
	ClockOff         // the error of its clock is large for the window
	Silent           // it has sent nothing for some time
	Lost             // the controller has given it up
)

// An Ended event reports that the trial's record has been written.
type Ended struct{ Record *record.Record }

func (Begun) event()    {}
func (Progress) event() {}
func (Ended) event()    {}

// Calls sums up the calls of a running load, including calls before and after the window. Its
// times are response times, accurate to a sixteenth. The load's Result has the exact figures.
type Calls struct {
	// The first figures cover the last SpanNS nanoseconds:
	SpanNS int64 `json:"span_ns"`
	Ended  int64 `json:"ended"` // ended calls, including failed ones
	Failed int64 `json:"failed"`
	P50NS  int64 `json:"p50_ns"` // the percentiles and the maximum are 0 if no call ended
	P90NS  int64 `json:"p90_ns"`
	P99NS  int64 `json:"p99_ns"`
	MaxNS  int64 `json:"max_ns"`

	InFlight int64 `json:"in_flight"` // calls in flight now, or UnknownInFlight

	// The next figures cover all calls since the first one:
	Total Total `json:"total"`
	// From the first to the last bin that has calls.
	Histogram []Bin               `json:"histogram,omitempty"`
	Failures  []record.ErrorCount `json:"failures,omitempty"` // without example texts
}

// Plus adds the calls of an earlier load to Total, Histogram and Failures. The recent figures come
// from c alone.
func (c Calls) Plus(earlier Calls) Calls {
	c.Total = c.Total.Plus(earlier.Total)
	c.Histogram = sum.ByKey(c.Histogram, earlier.Histogram, func(b Bin) int64 { return b.UpToNS })
	c.Failures = record.PlusErrors(c.Failures, earlier.Failures)
	return c
}

// UnknownInFlight is the InFlight of a fleet, because its agents report only once per second.
const UnknownInFlight = -1

// Total sums up all calls.
type Total struct {
	Ended  int64 `json:"ended"`
	Failed int64 `json:"failed"`
	SumNS  int64 `json:"sum_ns"` // sum of the response times
}

// Plus adds the totals of t and other.
func (t Total) Plus(other Total) Total {
	t.Ended += other.Ended
	t.Failed += other.Failed
	t.SumNS += other.SumNS
	return t
}

// A Bin counts the calls with a response time up to UpToNS and above the previous bin's UpToNS.
type Bin struct {
	UpToNS int64 `json:"up_to_ns"` // 0 means no limit: times above LongestBin
	Count  int64 `json:"count"`
}

// Plus returns a bin with the calls of both bins.
func (b Bin) Plus(other Bin) Bin {
	b.Count += other.Count
	return b
}

// The bins' upper bounds go from ShortestBin to LongestBin. Each bound is twice the previous one.
const (
	ShortestBin = time.Microsecond
	Doublings   = 26
	LongestBin  = ShortestBin << Doublings // 67 s
)

// Bounds returns the upper bounds of all bins except the last, which has none.
func Bounds() []int64 {
	bounds := []int64{int64(ShortestBin)}
	for octave := range Doublings {
		bounds = append(bounds, int64(ShortestBin)<<(octave+1))
	}
	return bounds
}
