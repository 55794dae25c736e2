package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// Controls steers a running load: it ends the load early, pauses it, or gives it its cues. All
// methods may be called at any time, from any goroutine. They take effect some milliseconds later.
type Controls struct {
	end, paused  atomic.Bool
	goAt, openAt atomic.Pointer[int64]
	step         atomic.Pointer[givenStep]
	turns        atomic.Pointer[turns]
	turnsGiven   chan struct{} // see awaitTurns
	making       sync.Once     // makes turnsGiven
}

// Go lets the load send its first call at an instant, or at once if the instant is over. Later
// calls of Go have no effect.
func (c *Controls) Go(at int64) { c.goAt.CompareAndSwap(nil, &at) }

// Open opens the window at an instant after the warm-up, or as soon as possible if the instant is
// over. Later calls of Open have no effect.
func (c *Controls) Open(at int64) { c.openAt.CompareAndSwap(nil, &at) }

// End closes the window at once. The load still waits for calls that began in the window, at most
// for the drain time.
func (c *Controls) End() { c.end.Store(true) }

// Pause keeps callers from sending. Calls in flight end as usual. The time until Resume
// counts neither for the window nor for any latency.
func (c *Controls) Pause() { c.paused.Store(true) }

// Resume lets callers send again, all at once, as at the beginning of a load.
func (c *Controls) Resume() { c.paused.Store(false) }

// ErrNothingMeasured is wrapped by the error of a load that was ended before its window opened.
var ErrNothingMeasured = errors.New("the load was ended before its window opened, so nothing was measured")

const (
	// cueTimeout is the longest wait of a warmed-up load for the cue to open its window.
	cueTimeout = time.Minute
	// cueLead is the time before the instant of a cue at which its preparation begins.
	cueLead = 2 * windowLead
	// maxCueAge is the greatest age of a cue's instant. An older instant counts as now: a window
	// that began at that instant could be over already.
	maxCueAge = 10 * time.Second
)

