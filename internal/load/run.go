package load

import (
	"context"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/latency"
)

// notice is how far ahead of its instant an edge of the window is announced, so
// that every client knows of it before it comes.
const notice = 2 * time.Millisecond

// reportEvery is the time between two progress reports.
const reportEvery = 250 * time.Millisecond

// maxIntervals bounds the course that a result keeps.
const maxIntervals = 240

// Run drives the plan to its end. When ctx ends first it returns ctx's error
// and nothing else: half a window is not a measurement.
func Run(ctx context.Context, p Plan) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	c, err := newConductor(p)
	if err != nil {
		return nil, err
	}
	defer c.release()

	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.start(calls)
	err = c.conduct(ctx, cancel)
	c.window.over.Store(true)
	if err != nil {
		cancel()
	}
	c.running.Wait()
	if err != nil {
		c.closeSamples()
		return nil, err
	}
	return c.result()
}

// conductor leads the clients through warm-up, window and drain.
type conductor struct {
	plan     Plan
	window   *window
	schedule *schedule // nil in a closed loop
	clients  []*client
	running  sync.WaitGroup

	began  int64 // the first request
	course []Interval
	warm   WarmUpResult
	unsent int64

	lastTick, lastDone, lastSum, lastReport int64
}

func newConductor(p Plan) (*conductor, error) {
	c := &conductor{plan: p, window: &window{}}
	c.window.begin.Store(notYet)
	c.window.end.Store(notYet)
	if p.InFlight > 0 {
		c.window.limit = make(chan struct{}, p.InFlight)
	}
	if p.Open != nil {
		s, err := newSchedule(*p.Open, p.WarmUp.AtMost+p.Duration+p.Drain+2*notice)
		if err != nil {
			return nil, err
		}
		c.schedule = s
	}
	for _, caller := range p.Callers {
		c.clients = append(c.clients, c.newClient(caller))
	}
	return c, nil
}

func (c *conductor) newClient(caller Caller) *client {
	one := &client{caller: caller, window: c.window, quota: int64(c.plan.Requests), classify: c.plan.Classify}
	one.checker, _ = caller.(Checker)
	if one.classify == nil {
		one.classify = func(error) string { return "error" }
	}
	for _, r := range []struct {
		recorder **latency.Recorder
		wanted   bool
	}{
		{&one.service, true},
		{&one.response, c.plan.Open != nil || c.plan.InFlight > 0},
		{&one.wait, c.plan.InFlight > 0},
		{&one.late, c.plan.Open != nil},
	} {
		if r.wanted {
			*r.recorder = latency.NewRecorder()
		}
	}
	if c.plan.KeepSamples {
		one.samples = latency.NewSampleLog(int32(len(c.clients)), c.plan.Requests)
	}
	return one
}

// start sets the clients going. They end when the window is over, and at the
// latest when ctx, which their calls run under, is cancelled.
func (c *conductor) start(ctx context.Context) {
	c.began = clock.Now()
	c.lastTick, c.lastReport = c.began, c.began
	if c.schedule != nil {
		c.schedule.zero = c.began
	}
	if c.plan.WarmUp.AtMost <= 0 {
		c.open(c.began)
	}
	for _, one := range c.clients {
		c.running.Go(func() {
			// A context of its own for each client: a shared one would have
			// all of them meet at its lock in every call.
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			if c.schedule != nil {
				one.openLoop(own, c.schedule)
			} else {
				one.closedLoop(own)
			}
		})
	}
}

// open sets the window's bounds.
func (c *conductor) open(begin int64) {
	if c.plan.OnOpen != nil {
		c.plan.OnOpen()
	}
	if c.plan.Duration > 0 {
		c.window.end.Store(begin + int64(c.plan.Duration))
	}
	c.window.begin.Store(begin)
	c.warm.Took = time.Duration(begin - c.began)
}

// conduct waits through the trial, tick by tick.
func (c *conductor) conduct(ctx context.Context, cancelCalls func()) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	cancelled := false
	for c.window.past.Load() < int64(len(c.clients)) {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		now := c.observe()
		if c.window.begin.Load() == notYet {
			c.considerOpening(now)
		}
		if end := c.window.end.Load(); !cancelled && end != notYet && now > end+int64(c.plan.Drain) {
			cancelled = true
			c.abandon(cancelCalls)
		}
		c.report(now)
	}
	c.observe()
	return nil
}

