package load

import (
	"context"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
)

// notice is the time from the announcement of the window to its begin, so that every
// client knows of it in time.
const notice = 2 * time.Millisecond

// reportEvery is the time between two progress reports.
const reportEvery = 250 * time.Millisecond

// Run executes the plan. If ctx ends first, it returns only ctx's error: half a
// window is not a measurement.
func Run(ctx context.Context, p Plan) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	c, err := newController(p)
	if err != nil {
		return nil, err
	}
	defer c.release()

	at, err := c.awaitBegin(ctx)
	if err != nil {
		c.closeSamples()
		return nil, err
	}
	calls, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	c.start(calls, at)
	err = c.control(ctx, cancel)
	c.window.stop()
	if err != nil {
		cancel()
	}
	c.endPause()
	c.running.Wait()
	c.intervals.cut(clock.Now()) // with the calls that ended last
	if err != nil {
		c.closeSamples()
		return nil, err
	}
	return c.result(), nil
}

// controller takes the clients through warm-up, window and drain.
type controller struct {
	plan     Plan
	window   *window
	schedule *schedule // nil in a closed loop
	clients  []*client
	running  sync.WaitGroup

	began   int64             // the first request
	course  []record.Interval // on the clock of package clock
	settled bool
	mayOpen int64 // when the warm-up could have ended, if it waits for a cue; 0: not yet
	closed  bool  // the window's end was seen
	unsent  int64

	endedEarly bool
	live       liveFigures
	intervals  *intervalReader // nil: no intervals are asked for

	lastTick, lastDone, lastSum int64
	lastEnded                   int64 // the last tick at which calls had ended, or clients thought
	lastReport                  int64
	doneBefore                  int64 // calls ended when the window opened
}

func newController(p Plan) (*controller, error) {
	c := &controller{plan: p, window: &window{ended: make(chan struct{})}}
	c.publish(bounds{begin: notYet, end: notYet})
	if p.InFlight > 0 {
		c.window.limit = make(chan struct{}, p.InFlight)
	}
	if p.Open != nil {
		length := p.Duration
		if p.Open.RampTo == 0 { // arrivals after the window keep up the load
			length += p.WarmUp.AtMost + p.Drain + 2*notice
		}
		if p.Opens == OnOpen {
			length += openPatience + lead
		}
		s, err := newSchedule(*p.Open, length, p.share())
		if err != nil {
			return nil, err
		}
		c.schedule = s
	}
	for i, caller := range p.Callers {
		one := c.newClient(caller)
		if i < p.extra() {
			one.quota++
		}
		c.clients = append(c.clients, one)
	}
	return c, nil
}

func (c *controller) newClient(caller Caller) *client {
	one := &client{caller: caller, window: c.window, quota: int64(c.plan.Requests), classify: c.plan.Classify}
	one.finish = never
	one.checker, _ = caller.(Checker)
	one.answered, _ = caller.(Answered)
	one.named.caller, _ = caller.(Named)
	one.named.open = c.plan.Open != nil || c.plan.InFlight > 0
	if c.plan.Open == nil {
		one.thinker, _ = caller.(Thinker)
	}
	one.traced, _ = caller.(Traced)
	one.streamer = streamerOf(caller)
	if one.classify == nil {
		one.classify = func(error) record.ErrorCount { return record.ErrorCount{Class: "error"} }
	}
	for _, r := range []struct {
		recorder **latency.Recorder
		wanted   bool
	}{
		{&one.service, true},
		{&one.response, c.plan.Open != nil || c.plan.InFlight > 0},
		{&one.wait, c.plan.InFlight > 0},
		{&one.late, c.plan.Open != nil},
		{&one.messages, one.streamer != nil},
	} {
		if r.wanted {
			*r.recorder = latency.NewRecorder()
		}
	}
	if every := 1 + len(c.plan.Callers)/mostCourses; len(c.clients)%every == 0 {
		one.course = latency.NewCourse()
		if one.response != nil {
			one.responses = latency.NewCourse()
		}
	}
	if c.plan.Live {
		one.live = &liveCounts{}
	}
	if c.plan.Intervals != nil {
		one.intervals = &intervalCounts{responses: latency.NewCoarseRecorder()}
	}
	if c.plan.KeepSamples {
		one.samples = latency.NewSampleLog(int32(len(c.clients)), c.plan.expectedSamples())
	}
	return one
}

// mostCourses bounds the memory of courses to 48 MiB, or twice as much where response times have
// their own. With more clients, only each second, third, … keeps one.
const mostCourses = 1000

// usualWarmUp is the longest that most warm-ups take.
const usualWarmUp = time.Second

