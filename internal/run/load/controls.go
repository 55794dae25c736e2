package load

import (
	"errors"
	"sync/atomic"
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