// considerOpening opens the window when the warm-up has done its work, or has
// lasted as long as it may.
func (c *conductor) considerOpening(now int64) {
	took := time.Duration(now - c.began)
	if took < c.plan.WarmUp.AtLeast {
		return
	}
	c.warm.Settled = steady(c.course, len(c.clients))
	if c.warm.Settled || took >= c.plan.WarmUp.AtMost {
		c.open(now + int64(notice))
	}
}

// abandon ends a drain that has lasted too long: what is in flight is
// cancelled, and what was not sent stays unsent.
func (c *conductor) abandon(cancelCalls func()) {
	if c.schedule != nil {
		taken := min(c.schedule.next.Swap(math.MaxInt64/2), c.schedule.count)
		if end := c.window.end.Load(); taken < c.schedule.count {
			c.unsent = c.schedule.between(c.schedule.at(taken), end)
		}
	}
	c.window.over.Store(true)
	cancelCalls()
}

// observe adds an interval to the course.
func (c *conductor) observe() (now int64) {
	var done, sum int64
	for _, one := range c.clients {
		done += one.done.Load()
		sum += one.sum.Load()
	}
	now = clock.Now()
	if now == c.lastTick {
		return now
	}
	c.course = append(c.course, Interval{
		Start:    c.lastTick,
		Took:     time.Duration(now - c.lastTick),
		Requests: done - c.lastDone,
		Sum:      time.Duration(sum - c.lastSum),
	})
	if c.window.begin.Load() >= now {
		c.warm.Requests = done
	}
	c.lastTick, c.lastDone, c.lastSum = now, done, sum
	return now
}

func (c *conductor) report(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportEvery) {
		return
	}
	c.lastReport = now
	begin := c.window.begin.Load()
	progress := Progress{Warming: begin == notYet, Done: c.lastDone}
	switch {
	case progress.Warming:
	case c.plan.Duration > 0:
		progress.Fraction = float64(now-begin) / float64(c.plan.Duration)
	default:
		var counted int64
		for _, one := range c.clients {
			counted += one.counted.Load()
		}
		progress.Fraction = float64(counted) / float64(c.plan.Requests*len(c.clients))
	}
	progress.Fraction = min(1, max(0, progress.Fraction))
	c.plan.Report(progress)
}

// result merges what the clients kept. They have all ended.
func (c *conductor) result() (*Result, error) {
	r := &Result{Begin: c.window.begin.Load(), End: c.window.end.Load(), Warm: c.warm, Unsent: c.unsent}
	if r.End == notYet {
		r.End = r.Begin + 1
		for _, one := range c.clients {
			r.End = max(r.End, one.finish)
		}
	}
	var busy, active, occupied int64
	failures := map[string]*Failure{}
	for _, one := range c.clients {
		r.Requests += one.counted.Load()
		r.Completed += one.completed
		r.Straddling += one.straddling
		r.Queued += one.queued
		r.Spun += time.Duration(one.spun)
		busy += one.busy
		occupied += one.occupied
		active += int64(one.span(r.Begin, r.End))
		mergeFailures(failures, one.failures)
		if one.samples != nil {
			r.Samples = append(r.Samples, one.samples)
		}
	}
	length := float64(r.End - r.Begin)
	r.InFlight, r.Active = float64(busy)/length, float64(active)/length
	if c.schedule == nil {
		r.Between = time.Duration(max(0, active-occupied))
	}
	for _, class := range slices.Sorted(maps.Keys(failures)) {
		r.Failures = append(r.Failures, *failures[class])
	}
	r.Warm.Enough, r.Warm.EnoughRequests, r.Warm.Known = enough(c.course)
	r.Intervals = condense(c.course, maxIntervals)
	r.Service = c.merged(func(one *client) *latency.Recorder { return one.service })
	r.Response = c.merged(func(one *client) *latency.Recorder { return one.response })
	r.Wait = c.merged(func(one *client) *latency.Recorder { return one.wait })
	r.Late = c.merged(func(one *client) *latency.Recorder { return one.late })
	return r, nil
}

func (c *conductor) merged(of func(*client) *latency.Recorder) *latency.Histogram {
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
		if known := into[class]; known != nil {
			known.Count += f.Count
		} else {
			into[class] = f
		}
	}
}

// release gives back the recorders' memory; samples outlive it in the result.
func (c *conductor) release() {
	for _, one := range c.clients {
		for _, r := range []*latency.Recorder{one.service, one.response, one.wait, one.late} {
			if r != nil {
				r.Close()
			}
		}
	}
}

func (c *conductor) closeSamples() {
	for _, one := range c.clients {
		if one.samples != nil {
			one.samples.Close()
		}
	}
}
