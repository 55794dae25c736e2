package prepared

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/failure"
)

// A watch ends calls that take longer than the timeout, or whose context has ended, without
// one timer per call. It looks at all calls at each tick, so that calls end up to two ticks
// late, and never before their time.
type watch struct {
	timeout time.Duration // 0 if there is none
	every   time.Duration
	limit   int64 // ticks that a call may take
	now     atomic.Int64

	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// A tick is a 64th of the timeout within these limits. maxTick also bounds the delay until
// the end of a context is seen.
const (
	ticksInTimeout = 64
	minTick        = time.Millisecond
	maxTick        = 50 * time.Millisecond
)

func newWatch(timeout time.Duration) *watch {
	w := &watch{timeout: timeout, every: maxTick, stop: make(chan struct{})}
	if timeout > 0 {
		w.every = min(max(timeout/ticksInTimeout, minTick), maxTick)
		w.limit = int64((timeout+w.every-1)/w.every) + 1 // a call begins within a tick
	}
	w.now.Store(1)
	return w
}

// start calls look at each tick until close.
func (w *watch) start(look func(now int64)) {
	w.done.Go(func() {
		ticker := time.NewTicker(w.every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				look(w.now.Add(1))
			case <-w.stop:
				return
			}
		}
	})
}

// close ends the goroutine and waits for it.
func (w *watch) close() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

// judge returns whether a call that began at a tick is late or cancelled, or else idle.
func (w *watch) judge(ctx context.Context, began, now int64) verdict {
	switch {
	case w.limit > 0 && now-began > w.limit:
		return late
	case ctx.Err() != nil:
		return cancelled
	}
	return idle
}

// A verdict is the reason why the watch ended a call.
type verdict uint64

// The verdicts, which are smaller than any stamp.
const (
	idle verdict = iota
	late
	cancelled
	shut // the client was closed
	verdicts
)

// err returns the error of a call that ended with a verdict.
func (w *watch) err(ctx context.Context, v verdict) error {
	switch v {
	case idle:
		return nil
	case cancelled:
		return fmt.Errorf("the call was ended: %w", context.Cause(ctx))
	case shut:
		return errClosed
	}
	return failure.As(failure.Deadline, fmt.Errorf("no whole answer within %v: %w", w.timeout, context.DeadlineExceeded))
}
