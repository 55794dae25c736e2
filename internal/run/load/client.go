package load

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// client holds the state and the records of one client's goroutine. The controller reads the
// first fields while the client runs, so padding keeps them on their own cache line.
type client struct {
	_    [64]byte
	done atomic.Int64 // calls ended that began before the window's end
	// Calls that count in the course, and their total service time in ns.
	counted, sum atomic.Int64
	idle         atomic.Bool // the client waits for its think time to pass: it has no call in flight
	_            [64]byte

	number   int // among the plan's clients
	caller   Caller
	checker  Checker      // nil if the caller is not a Checker
	answered StatusCaller // nil if the caller reports no status
	sized    SizedCaller  // nil if the caller reports no size
	bytes    BytesCaller  // nil if the caller does not know the bytes of its calls
	repeats  RepeatCaller // nil if the caller sends each call once
	thinker  Thinker      // nil if the caller has no think time, and in an open loop
	named    callsByName
	placed   callsByName // the calls by address
	traced   TraceCaller // nil if the caller has no traces
	streamer Streamer    // nil if the caller's calls are not streams
	waiter   Waiter      // nil if each call has a result
	window   *window
	quota    int64 // calls to record; 0: all calls of the window

	callTotals
	service, response, wait, late *latency.Recorder
	messages                      *latency.Recorder // message times of streams
	samples                       *latency.SampleLog
	course                        *latency.Course // nil: the courses of other clients are enough
	live                          *liveCounts     // nil: no figures are shown live
	intervals                     *intervalCounts // nil: no intervals are asked for
	responses                     *latency.Course // nil: the same as course, or nil with it

	near   int            // pauses that had begun when the last call ended
	slices []record.Slice // nil without slices, and before the first call in one

	isPast   atomic.Bool
	statuses []record.StatusCount // a list is faster than a map: there are few statuses, and one is most frequent
	answers  answerSizes
	traces   slowestTraces
	carried  record.CallBytes
	failures []record.ErrorCount
	classify func(error) record.ErrorCount
}

type callTotals struct {
	warmedUp              int64 // calls ended before the window
	recorded              int64 // calls that began in the window
	completed, straddling int64
	endedBetween          int64 // calls that ended in a pause of the window, or next to its slices
	queued                int64

	straddled int64 // total service time of straddling calls, ns
	backlog   int64 // total service time of calls that were due before an edge of the window and sent after it, ns
	thought   int64 // think time in ns, clipped to the window
	busy      int64 // ns in flight, clipped to the window
	occupied  int64 // busy plus the waits for permits of the in-flight limit
	failed    int64 // ns that the failed calls of the window took
	spun      int64 // ns spent busy-waiting for the window's arrivals
	resent    int64 // how often calls of the window were sent again
	finish    int64 // instant at which the last call of the window ended, or never
}

func (t callTotals) plus(other callTotals) callTotals {
	t.warmedUp += other.warmedUp
	t.recorded += other.recorded
	t.completed += other.completed
	t.endedBetween += other.endedBetween
	t.straddling += other.straddling
	t.queued += other.queued
	t.straddled += other.straddled
	t.backlog += other.backlog
	t.thought += other.thought
	t.busy += other.busy
	t.occupied += other.occupied
	t.failed += other.failed
	t.spun += other.spun
	t.resent += other.resent
	t.finish = max(t.finish, other.finish)
	return t
}

type call struct {
	intended int64
	freed    int64 // the client's previous call ended
	ready    int64 // the client was ready to send
	sent     int64 // the client had a permit of the in-flight limit
	ended    int64
	spun     int64 // ns spent busy-waiting for intended
}

// closedLoop sends each request after the answer to the previous one.
func (c *client) closedLoop(ctx context.Context) {
	for !c.finished() {
		now := clock.Now()
		b := c.window.bounds.Load()
		if b.isAfterSlices(now) {
			c.markWindowDone()
			return
		}
		if b.sendFrom(now) > now {
			if !c.waitForResume(ctx) {
				return
			}
			continue
		}
		ended := c.makeCall(ctx, call{intended: now, freed: now, ready: now})
		if ended >= c.window.bounds.Load().end {
			c.markWindowDone()
		}
		c.think(ctx)
	}
}

