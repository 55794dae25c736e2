package load

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// Result holds what the clients measured. Its Intervals start relative to the window, its WarmUp
// has no Method, and its distributions are missing until Encode. Close frees the samples' memory.
type Result struct {
	Begin, End int64 // the window, on the clock of package clock
	record.Measurement
	Failures []record.ErrorCount
	Between  time.Duration        // closed loop: time of the window that clients spent between calls
	Samples  []*latency.SampleLog // one for each client

	// Late holds the lateness that Encode puts into Pacing; nil in a closed loop.
	Late *latency.Histogram

	service, response, wait, messages *latency.Histogram // nil if the plan has no such times
	named                             []namedResult
}

// Close frees the memory of the samples.
func (r *Result) Close() {
	for _, s := range r.Samples {
		s.Close()
	}
}

// maxIntervals limits the intervals of a result.
const maxIntervals = 240

// result merges the clients' records. All clients must have ended.
func (c *controller) result() *Result {
	all := tally{finish: never}
	for _, one := range c.clients {
		all = all.plus(one.tally)
	}
	b := c.lastBounds(all.finish)
	begin, end := b.begin, b.end
	var active int64
	var statuses []record.StatusCount
	r := &Result{Begin: begin, End: end}
	for _, one := range c.clients {
		active += one.span(b)
		r.Failures = record.PlusErrors(r.Failures, one.failures)
		statuses = record.PlusStatuses(statuses, one.statuses)
		if one.samples != nil {
			r.Samples = append(r.Samples, one.samples)
		}
	}
	length := float64(b.within(begin, end))
	r.Measurement = record.Measurement{
		Requests: all.recorded, Completed: all.completed, Straddling: all.straddling,
		StraddlingNS: all.straddled, BacklogNS: all.backlog,
		FailedNS: &all.failed, Statuses: statuses,
		InFlight: float64(all.busy) / length, Active: float64(active) / length,
		WarmUp:    record.WarmUp{TookNS: b.running(begin) - c.began, Requests: all.warmedUp, Settled: c.settled},
		Intervals: condense(c.course, maxIntervals),
		Course:    c.merge(b.running(begin)),

		EndedEarly: c.endedEarly, Pauses: int64(len(b.pauses)), PausedNS: b.cut(end) - b.cut(begin),
	}
	r.Traces, r.Traced = tracesOf(c.clients)
	setEnough(&r.WarmUp, until(c.course, b.running(end)), figureOf(&c.plan))
	for i := range r.Intervals {
		r.Intervals[i].StartNS -= b.running(begin)
	}
	if c.schedule == nil {
		r.Between = time.Duration(max(0, active-all.occupied-all.thought))
		r.ThoughtNS = all.thought
	} else {
		r.Pacing = &record.Pacing{Scheduled: all.recorded + c.unsent, Queued: all.queued, Unsent: c.unsent, SpunNS: all.spun}
	}
	slices.SortFunc(r.Failures, func(a, b record.ErrorCount) int {
		return cmp.Or(cmp.Compare(a.Code, b.Code), cmp.Compare(a.Class, b.Class))
	})
	r.named = mergeNamed(c.clients)
	r.service = c.merged(func(one *client) *latency.Recorder { return one.service })
	r.response = c.merged(func(one *client) *latency.Recorder { return one.response })
	r.messages = c.merged(func(one *client) *latency.Recorder { return one.messages })
	r.wait = c.merged(func(one *client) *latency.Recorder { return one.wait })
	r.Late = c.merged(func(one *client) *latency.Recorder { return one.late })
	return r
}

// lastBounds returns the bounds of the measured window. finish is the instant at which its last
// call ended.
func (c *controller) lastBounds(finish int64) *bounds {
	b := *c.bounds()
	burst := c.plan.Open != nil && c.plan.Open.Burst > 0
	if b.end == notYet || burst && !c.endedEarly {
		b.end = max(finish, b.begin+1)
	}
	if paused := b.open(); paused != nil { // the last calls ended in it
		b.end = min(b.end, paused.from)
		b.pauses = b.pauses[:len(b.pauses)-1]
	}
	return &b
}

