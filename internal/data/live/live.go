// Package live holds the reports of a run while it goes on: its events, the progress of a trial,
// and the figures of its calls. Workers print these types, the lab and the fleet pass them on, and
// views show them. Nothing here is kept: the record has the measurements.
//
// This package must not know who measures, nor how anything is shown.
package live

import (
	"time"

	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
)

// An Event is something that happens in a run: Begun, Progress, Ended, SetBack or Waiting.
type Event interface{ event() }

// An Observer follows a run. It is called from one goroutine at a time and must return quickly,
// because a trial is running.
type Observer func(Event)

// A Begun event reports that a trial begins.
type Begun struct{ Trial record.PlannedTrial }

// A Progress event reports the progress of a trial. A client prints one at least every second.
// Without it, the lab assumes that the client hangs.
type Progress struct {
	Warming  bool    `json:"warming"`
	Paused   bool    `json:"paused,omitempty"`
	Done     int64   `json:"done"`     // requests since the start, warm-up included
	Fraction float64 `json:"fraction"` // of the window, by time or by requests
	// Settled: the warm-up may end. A worker of a group goes on warming up until the lab tells it
	// to open the window.
	Settled bool   `json:"settled,omitempty"`
	Live    *Calls `json:"live,omitempty"` // nil unless the run asks for them
}

// An Ended event reports that the record of a trial has been written.
type Ended struct{ Record *record.Record }

// A SetBack event reports that a trial ended and will be measured again, because only the
// machine spoiled it, for the reason that the check gives.
type SetBack struct {
	Record *record.Record
	Why    record.Check
}

// A Waiting event comes some times per second while a run waits for a quiet machine.
type Waiting struct {
	Trials         int // trials that wait to be measured again
	Used, Patience time.Duration
}

func (Begun) event()    {}
func (Progress) event() {}
func (Ended) event()    {}
func (SetBack) event()  {}
func (Waiting) event()  {}

// Calls sums up the calls of a load while it runs, including the calls of the warm-up and
// after the window. Its times are response times, accurate to a sixteenth. The Result of the
// load has the exact figures.
type Calls struct {
	// Of the last SpanNS:
	SpanNS int64 `json:"span_ns"`
	Ended  int64 `json:"ended"` // failed ones included
	Failed int64 `json:"failed"`
	P50NS  int64 `json:"p50_ns"` // 0, like the others, if no call ended
	P90NS  int64 `json:"p90_ns"`
	P99NS  int64 `json:"p99_ns"`
	MaxNS  int64 `json:"max_ns"`

	InFlight int64 `json:"in_flight"` // at this moment, or UnknownInFlight

	// Since the first call:
	Total     Total               `json:"total"`
	Histogram []Bin               `json:"histogram,omitempty"` // from the first bin with calls to the last one
	Failures  []record.ErrorCount `json:"failures,omitempty"`  // without examples
}

// Plus adds the calls of an earlier load to Total, Histogram and Failures. It keeps the recent
// figures of c.
func (c Calls) Plus(earlier Calls) Calls {
	c.Total = c.Total.Plus(earlier.Total)
	c.Histogram = sum.ByKey(c.Histogram, earlier.Histogram, func(b Bin) int64 { return b.UpToNS })
	c.Failures = record.PlusErrors(c.Failures, earlier.Failures)
	return c
}

// UnknownInFlight is the InFlight of a fleet, whose agents report once per second.
const UnknownInFlight = -1

// Total sums up all calls.
type Total struct {
	Ended  int64 `json:"ended"`
	Failed int64 `json:"failed"`
	SumNS  int64 `json:"sum_ns"` // of response times
}

// Plus returns the calls of both.
func (t Total) Plus(other Total) Total {
	t.Ended += other.Ended
	t.Failed += other.Failed
	t.SumNS += other.SumNS
	return t
}

// A Bin counts the calls whose response time is at most UpToNS and above the bin before.
type Bin struct {
	UpToNS int64 `json:"up_to_ns"` // 0: any, above LongestBin
	Count  int64 `json:"count"`
}

// Plus returns the bin with the calls of both.
func (b Bin) Plus(other Bin) Bin {
	b.Count += other.Count
	return b
}

// Bins go from ShortestBin to LongestBin; each is twice as long as the one before.
const (
	ShortestBin = time.Microsecond
	Doublings   = 26
	LongestBin  = ShortestBin << Doublings // 67 s
)

// Bounds returns the upper bounds of all bins but the last.
func Bounds() []int64 {
	bounds := []int64{int64(ShortestBin)}
	for octave := range Doublings {
		bounds = append(bounds, int64(ShortestBin)<<(octave+1))
	}
	return bounds
}
