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

// windowLead is the time from the announcement of the window to its begin. In this time, every
// client reads the announcement.
const windowLead = 2 * time.Millisecond

// reportPeriod is the time between two progress reports.
const reportPeriod = 250 * time.Millisecond

// Run executes the plan. If ctx ends first, it returns only ctx's error, because half a
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

	at, err := c.awaitFirstCall(ctx)
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
	c.awaitOthers(ctx)
	c.intervals.reportInterval(clock.Now()) // the last interval
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
	arrivals arrivals  // gives the schedule's arrivals to clients
	clients  []*client
	running  sync.WaitGroup

	began   int64             // instant of the first request
	course  []record.Interval // instants are on the clock of package clock
	settled bool
	mayOpen int64 // instant from which the window only waits for its cue; 0: still warming up, or no cue is used
	rests   bool  // the load sends nothing until it gets its slices
	closed  bool  // OnClose was called
	unsent  int64

	endedEarly bool
	live       liveFigures
	intervals  *intervalReader // nil: no intervals are asked for

	lastTick, lastDone, lastCounted, lastSum int64
	lastEnded                                int64 // the last tick at which calls had ended, or clients were idle
	lastReport                               int64
	doneBefore                               int64 // calls ended when the window opened
}

func newController(p Plan) (*controller, error) {
	c := &controller{plan: p, window: &window{ended: make(chan struct{})}}
	c.publish(windowBounds{begin: futureInstant, end: futureInstant})
	if p.InFlight > 0 {
		c.window.limit = make(chan struct{}, p.InFlight)
	}
	if p.Open != nil {
		length := p.Duration
		if !p.Open.endsItself() { // arrivals after the window keep up the load
			length += p.WarmUp.AtMost + p.Drain + 2*windowLead
		}
		switch {
		case p.Opens == OnOpenControl, p.Opens == OnSlices && p.Begins == OnGoControl:
			length += cueTimeout + cueLead
		case p.Opens == OnSlices: // nothing arrives while it rests
			length += openLoopPauseLead + cueLead
		}
		s, err := newSchedule(*p.Open, length, p.share())
		if err != nil {
			return nil, err
		}
		c.schedule, c.arrivals = s, s
		if p.Open.Own {
			c.arrivals = newLanes(s, &p)
		}
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
	one := &client{number: len(c.clients), caller: caller, window: c.window, quota: int64(c.plan.Requests), classify: c.plan.Classify}
	one.finish = pastInstant
	one.checker, _ = caller.(Checker)
	one.answered, _ = caller.(StatusCaller)
	one.sized, _ = caller.(SizedCaller)
	one.bytes, _ = caller.(BytesCaller)
	one.repeats, _ = caller.(RepeatCaller)
	if named, is := caller.(NamedCaller); is {
		one.named.name = named.Name
	}
	one.named.most, one.placed.most = maxCallNames, maxAddresses
	if placed, is := caller.(AddressCaller); is {
		one.placed.name = placed.Address
	}
	one.named.open = c.plan.Open != nil || c.plan.InFlight > 0
	one.placed.open = one.named.open
	if c.plan.Open == nil {
		one.thinker, _ = caller.(Thinker)
	} else {
		one.named.stages = c.plan.Open.stageEnds()
	}
	one.traced, _ = caller.(TraceCaller)
	one.streamer = streamerOf(caller)
	one.waiter, _ = caller.(Waiter)
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
	if every := 1 + len(c.plan.Callers)/maxCourses; len(c.clients)%every == 0 {
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

// maxCourses bounds the memory of courses to 48 MiB, or 96 MiB if response times have courses of
// their own. With more clients, only every second, third, … client keeps a course.
const maxCourses = 1000

// typicalWarmUp is longer than most warm-ups take.
const typicalWarmUp = time.Second

// courses returns the courses that the client keeps.
func (c *client) courses() []*latency.Course {
	return slices.DeleteFunc([]*latency.Course{c.course, c.responses}, func(one *latency.Course) bool { return one == nil })
}

// start starts the clients. They end when the window is over, or when ctx, the context of their
// calls, is cancelled. With a cue they send their first calls at the instant at, otherwise at once.
func (c *controller) start(ctx context.Context, at int64) {
	c.began = at
	if c.plan.WarmUp.AtMost <= 0 {
		c.prepareWindow()
		if c.plan.Begins == WithoutCue {
			c.began = clock.Now()
		}
		c.announceWindow(c.began)
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
			course.Begin(c.began, min(c.plan.WarmUp.AtMost, typicalWarmUp)+c.plan.Duration)
		}
		c.running.Go(func() {
			// Each client has its own context: the calls would contend for the
			// lock of a shared context.
			own, cancel := context.WithCancel(ctx)
			defer cancel()
			if c.schedule != nil {
				one.openLoop(own, c.arrivals)
			} else {
				one.closedLoop(own)
			}
		})
	}
	clock.Until(c.began)
}

// prepareWindow is called just before the window is announced.
func (c *controller) prepareWindow() {
	if c.plan.OnOpen != nil {
		c.plan.OnOpen()
	}
	c.doneBefore = c.lastDone
}

// announceWindow announces the window. The caller must read the clock just before: a client that
// learns of the window too late counts its first calls as warm-up.
func (c *controller) announceWindow(begin int64) {
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
	var done, counted, sum int64
	thinking := false
	for _, one := range c.clients {
		done += one.done.Load()
		counted += one.counted.Load()
		sum += one.sum.Load()
		thinking = thinking || one.idle.Load()
	}
	if now == c.lastTick {
		return
	}
	if done != c.lastDone || thinking { // a client in its think time has no call that could hang
		c.lastEnded = max(c.lastEnded, now)
	}
	b := c.bounds()
	start, end := b.runningClock(c.lastTick), b.runningClock(now)
	if end > start { // otherwise the load is paused, and the calls belong to no interval
		c.course = append(c.course, record.Interval{
			StartNS: start, TookNS: end - start, Requests: counted - c.lastCounted, SumNS: sum - c.lastSum,
		})
	}
	c.lastTick, c.lastDone, c.lastCounted, c.lastSum = now, done, counted, sum
}

func (c *controller) report(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportPeriod) {
		return
	}
	c.lastReport = now
	b := c.bounds()
	progress := live.Progress{Warming: b.begin == futureInstant, Paused: b.sendFrom(now) > now, Done: c.lastDone, Settled: b.begin == futureInstant && c.mayOpen != 0}
	switch {
	case progress.Warming:
	case c.plan.Duration > 0:
		progress.Fraction = float64(b.runningClock(now)-b.runningClock(b.begin)) / float64(c.plan.Duration)
	default:
		progress.Fraction = float64(c.lastDone-c.doneBefore) / float64(c.plan.Requests*len(c.clients)+c.plan.extra())
	}
	progress.Fraction = min(1, max(0, progress.Fraction))
	if c.plan.Live {
		progress.Live = c.live.update(now, lists.Map(c.clients, func(one *client) *liveCounts { return one.live }))
	}
	if progress.Settled {
		progress.MeanNS = c.recentMeanNS()
	}
	c.plan.Report(progress)
}

// recentMeanNS returns the mean time of the calls in the second half of the course so far.
func (c *controller) recentMeanNS() int64 {
	var calls, sum int64
	for _, i := range c.course[len(c.course)/2:] {
		calls, sum = calls+i.Requests, sum+i.SumNS
	}
	return sum / max(1, calls)
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
		one.placed.release()
	}
}

func (c *controller) closeSamples() {
	for _, one := range c.clients {
		if one.samples != nil {
			one.samples.Close()
		}
	}
}

// noMeasuredCallInFlight reports, after the window's end, whether no client has a call of the
// window in flight. An idle client's next call begins after the window.
func (c *controller) noMeasuredCallInFlight() bool {
	for _, one := range c.clients {
		if !one.idle.Load() && !one.isPast.Load() {
			return false
		}
	}
	return true
}
