// Package load decides when a request is sent and by whom, and takes the time.
//
// A Plan names the callers, one a client, and the load model. Run starts a
// goroutine for each client, warms up until the throughput is steady, opens the
// window, and closes it. Inside the window a client of a closed loop shares
// nothing that any other writes: each has its own recorders, and the window's
// bounds are read only. Those of an open loop take turns, between their calls, at
// waiting for the next arrival of the schedule; those under an in-flight limit
// share its semaphore, which is what is then measured. Merging is done
// afterwards.
//
// Glossary:
//
//	intended   the instant at which a request should go out: in an open loop
//	           the schedule's, in a closed loop the moment its client was free
//	sent       the instant at which the call was really made
//	service    from sent to the answer
//	wait       the time before a permit of the in-flight limit
//	response   from intended to the answer: lateness, wait and service
//	late       the generator's own part of the response: from intended, or from
//	           the end of its client's last call where that came later, to the
//	           moment when its client was ready to send
//	queued     calls whose client was still in its last one when they should
//	           have gone out, which is the server's part
//	straddling calls that are in flight at an edge of the window
//
// Which calls count: latency is recorded for calls that begin in the window,
// however long they take, because dropping those that outlast it would drop the
// slowest; throughput counts calls that end in it; the calls in flight are
// integrated over it, with straddling calls clipped at its edges. The three are
// measured apart so that Little's law can be held against them.
//
// This package must not know what a request is, nor which stack carries it.
package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"wirelab.dev/internal/latency"
)

// Caller makes one call after another for one client. Only that client's
// goroutine uses it.
type Caller interface {
	Call(ctx context.Context) error
}

// Checker is an optional ability of a Caller: it judges the answer of the call
// that just ended, after the clock has stopped. An error makes the call a
// failed one.
type Checker interface {
	Check() error
}

// ErrWrongAnswer is wrapped by what Classify is asked about where the call
// ended well and its Checker did not take the answer.
var ErrWrongAnswer = errors.New("wrong answer")

// Plan is one trial's load. Exactly one of Requests and Duration bounds the
// window; an open loop needs Duration.
type Plan struct {
	Callers  []Caller
	Requests int           // each client's measured requests
	Extra    int           // so many of the first clients measure one more
	Duration time.Duration // the window
	Open     *Arrivals     // nil: a closed loop, each client one request at a time
	// InFlight bounds the calls in flight by a semaphore that the clients
	// wait for in the order they came. 0: no bound.
	InFlight int
	WarmUp   WarmUp
	// Drain bounds the wait, after the window, for the calls that began in
	// it; in a window bounded by requests, the wait for a call of any client
	// to end. What is in flight by then is cancelled and has failed, and
	// what was not made stays so. 0: no bound.
	Drain       time.Duration
	KeepSamples bool
	// Classify names the class of a failed call.
	Classify func(error) string
	// OnOpen and OnClose, if not nil, are called just before the window
	// opens and just after it closes, from one goroutine.
	OnOpen, OnClose func()
	// Report, if not nil, is called a few times a second from one goroutine.
	Report func(Progress)
}

// Arrivals is the schedule of an open loop: either a rate, or a burst.
type Arrivals struct {
	RatePerSecond float64 // of all clients together
	// RampTo is the rate at the window's end, where it is not the same: it
	// changes evenly from the first arrival on. A ramp has no warm-up.
	RampTo  float64
	Poisson bool // exponential gaps; otherwise equal ones
	Seed    uint64
	// Burst is how many requests are due at once, when the window opens. It
	// has no warm-up either, and the window ends with the last answer.
	Burst int
}

// Progress is how far Run has come.
type Progress struct {
	Warming  bool
	Done     int64   // requests since the start, warm-up included
	Fraction float64 // of the window, by time or by requests
}

