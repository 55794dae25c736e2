package load

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/latency"
)

// window is what all clients read and only the conductor writes, ahead of time:
// its bounds lie in the future when they are set, so that no client can learn
// of them too late.
type window struct {
	begin atomic.Int64 // notYet during warm-up
	end   atomic.Int64 // notYet where the window is bounded by requests
	past  atomic.Int64 // clients whose measured calls have all ended
	over  atomic.Bool  // every client may stop
	limit chan struct{}
}

const notYet = math.MaxInt64

// client is one client's goroutine and its records. The fields that the
// conductor reads while the client runs stand alone at the top, padded from
// what other clients write.
type client struct {
	_       [64]byte
	done    atomic.Int64 // calls ended, warm-up included
	sum     atomic.Int64 // of their service times, ns
	counted atomic.Int64 // calls recorded
	_       [64]byte

	caller  Caller
	checker Checker // nil where the caller has no opinion
	window  *window
	quota   int64 // calls to record; 0: as many as the window holds

	service, response, wait, late *latency.Recorder
	samples                       *latency.SampleLog

	completed, straddling, queued int64
	busy                          int64 // ns in flight, clipped to the window
	occupied                      int64 // the same with waiting for a permit
	spun                          int64
	finish                        int64 // end of the last measured call
	isPast                        bool
	failures                      map[string]*Failure
	classify                      func(error) string
}

// call is the course of one call, as instants: free is when its client could
// take it up, sent when the in-flight limit let it go.
type call struct {
	intended, free, sent, ended int64
}

// closedLoop sends the next request when the answer to the last one is there.
func (c *client) closedLoop(ctx context.Context) {
	for !c.finished() {
		now := clock.Now()
		if c.perform(ctx, now, now) >= c.window.end.Load() {
			c.markPast()
		}
	}
}

// openLoop sends requests at the schedule's instants, whichever this client
// gets hold of.
func (c *client) openLoop(ctx context.Context, s *schedule) {
	for !c.finished() {
		intended, ok := s.take()
		if !ok {
			break
		}
		if intended >= c.window.end.Load() {
			c.markPast()
		}
		free := clock.Now()
		c.spun += int64(clock.Until(intended))
		now := clock.Now()
		if c.inWindow(intended) {
			if free > intended {
				c.queued++
			} else {
				c.late.Record(now - intended)
			}
		}
		c.perform(ctx, intended, now)
	}
	c.markPast()
}

// perform makes one call, takes its times, accounts for it, and returns the
// instant at which it ended.
func (c *client) perform(ctx context.Context, intended, free int64) int64 {
	course := call{intended: intended, free: free, sent: free}
	if limit := c.window.limit; limit != nil {
		limit <- struct{}{}
		course.sent = clock.Now()
	}
	err := c.caller.Call(ctx)
	course.ended = clock.Now()
	if limit := c.window.limit; limit != nil {
		<-limit
	}
	if err == nil && c.checker != nil {
		if wrong := c.checker.Check(); wrong != nil {
			err = fmt.Errorf("%w: %w", ErrWrongAnswer, wrong)
		}
	}
	c.account(course, err)
	return course.ended
}

// account books the call under what the window makes of it.
func (c *client) account(course call, err error) {
	c.done.Store(c.done.Load() + 1)
	c.sum.Store(c.sum.Load() + course.ended - course.sent)

	begin, end := c.window.begin.Load(), c.window.end.Load()
	if course.ended <= begin || course.intended >= end {
		return // warm-up or cool-down
	}
	c.busy += max(0, min(course.ended, end)-max(course.sent, begin))
	c.occupied += max(0, min(course.ended, end)-max(course.free, begin))
	if course.ended <= end {
		c.completed++
	}
	if course.sent < begin || course.ended > end {
		c.straddling++
	}
	if course.intended >= begin {
		c.record(course, begin, err)
	}
}

// record keeps the times of a call that began in the window.
func (c *client) record(course call, begin int64, err error) {
	c.counted.Store(c.counted.Load() + 1)
	c.finish = course.ended
	c.service.Record(course.ended - course.sent)
	if c.response != nil {
		c.response.Record(course.ended - course.intended)
	}
	if c.wait != nil {
		c.wait.Record(course.sent - course.free)
	}
	if c.samples != nil {
		c.samples.Append(latency.Sample{
			Start:    course.intended - begin,
			Wait:     course.sent - course.intended,
			Service:  course.ended - course.sent,
			Response: course.ended - course.intended,
			Failed:   err != nil,
		})
	}
	if err != nil {
		c.fail(err)
	}
}

// fail counts a failed call. It allocates; a trial with failures is not judged
// by its engine's cost.
func (c *client) fail(err error) {
	class := c.classify(err)
	f := c.failures[class]
	if f == nil {
		if c.failures == nil {
			c.failures = map[string]*Failure{}
		}
		f = &Failure{Class: class, Example: err.Error()}
		c.failures[class] = f
	}
	f.Count++
}

func (c *client) inWindow(instant int64) bool {
	return instant >= c.window.begin.Load() && instant < c.window.end.Load()
}

// finished tells whether the client may stop. In a window bounded by time every
// client goes on sending, unrecorded, until the last measured call of any has
// ended, so that the slowest calls are measured under the same load as the rest.
func (c *client) finished() bool {
	if c.quota > 0 && c.counted.Load() >= c.quota {
		c.markPast()
		return true
	}
	return c.window.over.Load()
}

func (c *client) markPast() {
	if !c.isPast {
		c.isPast = true
		c.window.past.Add(1)
	}
}

// span is how long the client was at work inside [begin, end].
func (c *client) span(begin, end int64) time.Duration {
	if c.quota > 0 {
		return time.Duration(c.finish - begin)
	}
	return time.Duration(end - begin)
}
