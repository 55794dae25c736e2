package load

import (
	"maps"
	"slices"
	"time"

	"wirelab.dev/internal/latency"
)

// maxIntervals limits the intervals of a result.
const maxIntervals = 240

// result merges the clients' records. All clients must have ended.
func (c *controller) result() *Result {
	all := tally{finish: never}
	failures := map[string]*Failure{}
	for _, one := range c.clients {
		all.add(&one.tally)
		mergeFailures(failures, one.failures)
	}
	begin, end := c.window.begin.Load(), c.window.end.Load()
	if end == notYet || c.plan.Open != nil && c.plan.Open.Burst > 0 {
		end = max(all.finish, begin+1)
	}
	r := &Result{
		Begin: begin, End: end,
		Requests: all.recorded, Completed: all.completed, Unsent: c.unsent, Queued: all.queued,
		Straddling: all.straddling, Straddled: time.Duration(all.straddled),
		Spun:      time.Duration(all.spun),
		Service:   c.merged(func(one *client) *latency.Recorder { return one.service }),
		Response:  c.merged(func(one *client) *latency.Recorder { return one.response }),
		Wait:      c.merged(func(one *client) *latency.Recorder { return one.wait }),
		Late:      c.merged(func(one *client) *latency.Recorder { return one.late }),
		Intervals: condense(c.course, maxIntervals),
	}
	var active int64
	for _, one := range c.clients {
		active += one.span(begin, end)
		if one.samples != nil {
			r.Samples = append(r.Samples, one.samples)
		}
	}
	length := float64(end - begin)
	r.InFlight, r.Active = float64(all.busy)/length, float64(active)/length
	if c.schedule == nil {
		r.Between = time.Duration(max(0, active-all.occupied))
	}
	for _, class := range slices.Sorted(maps.Keys(failures)) {
		r.Failures = append(r.Failures, *failures[class])
	}
	r.Warm = WarmUpResult{Took: time.Duration(begin - c.began), Requests: all.warmedUp, Settled: c.settled}
	r.Warm.Enough, r.Warm.EnoughRequests, r.Warm.Known = enough(until(c.course, end))
	return r
}

func (t *tally) add(other *tally) {
	t.warmedUp += other.warmedUp
	t.recorded += other.recorded
	t.completed += other.completed
	t.straddling += other.straddling
	t.queued += other.queued
	t.straddled += other.straddled
	t.busy += other.busy
	t.occupied += other.occupied
	t.spun += other.spun
	t.finish = max(t.finish, other.finish)
}

// span returns how many nanoseconds of [begin, end] the client was at work.
func (c *client) span(begin, end int64) int64 {
	if c.quotaDone() {
		return c.finish - begin
	}
	return end - begin
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

func mergeFailures(into, from map[string]*Failure) {
	for class, f := range from {
		if merged := into[class]; merged != nil {
			merged.Count += f.Count
		} else {
			into[class] = f
		}
	}
}
