package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
)

// Controls steers a running load: it ends the load early, pauses it, or gives it the cues that it
// waits for. All methods may be called at any time, from any goroutine. The load obeys some
// milliseconds later.
type Controls struct {
	end, paused  atomic.Bool
	goAt, openAt atomic.Pointer[int64]
}

// Go sends the first call at an instant, or at once if the instant is over. Only the first Go
// counts.
func (c *Controls) Go(at int64) { c.goAt.CompareAndSwap(nil, &at) }

// Open opens the window at an instant, once the warm-up may end, or as soon as possible if the
// instant is over. Only the first Open counts.
func (c *Controls) Open(at int64) { c.openAt.CompareAndSwap(nil, &at) }

// End closes the window at once. Calls that began in it are waited for, up to the drain.
func (c *Controls) End() { c.end.Store(true) }

// Pause keeps callers from sending. Calls in flight end as usual; the time until Resume
// is no part of the window and of no latency.
func (c *Controls) Pause() { c.paused.Store(true) }

// Resume lets callers send again, all at once, as at the beginning of a load.
func (c *Controls) Resume() { c.paused.Store(false) }

// ErrNothingMeasured is wrapped by the error of a load that was told to end before its
// window opened.
var ErrNothingMeasured = errors.New("it was told to end before anything was measured")

const (
	// openPatience is the longest wait for the control of a load that may open its window, or
	// that is warmed up.
	openPatience = time.Minute
	// lead is the time before the instant of a cue at which its preparation begins.
	lead = 2 * notice
	// oldestCue is the greatest age of an instant. An older one counts as now, since a window
	// that begins there would be over.
	oldestCue = 10 * time.Second
)

// awaitBegin waits for the cue of the plan's first call, until shortly before its instant, and
// returns the instant. A schedule begins at this instant even if it is over: arrivals that were due
// since then are late.
func (c *controller) awaitBegin(ctx context.Context) (int64, error) {
	since := clock.Now()
	c.lastReport = since - int64(reportEvery)
	for {
		now := clock.Now()
		at, told := c.cue(c.plan.Begins, now)
		switch {
		case c.plan.Begins == AtOnce:
			return now, nil
		case c.plan.Controls.end.Load():
			return 0, ErrNothingMeasured
		case told && at-now <= int64(lead):
			return at, nil
		case c.plan.Begins == OnOpen && now-since > int64(openPatience):
			return 0, errNotOpened
		}
		wait := tick
		if told {
			wait = min(wait, time.Duration(at-now)-lead)
		}
		c.reportWaiting(now)
		select {
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		case <-time.After(wait):
		}
	}
}

var errNotOpened = fmt.Errorf("load: no control \"open\" came within %v of the end of the warm-up", openPatience)

// cue returns the instant of a cue, if it was given.
func (c *controller) cue(of Cue, now int64) (at int64, told bool) {
	var given *int64
	switch of {
	case OnGo:
		given = c.plan.Controls.goAt.Load()
	case OnOpen:
		given = c.plan.Controls.openAt.Load()
	}
	if given == nil {
		return 0, false
	}
	if *given < now-int64(oldestCue) {
		return now, true
	}
	return *given, true
}

func (c *controller) reportWaiting(now int64) {
	if c.plan.Report == nil || now-c.lastReport < int64(reportEvery) {
		return
	}
	c.lastReport = now
	c.plan.Report(live.Progress{Warming: true, Settled: c.plan.Begins == OnOpen})
}

// openWhenTold opens the window of a load whose warm-up may end, once its cue is given. It
// announces the window as late as possible, since the counters are read then.
func (c *controller) openWhenTold(now int64) error {
	if c.mayOpen == 0 {
		c.mayOpen = now
		c.lastReport = now - int64(reportEvery) // whoever gives the cue waits for this report
	}
	at, told := c.cue(OnOpen, now)
	ahead := time.Duration(at - now)
	switch {
	case told && ahead <= tick+lead+tick/2: // the next tick may be too late
		time.Sleep(ahead - lead)
		c.readyToOpen()
		c.announce(max(at, clock.Now()+int64(notice)))
	case now-c.mayOpen > int64(openPatience):
		return errNotOpened
	}
	return nil
}

// openNotice is the time from the announcement of an open loop's pause to its begin: a client that
// waits for a nearer arrival no longer checks. The end of a pause is announced as early, since
// clients that wait for a far arrival check that often.
const openNotice = notice + maxSleep

// mostPauses bounds the pauses that each call is compared with.
const mostPauses = 100

func (c *controller) notice() int64 {
	if c.schedule != nil {
		return int64(openNotice)
	}
	return int64(notice)
}

// obey carries out the controls.
func (c *controller) obey(now int64) error {
	controls := c.plan.Controls
	if controls == nil {
		return nil
	}
	b := c.bounds()
	switch paused := b.open(); {
	case controls.end.Load():
		return c.endEarly(now)
	case controls.paused.Load() && paused == nil:
		c.pause(now + c.notice())
	case !controls.paused.Load() && paused != nil:
		c.resume(max(now+c.notice(), paused.from))
	}
	return nil
}