// merge merges the courses of the clients that kept one. Its counts cover these clients only.
func (c *controller) merge(windowBegin int64) *record.Course {
	all, responses := c.clients[0].course, c.clients[0].responses
	for _, one := range c.clients[1:] {
		if one.course != nil {
			all.Add(one.course)
		}
		if one.responses != nil {
			responses.Add(one.responses)
		}
	}
	responses = cmp.Or(responses, all)
	course := &record.Course{BeginNS: c.began - windowBegin, StretchNS: int64(all.Slot())}
	for slot := range all.Slots() {
		count := all.Count(slot)
		quantile := func(of *latency.Course, q float64, least int64) *int64 {
			if count < least {
				return nil
			}
			return new(int64(of.Quantile(slot, q)))
		}
		course.Calls = append(course.Calls, count)
		course.Failed = append(course.Failed, all.Failed(slot))
		course.P99NS = append(course.P99NS, quantile(all, 0.99, record.CourseCalls))
		course.ResponseP50NS = append(course.ResponseP50NS, quantile(responses, 0.5, record.CourseMedianCalls))
		course.ResponseP99NS = append(course.ResponseP99NS, quantile(responses, 0.99, record.CourseCalls))
		course.ResponseMaxNS = append(course.ResponseMaxNS, quantile(responses, 1, 1))
	}
	return course
}

// ResponseTimes returns the response times of an open loop.
func (r *Result) ResponseTimes() *latency.Histogram { return r.response }

// Encode fills in the distributions of the measurement. Run leaves them out, because a load that
// only warms up or probes needs none.
func (r *Result) Encode() error {
	var all error
	distribution := func(h *latency.Histogram) *latency.Distribution {
		if h == nil {
			return nil
		}
		d, err := h.Distribution()
		all = errors.Join(all, err)
		return &d
	}
	r.Service = *distribution(r.service)
	r.Response, r.Wait, r.Messages = distribution(r.response), distribution(r.wait), distribution(r.messages)
	r.Named = nil
	for _, one := range r.named {
		calls := one.NamedCalls
		calls.Service, calls.Response = *distribution(one.service), distribution(one.response)
		r.Named = append(r.Named, calls)
	}
	if late := distribution(r.Late); late != nil {
		r.Pacing.Late = *late
	}
	return all
}

// span returns how many nanoseconds of the window the client was at work.
func (c *client) span(b *bounds) int64 {
	if c.quotaDone() {
		return b.within(b.begin, c.finish)
	}
	return b.within(b.begin, b.end)
}

func (c *controller) merged(of func(*client) *latency.Recorder) *latency.Histogram {
	if of(c.clients[0]) == nil {
		return nil
	}
	h := latency.NewHistogram()
	for _, one := range c.clients {
		h.Add(of(one))
	}
	return h
}

// tracesOf returns the slowest traces of all clients, and the number of all traces.
func tracesOf(clients []*client) (slowest []record.Trace, count int64) {
	for _, one := range clients {
		slowest = record.PlusTraces(slowest, one.traces.slowest)
		count += one.traces.count
	}
	return slowest, count
}

