// Package load generates load: it decides when each client sends a request, and
// measures the latency.
//
//  1. A Plan names the callers, one for each client, and the load model.
//  2. Run starts a goroutine for each client and warms up until the throughput is
//     steady.
//  3. It opens the measurement window, waits for its end, and drains the calls
//     that are still in flight.
//  4. It merges the clients' records into a Result.
//
// Package search runs plans at different rates to find the highest rate that meets a goal. A search
// elsewhere gives a load its steps by Controls.
//
// During the window the clients of a closed loop share no data that any client
// writes: each client has its own recorders. Between their calls, the clients of an
// open loop take turns at waiting for the next arrival of the schedule. Clients
// under an in-flight limit share a semaphore; the wait for it is measured.
//
// Glossary:
//
//	intended   the instant at which a request should be sent: in an open loop the
//	           schedule sets it, in a closed loop it is when the client became free
//	sent       the instant at which the call was made
//	service    the time from sent to the answer
//	wait       the time spent waiting for a permit of the in-flight limit
//	response   the time from intended to the answer: late, wait and service
//	late       the generator's own delay: from intended, or from the end of the
//	           client's previous call if that was later, to the moment when the
//	           client was ready to send
//	queued     calls that were due while their client was still in its previous
//	           call: a delay caused by the server
//	straddling calls that are in flight when the window begins or ends
//	think time the time that a client of a closed loop waits after a call, like a user
//	           who reads; no other time includes it
//
// Which calls count: latency is recorded for calls that begin in the window,
// however long they take: without the calls that outlast it, the slowest calls would
// be missing. Throughput counts calls that end in the window. The calls in flight are
// integrated over the window, and straddling calls are clipped at its edges. By
// Little's law the three figures must agree, which checks the counting.
//
// This package must not know what a request is, nor which stack sends it.
package load

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

// Caller makes one call after another for one client. Only that client's goroutine uses it.
type Caller interface {
	Call(ctx context.Context) error
}

// A Checker is a Caller that can check answers: Check verifies the answer of the
// last call, after the call was timed. If it returns an error, the call counts as failed.
type Checker interface {
	Check() error
}

// ErrWrongAnswer is wrapped by the error that Classify gets when a call succeeded
// but its Checker rejected the answer.
var ErrWrongAnswer = errors.New("wrong answer")

// A Plan describes the load of one trial. Exactly one of Requests and Duration bounds
// the window; an open loop needs Duration.
type Plan struct {
	Callers  []Caller
	Requests int           // each client's measured requests
	Extra    int           // the first Extra clients measure one request more
	Group    *Group        // nil: the callers are the whole group
	Duration time.Duration // the window
	Open     *Arrivals     // nil: a closed loop, in which each client sends one request at a time
	// InFlight limits the calls in flight with a first-come-first-served semaphore. 0: no limit.
	InFlight int
	WarmUp   WarmUp
	// Drain limits the wait, after the window, for calls that began in it. If requests bound the
	// window, Drain limits the time in which no call ends. Calls still in flight are then cancelled
	// and count as failed. Arrivals that were not sent count as unsent. 0: no limit.
	Drain       time.Duration
	KeepSamples bool
	// OwnConnections says that each caller has a connection of its own, so that the result lists the
	// calls of each connection.
	OwnConnections bool
	// Sharing is the number of neighbouring callers that share a connection or a stream. 0 means 1.
	Sharing int
	// Classify returns the class and the code of a failed call's error.
	Classify func(error) record.ErrorCount
	// OnOpen and OnClose, if not nil, are called just before the window
	// opens and just after it closes, from one goroutine.
	OnOpen, OnClose func()
	// Controls end the load early, pause it, or give it its cues. nil: the load runs by itself.
	Controls *Controls
	// Begins names the cue for the first call. Opens names the cue for opening the window; the
	// load waits for it after the warm-up. The window of a load that waits for slices is these slices.
	Begins, Opens Cue
	// Report, if not nil, is called a few times per second, from one goroutine.
	Report func(live.Progress)
	// Intervals, if not nil, asks for a report per interval. This costs each call some
	// nanoseconds, and each client eleven kilobytes.
	Intervals *Intervals
	// Live adds figures of recent calls to reports. It costs some nanoseconds per call, and two
	// kilobytes per client.
	Live bool
}

// A Group says which callers of a larger group a plan has: the callers from number First on.
// Arrivals and Extra then describe the whole group, and each plan takes the share of its own
// callers. Plans with the same seed and begin together send the same requests as one plan would.
type Group struct {
	First int `json:"first"` // from 0
	Of    int `json:"of"`    // callers of the whole group
}

// A Cue names the signal that a plan waits for.
type Cue int

// The cues.
const (
	WithoutCue    Cue = iota // the plan waits for nothing
	OnGoControl              // Controls.Go
	OnOpenControl            // Controls.Open
	OnSlices                 // Controls.TakeTurns: the load sends nothing until then
)

// Arrivals describes the schedule of an open loop: either a rate or a burst.
type Arrivals struct {
	RatePerSecond float64 // requests per second of all clients together; without stages
	// Stages is the course of a rate that changes, over the plan's duration. Such a load has no warm-up.
	// The result has the figures of each stage, if there are several, in place of those by name.
	Stages []record.Stage
	// Own gives each caller, or each group of callers that share a stream, a schedule of its own with
	// an equal share of the rate: a slow stream then delays only its own requests.
	Own bool
	// Total is the number of requests, which are due within the plan's duration. A load with a Total
	// has no warm-up, and sends nothing after them. 0: the rate decides, and requests that nobody counts
	// keep up the load until the last measured one is answered.
	Total int
	// Spread lets the clients of a group take turns in an order that spreads those of each plan evenly:
	// otherwise a plan sends nothing while the clients of the others have their turns.
	Spread  bool
	Poisson bool // the gaps are exponentially distributed; otherwise all gaps are equal
	Seed    uint64
	// Burst is the number of requests that are all due when the window opens. A
	// burst has no warm-up, and the window ends with the last answer.
	Burst int
}