// endEarly closes the window, unless it is about to close anyway. A pause is no part of
// the window, so a paused window ends where the pause began. That moves no call across an edge.
func (c *controller) endEarly(now int64) error {
	b := *c.bounds()
	end := now + int64(notice)
	paused := b.open()
	switch {
	case now < b.begin: // or the window has no begin yet
		return ErrNothingMeasured
	case b.end <= end:
		return nil
	case paused != nil:
		end = min(end, paused.from)
	}
	b.end = end
	c.endedEarly = true
	c.publish(b)
	c.endPause()
	return nil
}

// pause keeps clients from sending from the instant on. After the window there is nothing to pause.
func (c *controller) pause(from int64) {
	b := *c.bounds()
	if b.end <= from || len(b.pauses) == mostPauses {
		return
	}
	b.pauses = append(slices.Clone(b.pauses), pause{from: from, to: notYet, resumed: make(chan struct{})})
	if b.begin != notYet {
		b.end = notYet
	}
	c.publish(b)
}

// resume lets clients send from the instant on, and postpones the window's end.
func (c *controller) resume(to int64) {
	b := *c.bounds()
	b.pauses = slices.Clone(b.pauses)
	paused := b.open()
	paused.to = to
	if b.begin != notYet && c.plan.Duration > 0 {
		b.end = c.windowEnd(&b)
	}
	c.lastEnded = max(c.lastEnded, to)
	c.publish(b)
	close(paused.resumed)
}

// windowEnd returns the end of a window that is bounded by time.
func (c *controller) windowEnd(b *bounds) int64 {
	paused := b.cut(notYet) - b.cut(b.begin)
	return b.begin + int64(c.plan.Duration) + paused
}

func (c *controller) bounds() *bounds { return c.window.bounds.Load() }

func (c *controller) publish(b bounds) { c.window.bounds.Store(&b) }

// endPause wakes the clients that sit out a pause in which the load ends.
func (c *controller) endPause() {
	paused := c.bounds().open()
	if paused == nil {
		return
	}
	select {
	case <-paused.resumed: // they are awake
	default:
		close(paused.resumed)
	}
}

// control observes the trial every tick, opens the window and closes it.
func (c *controller) control(ctx context.Context, cancelCalls func()) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	for !c.ended() {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
		now := c.observe()
		if err := c.obey(now); err != nil {
			return err
		}
		if b := c.bounds(); b.begin == notYet && b.open() == nil {
			if err := c.maybeOpen(now); err != nil {
				return err
			}
		}
		if now >= c.bounds().end {
			c.close()
		}
		if c.drainExpired(now) {
			c.abandon(cancelCalls)
			break
		}
		c.intervals.look(now)
		c.report(now)
	}
	c.observe()
	c.close()
	return nil
}

// ended reports whether all calls that began in the window have ended.
func (c *controller) ended() bool {
	b := c.bounds()
	if c.schedule == nil {
		past := c.window.past.Load() == int64(len(c.clients))
		return past || b.end != notYet && c.lastTick >= b.end && c.allPastOrIdle()
	}
	return b.end != notYet && c.lastDone >= c.schedule.before(b.end, b)
}

// maybeOpen opens the window when the throughput is steady or the warm-up has taken its
// maximum time. A plan with a cue then waits for the cue.
func (c *controller) maybeOpen(now int64) error {
	took := time.Duration(c.bounds().running(now) - c.began)
	if took < c.plan.WarmUp.AtLeast {
		return nil
	}
	if c.mayOpen == 0 {
		c.settled = steady(c.course, len(c.clients), figureOf(&c.plan))
	}
	switch {
	case c.mayOpen == 0 && !c.settled && took < c.plan.WarmUp.AtMost:
	case c.plan.Opens == OnOpen:
		return c.openWhenTold(now)
	default:
		c.readyToOpen()
		c.announce(clock.Now() + int64(notice))
	}
	return nil
}

// close calls OnClose once. The clients know the window's end themselves.
func (c *controller) close() {
	if !c.closed && c.plan.OnClose != nil {
		c.plan.OnClose()
	}
	c.closed = true
}

// drainExpired reports whether the calls in flight have had their drain time.
func (c *controller) drainExpired(now int64) bool {
	b := c.bounds()
	if c.plan.Drain <= 0 || b.begin == notYet || b.end == notYet && b.open() != nil {
		return false
	}
	since := b.end
	if since == notYet {
		since = max(c.lastEnded, b.begin)
	}
	return now-since > int64(c.plan.Drain)
}

// abandon ends a drain that has lasted too long: it cancels the calls in flight and ends the
// schedule. If a stack's calls ignore the cancellation, Run hangs and reports no more progress.
func (c *controller) abandon(cancelCalls func()) {
	if c.schedule != nil {
		c.unsent = c.schedule.abandon(c.bounds())
	}
	c.window.stop()
	cancelCalls()
}
