package load

import (
	"errors"
	"sync/atomic"
)

// Controls are the keys of a load that runs: it can be ended early, and be paused, and one
// that waits for a cue be given it. All methods may be called at any time, from any goroutine;
// they are obeyed some milliseconds later.
type Controls struct {
	end, paused  atomic.Bool
	goAt, openAt atomic.Pointer[int64]
}

// Go sends the first call at an instant, or at once if that is over. Only its first call counts.
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
