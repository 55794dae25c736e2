package load

import (
	"errors"
	"slices"
	"sync/atomic"
	"time"
)

// Controls are the keys of a load that runs: it can be ended early, and be paused, and one
// that waits for a cue be given it. All methods may be called at any time, from any goroutine;
// they are obeyed some milliseconds later.
type Controls struct {
	end, paused  atomic.Bool
	goAt, openAt atomic.Pointer[int64]
}

// Go lets the first call out at an instant, or at once where it is over. What counts is the
// first time that it is called.
func (c *Controls) Go(at int64) { c.goAt.CompareAndSwap(nil, &at) }

// Open opens the window at an instant, once the warm-up may end, or as soon as it can be
// where that is over. What counts is the first time that it is called.
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

// openNotice is how long before it begins a pause of an open loop is announced: a client
// no longer looks up from an arrival that is so near. It is announced as long before that
// it ends, since those who wait for a far arrival look up that often.
const openNotice = notice + maxSleep

// mostPauses bounds what each call is held against.
const mostPauses = 100

func (c *controller) notice() int64 {
	if c.schedule != nil {
		return int64(openNotice)
	}
	return int64(notice)
}

// obey does what the controls ask for.
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
// it, so one that is paused ended where the pause began: no call has another place by that.
func (c *controller) endEarly(now int64) error {
	b := *c.bounds()
	end := now + int64(notice)
	paused := b.open()
	switch {
	case now < b.begin: // or it has none yet
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

// pause keeps clients from sending from the instant on. After the window there is nothing
// to pause.
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

// resume lets clients send from the instant on, and puts the window's end off.
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

// windowEnd is when a window that is bounded by time ends.
func (c *controller) windowEnd(b *bounds) int64 {
	paused := b.cut(notYet) - b.cut(b.begin)
	return b.begin + int64(c.plan.Duration) + paused
}

func (c *controller) bounds() *bounds { return c.window.bounds.Load() }

func (c *controller) publish(b bounds) { c.window.bounds.Store(&b) }

// pausedIn tells how often the load was paused, the warm-up included, and how much of
// the time between the window's edges that took.
func (b *bounds) pausedIn() (pauses int64, took time.Duration) {
	return int64(len(b.pauses)), time.Duration(b.cut(b.end) - b.cut(b.begin))
}

// endPause wakes those who sit out a pause in which the load ends.
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
