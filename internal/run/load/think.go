package load

import (
	"context"
	"time"

	"wirelab.dev/internal/base/clock"
)

// Thinker is an optional ability of a Caller: Think is how long its client waits, in a closed
// loop, from the end of the last call to the next. In an open loop, arrivals say when.
type Thinker interface {
	Think() time.Duration
}

// think waits as long as the caller says, from when it is asked: what checking the answer took
// is the generator's. A think time that the end of the window finds ends with it. What the
// clock adds to it is the generator's too, as time between calls.
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
	c.thought += c.window.bounds.Load().within(begin, min(clock.Now(), begin+int64(length)))
}

// allPastOrIdle reports whether no client has a call of the window in flight, once it has
// ended. What an idle client begins after that is none of the window: it reads the clock
// when it is no longer idle.
func (c *controller) allPastOrIdle() bool {
	for _, one := range c.clients {
		if !one.idle.Load() && !one.isPast.Load() {
			return false
		}
	}
	return true
}