// courses returns the courses that the client keeps.
func (c *client) courses() []*latency.Course {
	return slices.DeleteFunc([]*latency.Course{c.course, c.responses}, func(one *latency.Course) bool { return one == nil })
}

// start starts the clients. They end when the window is over, or when ctx, the context of their
// calls, is cancelled. With a cue their first calls go out at the instant, otherwise at once.
func (c *controller) start(ctx context.Context, at int64) {
	c.began = at
	if c.plan.WarmUp.AtMost <= 0 {
		c.readyToOpen()
		if c.plan.Begins == AtOnce {
			c.began = clock.Now()
		}
		c.announce(c.began)
	}
	c.lastTick, c.lastReport, c.lastEnded = c.began, c.began, c.began
	if c.schedule != nil {
		c.schedule.zero = c.began
	} else {
		clock.Until(c.began)
	}
	c.intervals = newIntervalReader(c.plan.Intervals, lists.Map(c.clients, func(one *client) *intervalCounts { return one.intervals }), c.began)
	for _, one := range c.clients {
		for _, course := range one.courses() {
			course.Begin(c.began, min(c.plan.WarmUp.AtMost, usualWarmUp)+c.plan.Duration)
		}
		c.running.Go(func() {
			// Each client has its own context: with a shared one, every call
			// would contend for its lock.
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			if c.schedule != nil {
				one.openLoop(own, c.schedule)
			} else {
				one.closedLoop(own)
			}
		})
	}
	clock.Until(c.began) // nothing happens before
}

// readyToOpen is called just before the window is announced.
func (c *controller) readyToOpen() {
	if c.plan.OnOpen != nil {
		c.plan.OnOpen()
	}
	c.doneBefore = c.lastDone
}

// announce announces the window. Nothing may be done between reading the clock and announcing: a
// client that learns of the window too late counts its first calls as warm-up.
func (c *controller) announce(begin int64) {
	b := *c.bounds()
	b.begin = begin
	if c.plan.Duration > 0 {
		b.end = c.windowEnd(&b)
	}
	c.publish(b)
}

func (c *controller) observe() (now int64) {
	now = clock.Now()
	c.observeAt(now)
	return now
}

func (c *controller) observeAt(now int64) {
	var done, sum int64
	thinking := false
	for _, one := range c.clients {
		done += one.done.Load()
		sum += one.sum.Load()
		thinking = thinking || one.idle.Load()
	}
	if now == c.lastTick {
		return
	}
	if done != c.lastDone || thinking { // a thinking client has no call that could hang
		c.lastEnded = max(c.lastEnded, now)
	}
	b := c.bounds()
	start, end := b.running(c.lastTick), b.running(now)
	if end > start { // otherwise the load is paused, and these calls belong to no interval
		c.course = append(c.course, record.Interval{
			StartNS: start, TookNS: end - start, Requests: done - c.lastDone, SumNS: sum - c.lastSum,
		})
	}
	c.lastTick, c.lastDone, c.lastSum = now, done, sum
}

func (c *controller) report(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportEvery) {
		return
	}
	c.lastReport = now
	b := c.bounds()
	progress := live.Progress{Warming: b.begin == notYet, Paused: b.pausedAt(now), Done: c.lastDone, Settled: b.begin == notYet && c.mayOpen != 0}
	switch {
	case progress.Warming:
	case c.plan.Duration > 0:
		progress.Fraction = float64(b.running(now)-b.running(b.begin)) / float64(c.plan.Duration)
	default:
		progress.Fraction = float64(c.lastDone-c.doneBefore) / float64(c.plan.Requests*len(c.clients)+c.plan.extra())
	}
	progress.Fraction = min(1, max(0, progress.Fraction))
	if c.plan.Live {
		progress.Live = c.live.look(now, lists.Map(c.clients, func(one *client) *liveCounts { return one.live }))
	}
	c.plan.Report(progress)
}

// release frees the recorders' memory. The samples stay with the result.
func (c *controller) release() {
	for _, one := range c.clients {
		for _, r := range []*latency.Recorder{one.service, one.response, one.wait, one.late, one.messages} {
			if r != nil {
				r.Close()
			}
		}
		for _, course := range one.courses() {
			course.Close()
		}
		if one.intervals != nil {
			one.intervals.responses.Close()
		}
		one.named.release()
	}
}

func (c *controller) closeSamples() {
	for _, one := range c.clients {
		if one.samples != nil {
			one.samples.Close()
		}
	}
}

// allPastOrIdle reports, after the window's end, whether no client has a call of the window in
// flight. The next call of an idle client is not of the window: the client reads the clock after
// it stops being idle.
func (c *controller) allPastOrIdle() bool {
	for _, one := range c.clients {
		if !one.idle.Load() && !one.isPast.Load() {
			return false
		}
	}
	return true
}