// waitForResume waits until calls may be sent again. It returns false if the window has ended, too: then
// no call is left to measure, and no load to keep up.
func (c *client) waitForResume(ctx context.Context) bool {
	b := c.window.bounds.Load()
	if paused := b.openPause(); paused != nil {
		select {
		case <-paused.resumed:
		case <-ctx.Done():
		}
		b = c.window.bounds.Load()
	}
	now := clock.Now()
	for until := b.sendFrom(now); until > now && now < b.end && !c.window.over.Load(); until = b.sendFrom(now) {
		time.Sleep(time.Duration(until - now))
		now = clock.Now()
	}
	if now < b.end {
		return true
	}
	c.markWindowDone()
	return false
}

// openLoop sends requests at the instants that the schedule gives to this client.
func (c *client) openLoop(ctx context.Context, s arrivals) {
	for freed := int64(pastInstant); !c.window.over.Load(); {
		intended, spun, ok := s.awaitNext(c.number, c.window)
		if !ok || c.window.bounds.Load().isAfterSlices(intended) {
			return
		}
		freed = c.makeCall(ctx, call{intended: intended, freed: freed, ready: clock.Now(), spun: spun})
	}
}

// makeCall makes and measures one call, counts it, and returns the instant at which it ended.
func (c *client) makeCall(ctx context.Context, course call) int64 {
	course.sent = course.ready
	if limit := c.window.limit; limit != nil {
		limit <- struct{}{}
		course.sent = clock.Now()
	}
	if c.live != nil {
		c.live.countBegin()
	}
	err := c.caller.Call(ctx)
	course.ended = clock.Now()
	if limit := c.window.limit; limit != nil {
		<-limit
	}
	if err != nil && c.waiter != nil && c.waiter.Unfinished(err) {
		c.thought += c.window.bounds.Load().timeInWindow(course.sent, course.ended)
		return course.ended
	}
	if err == nil && c.checker != nil {
		if wrong := c.checker.Check(); wrong != nil {
			err = fmt.Errorf("%w: %w", ErrWrongAnswer, wrong)
		}
	}
	if c.live != nil {
		c.live.countEnd(course.ended - course.intended)
		if err != nil {
			c.live.countFailure(c.classify(err))
		}
	}
	if c.intervals != nil {
		c.intervals.countEnd(course.ended-course.intended, err)
	}
	c.countCall(&course, err)
	return course.ended
}

// countCall counts the call: as warm-up, as measured, or not at all.
func (c *client) countCall(course *call, err error) {
	service := course.ended - course.sent
	b := c.window.bounds.Load()
	if course.intended >= b.end {
		return // this call only keeps up the load while measured calls are still in flight
	}
	intended := b.find(course.intended, c.near)
	last := b.find(max(course.sent, course.ended-1), intended.pauses) // the call's last instant
	c.near = last.pauses
	inCourse := !intended.paused
	if inCourse {
		c.done.Store(c.done.Load() + 1)
	}
	if b.slices > 0 { // a call that began in the run-in of a slice belongs to the time in which it ended
		inCourse = !last.paused
	}
	if inCourse {
		c.counted.Store(c.counted.Load() + 1)
		c.sum.Store(c.sum.Load() + service)
	}
	ended := b.find(course.ended, c.near)
	c.named.findCurrent(c.afterBegin(b, ended))
	c.placed.findCurrent(0)
	if c.course != nil && !last.paused {
		c.recordCourse(course, ended.running, err)
	}
	if course.intended < b.begin && course.ended <= b.begin {
		if b.slices > 0 && course.sent >= b.sliceFrom() {
			c.endedBetween++
		} else {
			c.warmedUp++
		}
		return
	}
	c.finish = course.ended
	sent := b.find(course.sent, intended.pauses)
	c.busy += b.between(sent, ended)
	c.occupied += b.between(b.find(course.ready, intended.pauses), ended)
	switch {
	case course.ended > b.end && b.slices == 0:
	case last.paused || course.ended > b.end:
		c.endedBetween++
	default:
		c.completed++
		c.named.countCompleted(err)
		c.placed.countCompleted(err)
		if b.slices > 0 {
			c.inSlice(b, last).Completed++
		}
	}
	if sent.edges != last.edges {
		c.straddling++
		c.straddled += service
	}
	if sent.edges != intended.edges {
		c.backlog += service
	}
	if course.intended >= b.begin && !intended.paused {
		if c.named.stages != nil { // the times belong to the stage in which the call was due
			c.named.findCurrent(c.afterBegin(b, intended))
		}
		c.recordTimes(course, b, intended, err)
	}
}