// awaitFirstCall waits for the cue for the plan's first call, and returns its instant shortly
// before it. A schedule begins at this instant even if it is over: arrivals since then are late.
func (c *controller) awaitFirstCall(ctx context.Context) (int64, error) {
	since := clock.Now()
	c.lastReport = since - int64(reportPeriod)
	for {
		now := clock.Now()
		at, told := c.cueInstant(c.plan.Begins, now)
		switch {
		case c.plan.Begins == WithoutCue:
			return now, nil
		case c.plan.Controls.end.Load():
			return 0, ErrNothingMeasured
		case told && at-now <= int64(cueLead):
			return at, nil
		case c.plan.Begins == OnOpenControl && now-since > int64(cueTimeout):
			return 0, errNotOpened
		}
		wait := courseInterval
		if told {
			wait = min(wait, time.Duration(at-now)-cueLead)
		}
		c.reportWaiting(now)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

var errNotOpened = fmt.Errorf("load: the window was not opened: no control \"open\" came within %v after the warm-up", cueTimeout)

// cueInstant returns the instant of a cue, if it was given.
func (c *controller) cueInstant(of Cue, now int64) (at int64, told bool) {
	var given *int64
	switch of {
	case OnGoControl:
		given = c.plan.Controls.goAt.Load()
	case OnOpenControl:
		given = c.plan.Controls.openAt.Load()
	}
	if given == nil {
		return 0, false
	}
	if *given < now-int64(maxCueAge) {
		return now, true
	}
	return *given, true
}

func (c *controller) reportWaiting(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportPeriod) {
		return
	}
	c.lastReport = now
	c.plan.Report(live.Progress{Warming: true, Settled: c.plan.Begins == OnOpenControl})
}

// openOnCue opens the window of a warmed-up load once its cue is given. It announces the window
// as late as possible, because OnOpen, which reads counters, runs just before.
func (c *controller) openOnCue(now int64) error {
	if c.mayOpen == 0 {
		c.mayOpen = now
		c.lastReport = now - int64(reportPeriod) // whoever gives the cue waits for this report
	}
	at, told := c.cueInstant(OnOpenControl, now)
	ahead := time.Duration(at - now)
	switch {
	case told && ahead <= courseInterval+cueLead+courseInterval/2: // the next tick may be too late
		time.Sleep(ahead - cueLead)
		c.prepareWindow()
		c.announceWindow(max(at, clock.Now()+int64(windowLead)))
	case now-c.mayOpen > int64(cueTimeout):
		return errNotOpened
	}
	return nil
}

// openLoopPauseLead is the time from the announcement of an open loop's pause to its begin: a
// client whose next arrival is nearer no longer checks for pauses. The same lead applies to the
// end of a pause.
const openLoopPauseLead = windowLead + maxUncheckedWait

// maxPauses bounds the pauses of a load without slices.
const maxPauses = 100

func (c *controller) pauseLead() int64 {
	if c.schedule != nil {
		return int64(openLoopPauseLead)
	}
	return int64(windowLead)
}

// applyControls carries out the controls.
func (c *controller) applyControls(now int64) error {
	controls := c.plan.Controls
	if controls == nil {
		return nil
	}
	if c.isResting() {
		return c.takeTurns(now)
	}
	b := c.bounds()
	switch paused := b.openPause(); {
	case controls.end.Load():
		return c.endEarly(now)
	case b.slices > 0: // its pauses are planned
	case controls.paused.Load() && paused == nil:
		c.pause(now + c.pauseLead())
	case !controls.paused.Load() && paused != nil:
		c.resume(max(now+c.pauseLead(), paused.from))
	}
	return nil
}

// endEarly closes the window, unless the window is about to close anyway. A pause is not part of
// the window, so a paused window ends where the pause began.
func (c *controller) endEarly(now int64) error {
	b := *c.bounds()
	end := now + int64(windowLead)
	switch {
	case now < b.begin: // or the window has no begin yet
		return ErrNothingMeasured
	case b.end <= end:
		return nil
	}
	if at := b.find(end, len(b.pauses)); at.paused {
		end = b.pauses[at.pauses-1].from
	}
	b.end = end
	c.endedEarly = true
	c.publish(b)
	c.endPause()
	return nil
}

// pause keeps clients from sending from the instant on. After the window it does nothing.
func (c *controller) pause(from int64) {
	b := *c.bounds()
	if b.end <= from || len(b.pauses) == maxPauses {
		return
	}
	b.pauses = b.pauseAt(from)
	if b.begin != futureInstant {
		b.end = futureInstant
	}
	c.publish(b)
}

// resume lets clients send from the instant on, and postpones the window's end.
func (c *controller) resume(to int64) {
	b := *c.bounds()
	b.pauses = slices.Clone(b.pauses)
	paused := b.openPause()
	paused.send, paused.to = to, to
	if b.begin != futureInstant && c.plan.Duration > 0 {
		b.end = c.windowEnd(&b)
	}
	c.lastEnded = max(c.lastEnded, to)
	c.publish(b)
	close(paused.resumed)
}

// windowEnd returns the end of a window that is bounded by time.
func (c *controller) windowEnd(b *windowBounds) int64 {
	paused := b.pausedBefore(futureInstant) - b.pausedBefore(b.begin)
	return b.begin + int64(c.plan.Duration) + paused
}

func (c *controller) bounds() *windowBounds { return c.window.bounds.Load() }

func (c *controller) publish(b windowBounds) { c.window.bounds.Store(&b) }

// endPause wakes the clients that wait for the end of a pause, because the load ends.
func (c *controller) endPause() {
	paused := c.bounds().openPause()
	if paused == nil {
		return
	}
	select {
	case <-paused.resumed: // the clients are awake already
	default:
		close(paused.resumed)
	}
}

// control observes the trial every tick, opens the window and closes it.
func (c *controller) control(ctx context.Context, cancelCalls func()) error {
	ticker := time.NewTicker(courseInterval)
	defer ticker.Stop()
	var given chan struct{}
	if c.plan.Opens == OnSlices {
		given = c.plan.Controls.awaitTurns()
	}
	for !c.allMeasuredCallsEnded() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-given: // the first slice may begin before the next tick
			given = nil
		case <-ticker.C:
		}
		now := c.observe()
		if err := c.applyControls(now); err != nil {
			return err
		}
		if b := c.bounds(); b.begin == futureInstant && b.openPause() == nil {
			if err := c.openIfWarm(now); err != nil {
				return err
			}
		}
		if now >= c.bounds().end {
			c.close()
		}
		if c.drainExpired(now) {
			c.cancelDrain(cancelCalls)
			break
		}
		c.intervals.cutIfOver(now)
		c.report(now)
		ticker.Reset(c.untilNextTick(now))
	}
	c.observe()
	c.close()
	return nil
}