// Result is what the clients measured. Close gives back the samples' memory.
type Result struct {
	Begin, End int64 // the window, on the clock of package clock
	Requests   int64 // measured: began in the window
	Completed  int64 // ended in the window
	Straddling int64
	Straddled  time.Duration // what the straddling calls took, all of it
	Unsent     int64         // open loop: arrivals of the window that never went out
	InFlight   float64
	Active     float64       // mean number of clients at work: falls below all where some finish early
	Between    time.Duration // closed loop: what the clients spent in the window outside of calls

	Service  *latency.Histogram
	Response *latency.Histogram // nil where it is the same as Service
	Wait     *latency.Histogram // nil without an in-flight limit
	Late     *latency.Histogram // nil in a closed loop
	Queued   int64              // open loop: arrivals that found no free client
	Spun     time.Duration      // CPU time spent in waiting for the window's arrivals

	Failures  []Failure
	Warm      WarmUpResult
	Intervals []Interval
	Samples   []*latency.SampleLog // one a client
}

// Failure is one class of failed calls.
type Failure struct {
	Class   string
	Count   int64
	Example string
}

// Interval is what ended in one step of the trial's course.
type Interval struct {
	Start    int64 // on the clock of package clock
	Took     time.Duration
	Requests int64
	Sum      time.Duration // of service times
}

// Close gives back the memory of the samples.
func (r *Result) Close() {
	for _, s := range r.Samples {
		s.Close()
	}
}

// maxClients bounds a plan: beyond it the clients' own memory is what would be
// measured.
const maxClients = 100_000

// expectedSamples is how many samples a client will about keep, where that is
// known: memory taken in the window costs time in it.
func (p *Plan) expectedSamples() int {
	if p.Open != nil {
		return int(p.Open.expected(p.Duration)) / len(p.Callers)
	}
	return p.Requests
}

func (p *Plan) validate() error {
	switch {
	case len(p.Callers) == 0 || len(p.Callers) > maxClients:
		return fmt.Errorf("load: %d clients: want 1 to %d", len(p.Callers), maxClients)
	case (p.Requests > 0) == (p.Duration > 0):
		return errors.New("load: give either requests a client or a duration")
	case p.Extra < 0 || p.Extra > 0 && (p.Requests == 0 || p.Extra >= len(p.Callers)):
		return fmt.Errorf("load: %d clients of %d with more than %d requests", p.Extra, len(p.Callers), p.Requests)
	case p.Open != nil && p.Duration <= 0:
		return errors.New("load: an open loop needs a duration")
	case p.InFlight < 0:
		return fmt.Errorf("load: an in-flight limit of %d", p.InFlight)
	case p.Open != nil:
		return p.Open.validate(p.WarmUp)
	}
	return nil
}

func (a *Arrivals) validate(w WarmUp) error {
	switch {
	case a.Burst > 0 && (a.RatePerSecond != 0 || a.RampTo != 0):
		return errors.New("load: a burst has no rate")
	case a.Burst > maxArrivals:
		return fmt.Errorf("load: a burst of %d: at most %d", a.Burst, maxArrivals)
	case (a.Burst > 0 || a.RampTo > 0) && w.AtMost > 0:
		return errors.New("load: bursts and ramps begin with the window: warm up in a run before")
	case a.Burst > 0:
		return nil
	case !(a.RatePerSecond > 0):
		return fmt.Errorf("load: an open loop needs a rate above 0, not %v", a.RatePerSecond)
	case a.RampTo < 0 || math.IsNaN(a.RampTo):
		return fmt.Errorf("load: a ramp to %v a second", a.RampTo)
	}
	return nil
}

// expected is about how many arrivals there are in the given time.
func (a *Arrivals) expected(length time.Duration) float64 {
	switch {
	case a.Burst > 0:
		return float64(a.Burst)
	case a.RampTo > 0:
		return length.Seconds() * (a.RatePerSecond + a.RampTo) / 2
	default:
		return length.Seconds() * a.RatePerSecond
	}
}