// afterBegin returns the time of a spot after the window's begin, if the load has stages.
func (c *client) afterBegin(b *windowBounds, s spot) int64 {
	if c.named.stages == nil {
		return 0
	}
	return s.running - b.runningClock(b.begin)
}

// recordCourse counts the call in the interval in which it ended, on a clock that stops in pauses.
func (c *client) recordCourse(course *call, ended int64, err error) {
	c.course.Record(ended, course.ended-course.sent)
	if c.responses != nil {
		c.responses.Record(ended, course.ended-course.intended)
	}
	if err != nil {
		c.course.RecordFailure(ended)
	}
}

// recordTimes stores the times of a call that began in the window.
func (c *client) recordTimes(course *call, b *windowBounds, intended spot, err error) {
	c.recorded++
	if b.slices > 0 {
		in := c.inSlice(b, intended)
		in.Requests++
		in.SumNS += course.ended - course.intended
		if err != nil {
			in.Failed++
		}
	}
	c.recordDetails(course, b.begin, err)
	c.service.Record(course.ended - course.sent)
	if c.response != nil {
		c.response.Record(course.ended - course.intended)
	}
	if c.wait != nil {
		c.wait.Record(course.sent - course.ready)
	}
	if c.late != nil {
		c.recordPacing(course)
	}
	if c.samples != nil {
		c.samples.Append(latency.Sample{
			Start:    intended.running - b.runningClock(b.begin),
			Wait:     course.sent - course.intended,
			Service:  course.ended - course.sent,
			Response: course.ended - course.intended,
			Failed:   err != nil,
		})
	}
	if err != nil {
		c.failed += course.ended - course.sent
		c.countFailure(err)
	}
}

// recordPacing separates the two delays of a request: the wait for the client's previous
// call, caused by the server, and the generator's own delay after that call.
func (c *client) recordPacing(course *call) {
	c.spun += course.spun
	c.late.Record(course.ready - max(course.intended, course.freed))
	if course.freed > course.intended {
		c.queued++
	}
}

// finished reports whether the client may stop. In a window bounded by time all
// clients go on sending, unrecorded, until the last measured call has ended, so
// that the slowest calls are measured under the same load as the others.
func (c *client) finished() bool {
	if c.quotaDone() {
		c.markWindowDone()
		return true
	}
	return c.window.over.Load()
}

func (c *client) quotaDone() bool { return c.quota > 0 && c.recorded >= c.quota }

func (c *client) markWindowDone() {
	if !c.isPast.Swap(true) {
		c.window.past.Add(1)
	}
}

// think waits for the think time that the caller asks for, or for the end of the window. Time
// spent on checking the answer, or sleeping too long, counts as the generator's time between calls.
func (c *client) think(ctx context.Context) {
	if c.thinker == nil || c.quotaDone() {
		return
	}
	length := c.thinker.Think()
	if length <= 0 {
		return
	}
	begin := clock.Now()
	c.idle.Store(true)
	timer := time.NewTimer(length)
	select {
	case <-timer.C:
	case <-c.window.ended:
	case <-ctx.Done():
	}
	timer.Stop()
	c.idle.Store(false)
	c.thought += c.window.bounds.Load().timeInWindow(begin, min(clock.Now(), begin+int64(length)))
}