// maxClients limits the clients of a plan: with more, their own memory would spoil the measurement.
const maxClients = 100_000

func (p *Plan) validate() error {
	g := p.group()
	switch {
	case len(p.Callers) == 0 || len(p.Callers) > maxClients:
		return fmt.Errorf("load: the plan has %d clients: want 1 to %d", len(p.Callers), maxClients)
	case (p.Requests > 0) == (p.Duration > 0):
		return fmt.Errorf("load: the plan has %d requests per client and a duration of %v: set exactly one of the two", p.Requests, p.Duration)
	case p.Extra < 0 || p.Extra > 0 && (p.Requests == 0 || p.Extra >= g.Of):
		return fmt.Errorf("load: the plan has %d extra requests for %d clients with %d requests each: want fewer extra requests than clients, and at least 1 request per client", p.Extra, len(p.Callers), p.Requests)
	case p.Open != nil && p.Duration <= 0:
		return errors.New("load: the plan has an open loop without a duration: set the duration of the window")
	case p.InFlight < 0:
		return fmt.Errorf("load: the in-flight limit is %d: want 0 or more", p.InFlight)
	case p.Intervals != nil && p.Intervals.Every <= 0:
		return fmt.Errorf("load: the reporting interval is %v: want a time above zero", p.Intervals.Every)
	case g.First < 0 || g.First+len(p.Callers) > g.Of:
		return fmt.Errorf("load: the plan has the clients %d to %d, but its group has only 0 to %d", g.First, g.First+len(p.Callers)-1, g.Of-1)
	case (p.Begins != WithoutCue || p.Opens != WithoutCue) && p.Controls == nil:
		return errors.New("load: the plan waits for a cue (Begins or Opens), but its Controls are nil: set Controls")
	case p.Open != nil && p.Open.Total > 0 && float64(p.Open.Total-1)/p.Open.RatePerSecond >= p.Duration.Seconds():
		return fmt.Errorf("load: %d requests at %v per second take longer than %v: set a longer duration", p.Open.Total, p.Open.RatePerSecond, p.Duration)
	case p.Open != nil:
		return p.Open.validate(p.WarmUp)
	}
	return nil
}

func (a *Arrivals) validate(w WarmUp) error {
	switch {
	case a.Burst > 0 && (a.RatePerSecond != 0 || len(a.Stages) > 0):
		return fmt.Errorf("load: the plan has both a burst of %d requests and a rate: set only one of the two", a.Burst)
	case a.Burst > maxArrivals:
		return fmt.Errorf("load: the burst has %d requests: want at most %d", a.Burst, maxArrivals)
	case a.endsItself() && w.AtMost > 0:
		return errors.New("load: a burst, a ramp or a number of requests cannot have a warm-up: warm up in an earlier run")
	case a.Burst > 0:
		return nil
	case len(a.Stages) > 0:
		return a.validateStages()
	case !(a.RatePerSecond > 0):
		return fmt.Errorf("load: the rate is %v requests per second: want a rate above 0", a.RatePerSecond)
	}
	return nil
}

func (a *Arrivals) validateStages() error {
	for i, s := range a.Stages {
		if !(s.Length > 0 && s.From >= 0 && s.To >= 0) {
			return fmt.Errorf("load: stage %d lasts %v, from %v to %v requests per second: want a time above 0, and rates of 0 or more", i+1, s.Length, s.From, s.To)
		}
	}
	if !(a.expected(0) > 0) {
		return errors.New("load: the stages have no requests: want a rate above 0")
	}
	return nil
}

// endsItself reports whether nothing is sent besides the measured requests.
func (a *Arrivals) endsItself() bool { return a.Burst > 0 || len(a.Stages) > 0 || a.Total > 0 }

// stageEnds returns the ends of the stages, or nil if there is at most one.
func (a *Arrivals) stageEnds() (ends []int64) {
	if len(a.Stages) < 2 {
		return nil
	}
	end := int64(0)
	for _, s := range a.Stages {
		end += int64(s.Length)
		ends = append(ends, end)
	}
	return ends
}

// expected returns the expected number of arrivals in the given time.
func (a *Arrivals) expected(length time.Duration) float64 {
	switch {
	case a.Burst > 0:
		return float64(a.Burst)
	case a.Total > 0:
		return float64(a.Total)
	case len(a.Stages) > 0:
		sum := 0.0
		for _, s := range a.Stages {
			sum += s.Expected()
		}
		return sum
	default:
		return length.Seconds() * a.RatePerSecond
	}
}

// expectedSamples estimates the number of samples of one client, so that their memory is
// allocated before the window. It returns 0 if the number is unknown.
func (p *Plan) expectedSamples() int {
	if p.Open != nil {
		return int(p.Open.expected(p.Duration)) / p.group().Of
	}
	return p.Requests
}

// group returns the plan's group. Without one, the plan's callers are the whole group.
func (p *Plan) group() Group {
	if p.Group != nil {
		return *p.Group
	}
	return Group{Of: len(p.Callers)}
}

// sharing returns the number of callers that share a connection.
func (p *Plan) sharing() int { return max(1, p.Sharing) }

// extra returns how many of the plan's own callers measure one more request.
func (p *Plan) extra() int { return min(max(p.Extra-p.group().First, 0), len(p.Callers)) }
