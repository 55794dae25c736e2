package load

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/sum"
	"wirelab.dev/internal/data/record"
)

// Result holds what the clients measured. Its Intervals start relative to the window. Its WarmUp
// has no Method. Its distributions are missing until Encode. Close frees the samples' memory.
type Result struct {
	Begin, End int64 // the window, on the clock of package clock
	// CostBefore and CostAfter say how long before and after the window the cost of the counted calls
	// arose: 0, unless the window is made of slices.
	CostBefore, CostAfter int64
	record.Measurement
	Failures []record.ErrorCount
	Between  time.Duration        // closed loop: time of the window that clients spent between calls
	Samples  []*latency.SampleLog // one log per client

	// Late holds the lateness that Encode puts into Pacing; nil in a closed loop.
	Late *latency.Histogram

	service, response, wait, messages *latency.Histogram // nil if the plan has no such times
	named, placed                     []namedResult
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
	all := callTotals{finish: pastInstant}
	for _, one := range c.clients {
		all = all.plus(one.callTotals)
	}
	b := c.measuredBounds(all.finish)
	begin, end := b.begin, b.end
	var active int64
	var statuses []record.StatusCount
	r := &Result{Begin: begin, End: end}
	r.CostBefore, r.CostAfter = b.costAround()
	for _, one := range c.clients {
		active += one.activeTime(b)
		r.Failures = record.PlusErrors(r.Failures, one.failures)
		statuses = record.PlusStatuses(statuses, one.statuses)
		if one.samples != nil {
			r.Samples = append(r.Samples, one.samples)
		}
	}
	length := float64(b.timeInWindow(begin, end))
	r.Measurement = record.Measurement{
		Requests: all.recorded, Resent: all.resent, Completed: all.completed, Straddling: all.straddling,
		StraddlingNS: all.straddled, BacklogNS: all.backlog,
		FailedNS: &all.failed, Statuses: statuses, Answers: mergeAnswers(c.clients), ByConnection: c.callsByConnection(),
		InFlight: float64(all.busy) / length, Active: float64(active) / length,
		WarmUp:    record.WarmUp{TookNS: b.runningClock(begin) - c.began, Requests: all.warmedUp, Settled: c.settled},
		Intervals: mergeNeighbours(c.course, maxIntervals),
		Course:    c.mergeCourses(b.runningClock(begin)),

		EndedEarly: c.endedEarly, Pauses: int64(len(b.pauses)), PausedNS: b.pausedBefore(end) - b.pausedBefore(begin),
		Slices: c.slicesOf(b), EndedBetween: all.endedBetween,
	}
	if b.slices > 0 {
		r.Pauses = 0
	}
	if c.clients[0].bytes != nil {
		r.Bytes = &record.CallBytes{}
		for _, one := range c.clients {
			*r.Bytes = r.Bytes.Plus(one.carried)
		}
	}
	r.Traces, r.Traced = mergeTraces(c.clients)
	setSteadyBegin(&r.WarmUp, intervalsUntil(c.course, b.runningClock(end)), steadinessSeries(&c.plan))
	for i := range r.Intervals {
		r.Intervals[i].StartNS -= b.runningClock(begin)
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
	r.named = mergeNamed(c.clients, func(one *client) *callsByName { return &one.named })
	r.placed = mergeNamed(c.clients, func(one *client) *callsByName { return &one.placed })
	r.service = c.mergeRecorders(func(one *client) *latency.Recorder { return one.service })
	r.response = c.mergeRecorders(func(one *client) *latency.Recorder { return one.response })
	r.messages = c.mergeRecorders(func(one *client) *latency.Recorder { return one.messages })
	r.wait = c.mergeRecorders(func(one *client) *latency.Recorder { return one.wait })
	r.Late = c.mergeRecorders(func(one *client) *latency.Recorder { return one.late })
	return r
}

// measuredBounds returns the bounds of the measured window. finish is the instant at which its last
// call ended.
func (c *controller) measuredBounds(finish int64) *windowBounds {
	b := *c.bounds()
	burst := c.plan.Open != nil && c.plan.Open.Burst > 0
	if b.end == futureInstant || burst && !c.endedEarly {
		b.end = max(finish, b.begin+1)
	}
	if paused := b.openPause(); paused != nil { // the last calls ended in this pause
		b.end = min(b.end, paused.from)
		b.pauses = b.pauses[:len(b.pauses)-1]
	}
	return &b
}

// mergeCourses merges the courses of the clients that kept one. Other clients are not counted.
func (c *controller) mergeCourses(windowBegin int64) *record.Course {
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

// Encode fills in the distributions of the measurement. Run leaves them out, because some loads,
// such as a warm-up, need none.
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
	named := func(results []namedResult) []record.NamedCalls {
		return lists.Map(results, func(one namedResult) record.NamedCalls {
			calls := one.NamedCalls
			calls.Service, calls.Response = *distribution(one.service), distribution(one.response)
			return calls
		})
	}
	r.Named, r.ByAddress = named(r.named), named(r.placed)
	if late := distribution(r.Late); late != nil {
		r.Pacing.Late = *late
	}
	return all
}

// activeTime returns the nanoseconds of the window until the client had made all its requests.
func (c *client) activeTime(b *windowBounds) int64 {
	if c.quotaDone() {
		return b.timeInWindow(b.begin, c.finish)
	}
	return b.timeInWindow(b.begin, b.end)
}

func (c *controller) mergeRecorders(of func(*client) *latency.Recorder) *latency.Histogram {
	if of(c.clients[0]) == nil {
		return nil
	}
	h := latency.NewHistogram()
	for _, one := range c.clients {
		h.Add(of(one))
	}
	return h
}

// mergeTraces returns the slowest traces of all clients, and the number of all traces.
func mergeTraces(clients []*client) (slowest []record.Trace, count int64) {
	for _, one := range clients {
		slowest = record.PlusTraces(slowest, one.traces.slowest)
		count += one.traces.count
	}
	return slowest, count
}

// mergeAnswers adds up the answers of all clients. It returns nil if callers report no sizes.
func mergeAnswers(clients []*client) *record.Answers {
	var all *record.Answers
	for _, c := range clients {
		if c.sized == nil {
			continue
		}
		one := record.Answers{Sizes: slices.Clone(c.answers.sizes), MinBytes: c.answers.from, MaxBytes: c.answers.to}
		slices.SortFunc(one.Sizes, func(a, b record.SizeCount) int { return cmp.Compare(a.Bytes, b.Bytes) })
		for i, n := range c.answers.ranges {
			if n > 0 {
				one.Rounded = append(one.Rounded, record.SizeCount{Bytes: record.LowestSizeIn(i), Count: n})
			}
		}
		all = sum.AddPresent(all, &one)
	}
	return all
}

// callsByConnection returns the calls of each connection, if each client, or each group of clients
// that share one, has a connection of its own.
func (c *controller) callsByConnection() (all []record.ConnectionCalls) {
	shared := c.plan.sharing()
	if !c.plan.OwnConnections || len(c.clients) <= shared || (len(c.clients)+shared-1)/shared > record.KeptConnections {
		return nil
	}
	number := c.plan.group().First / shared
	for clients := range slices.Chunk(c.clients, shared) {
		calls := record.ConnectionCalls{Client: number}
		number++
		var times []*latency.Recorder
		for _, one := range clients {
			calls.Requests += one.recorded
			for _, f := range one.failures {
				calls.Failed += f.Count
			}
			times = append(times, one.service)
		}
		if calls.Requests > 0 {
			h := latency.NewHistogram(times...)
			calls.SumNS, calls.P25NS, calls.P90NS = int64(h.Sum()), int64(h.Quantile(0.25)), int64(h.Quantile(0.9))
		}
		all = append(all, calls)
	}
	return all
}

// mergeNamed adds up what the clients recorded, in the order of the stages and names.
func mergeNamed(clients []*client, of func(*client) *callsByName) []namedResult {
	var all []namedResult
	for _, c := range clients {
		for _, one := range of(c).all {
			i := slices.IndexFunc(all, func(r namedResult) bool { return r.Name == one.Name })
			if i < 0 {
				i = len(all)
				fresh := namedResult{NamedCalls: record.NamedCalls{Name: one.Name, Stage: one.Stage}, service: latency.NewHistogram()}
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
	slices.SortFunc(all, func(a, b namedResult) int { return a.Compare(b.NamedCalls) })
	return all
}

// ownCostRequests is the number of requests in a run of OwnCost. They take half a millisecond.
const ownCostRequests = 3_000

type emptyCaller struct{}

func (emptyCaller) Call(context.Context) error { return nil }

// OwnCost measures the load generator's own time per request, in nanoseconds. It runs a closed
// loop of one client whose calls do nothing, and returns the minimum of three runs, because
// disturbances only make a run longer. It returns 0 if ctx ends first.
func OwnCost(ctx context.Context) float64 {
	const tries = 3
	least := 0.0
	for range tries {
		r, err := Run(ctx, Plan{Callers: []Caller{emptyCaller{}}, Requests: ownCostRequests})
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