// mergeNamed adds up what the clients recorded, in the order of the names.
func mergeNamed(clients []*client) []namedResult {
	var all []namedResult
	for _, c := range clients {
		for _, one := range c.named.all {
			i := slices.IndexFunc(all, func(r namedResult) bool { return r.Name == one.Name })
			if i < 0 {
				i = len(all)
				fresh := namedResult{NamedCalls: record.NamedCalls{Name: one.Name}, service: latency.NewHistogram()}
				if one.response != nil {
					fresh.response = latency.NewHistogram()
				}
				all = append(all, fresh)
			}
			into := &all[i]
			into.NamedCalls = into.Plus(one.NamedCalls)
			into.service.Add(one.service)
			if one.response != nil {
				into.response.Add(one.response)
			}
		}
	}
	slices.SortFunc(all, func(a, b namedResult) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// ownCostRequests is the number of requests of OwnCost: some milliseconds.
const ownCostRequests = 50_000

type noopCaller struct{}

func (noopCaller) Call(context.Context) error { return nil }

// OwnCost measures the load generator's own time for a request, in nanoseconds, with a closed loop
// of one client whose calls do nothing. It returns the minimum of three runs, because disturbances
// only make a run longer, and 0 if ctx ends first.
func OwnCost(ctx context.Context) float64 {
	const tries = 3
	least := 0.0
	for range tries {
		r, err := Run(ctx, Plan{Callers: []Caller{noopCaller{}}, Requests: ownCostRequests})
		if err != nil {
			return 0
		}
		cost := float64(r.End-r.Begin) / float64(r.Requests)
		if least == 0 || cost < least {
			least = cost
		}
	}
	return least
}

// A Written is a call as a client in another language wrote it down. Such a client knows none of
// this package's rules. The instants are those of package clock.
type Written struct {
	Due, Sent, Ended int64
	Caller           uint32
	Failure          uint32 // 0: it was answered rightly; otherwise one of the Journal's, from 1
}

// A Journal holds all calls of a client in another language.
type Journal struct {
	Calls      []Written // in any order; Replay sorts them
	Begin, End int64     // the window; End counts only where a duration bounds it
	Failures   []record.ErrorCount
}

// mostWritten bounds the length of a journal. A longer one probably has wrong units.
const mostWritten = 2 * time.Hour

// firstCallAtMost is the longest time from the window's begin to the first call without a warm-up:
// many callers take a while to start.
const firstCallAtMost = 10 * time.Second

// Replay computes the result of a plan by the rules of Run, from the calls that its clients wrote
// down. The plan needs one Caller for each of their callers, but Replay calls none of them.
func Replay(p Plan, j Journal) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Classify = func(err error) record.ErrorCount {
		failed, _ := errors.AsType[*writtenFailure](err) // replay passes errors of no other type
		return record.ErrorCount{Class: failed.Class, Code: failed.Code}
	}
	c, err := newController(p)
	if err != nil {
		return nil, err
	}
	defer c.release()
	slices.SortFunc(j.Calls, func(a, b Written) int { return cmp.Compare(a.Ended, b.Ended) })
	if err := c.check(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.setWindow(j)
	if err := c.replay(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.settled = steady(until(c.course, j.Begin), len(c.clients), figureOf(&c.plan))
	return c.result(), nil
}

// check refuses impossible calls.
func (c *controller) check(j Journal) error {
	if len(j.Calls) == 0 {
		return errors.New("no call was written down")
	}
	for i, call := range j.Calls {
		switch {
		case int(call.Caller) >= len(c.clients):
			return fmt.Errorf("call %d belongs to caller %d: want a number from 0, below %d", i, call.Caller, len(c.clients))
		case int(call.Failure) > len(j.Failures):
			return fmt.Errorf("call %d has failure %d: want at most %d", i, call.Failure, len(j.Failures))
		case call.Due > call.Sent || call.Sent > call.Ended:
			return fmt.Errorf("call %d was due at %d, sent at %d, and ended at %d: want each no sooner than the one before", i, call.Due, call.Sent, call.Ended)
		}
	}
	first, last := earliest(j.Calls), j.Calls[len(j.Calls)-1].Ended
	if last-first < 0 || last-first > int64(mostWritten) { // below 0: the difference overflowed
		return fmt.Errorf("its calls last from %d to %d: want nanoseconds of CLOCK_MONOTONIC, and %v at most", first, last, mostWritten)
	}
	if j.Begin > last || first-j.Begin > int64(firstCallAtMost) {
		return fmt.Errorf("the window begins at %d, and its calls last from %d to %d: want an instant among them", j.Begin, first, last)
	}
	if c.plan.Duration > 0 && j.End-j.Begin != int64(c.plan.Duration) {
		return fmt.Errorf("the window lasts %v: want %v", time.Duration(j.End-j.Begin), c.plan.Duration)
	}
	return nil
}

func earliest(calls []Written) int64 {
	first := calls[0].Due
	for _, call := range calls {
		first = min(first, call.Due)
	}
	return first
}

func (c *controller) setWindow(j Journal) {
	c.began = earliest(j.Calls)
	c.lastTick = c.began
	b := bounds{begin: j.Begin, end: notYet}
	if c.plan.Duration > 0 {
		b.end = j.End
	}
	c.publish(b)
	for _, one := range c.clients {
		for _, course := range one.courses() {
			course.Begin(c.began, time.Duration(j.Calls[len(j.Calls)-1].Ended-c.began))
		}
	}
}

// replay accounts for the calls in the order in which they ended, and observes the course
// as often as Run does.
func (c *controller) replay(j Journal) error {
	freed := make([]int64, len(c.clients))
	for i := range freed {
		freed[i] = never
	}
	for _, written := range j.Calls {
		for written.Ended > c.lastTick+int64(tick) {
			c.observeAt(c.lastTick + int64(tick))
		}
		own := c.clients[written.Caller]
		var failed error
		if written.Failure > 0 {
			failed = (*writtenFailure)(&j.Failures[written.Failure-1])
		}
		own.account(&call{
			intended: written.Due, freed: freed[written.Caller], ready: written.Sent, sent: written.Sent, ended: written.Ended,
		}, failed)
		freed[written.Caller] = written.Ended
		if own.quota > 0 && own.recorded > own.quota {
			return fmt.Errorf("caller %d made more than its %d calls in the window", written.Caller, own.quota)
		}
	}
	c.observeAt(j.Calls[len(j.Calls)-1].Ended)
	return nil
}

// writtenFailure is the failure of a written call.
type writtenFailure record.ErrorCount

func (f *writtenFailure) Error() string { return f.Example }