const (
	// waitingTick is the time between two ticks of a load that waits for a control.
	waitingTick = 20 * time.Millisecond
	// restingTick is the longest time between two ticks of a load that rests between its slices. It must
	// leave the machine to the others meanwhile.
	restingTick = 100 * time.Millisecond
)

// untilNextTick returns the time until the load is observed again.
func (c *controller) untilNextTick(now int64) time.Duration {
	b := c.bounds()
	if b.openPause() != nil {
		return waitingTick
	}
	return max(courseInterval, min(restingTick, time.Duration(b.sendFrom(now)-now)))
}

// allMeasuredCallsEnded reports whether all calls that began in the window have ended.
func (c *controller) allMeasuredCallsEnded() bool {
	b := c.bounds()
	if c.schedule == nil {
		past := c.window.past.Load() == int64(len(c.clients))
		return past || b.end != futureInstant && c.lastTick >= b.end && c.noMeasuredCallInFlight()
	}
	isOver := c.plan.Open.Burst > 0 || c.lastTick >= b.end // the window of a burst ends with its last call
	return b.end != futureInstant && isOver && c.lastDone >= c.schedule.countDueBefore(b.end, b)
}

// openIfWarm opens the window when the load is steady or the warm-up has taken its maximum
// time. A plan with a cue then waits for the cue.
func (c *controller) openIfWarm(now int64) error {
	took := time.Duration(c.bounds().runningClock(now) - c.began)
	if took < c.plan.WarmUp.AtLeast {
		return nil
	}
	if c.mayOpen == 0 {
		c.settled = isSteady(c.course, len(c.clients), steadinessSeries(&c.plan))
	}
	switch {
	case c.mayOpen == 0 && !c.settled && took < c.plan.WarmUp.AtMost:
	case c.plan.Opens == OnOpenControl:
		return c.openOnCue(now)
	case c.plan.Opens == OnSlices && c.plan.Begins == OnGoControl:
		return c.restOnCue(now)
	case c.plan.Opens == OnSlices:
		c.rest(now, now+c.pauseLead())
	default:
		c.prepareWindow()
		c.announceWindow(clock.Now() + int64(windowLead))
	}
	return nil
}

// close calls OnClose once. The clients see the window's end themselves.
func (c *controller) close() {
	if !c.closed && c.plan.OnClose != nil {
		c.plan.OnClose()
	}
	c.closed = true
}

// drainExpired reports whether the drain time of the calls in flight is over.
func (c *controller) drainExpired(now int64) bool {
	b := c.bounds()
	if c.plan.Drain <= 0 || b.begin == futureInstant || b.end == futureInstant && b.openPause() != nil {
		return false
	}
	since := b.end
	if since == futureInstant {
		since = max(c.lastEnded, b.begin)
	}
	return now-since > int64(c.plan.Drain)
}

// cancelDrain ends a drain that has lasted too long: it cancels the calls in flight and ends the
// schedule. If a stack's calls ignore the cancellation, Run hangs and reports no more progress.
func (c *controller) cancelDrain(cancelCalls func()) {
	if c.schedule != nil {
		c.unsent = c.arrivals.endEarly(c.bounds())
	}
	c.window.stop()
	cancelCalls()
}
