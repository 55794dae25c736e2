package load

import (
	"context"
	"fmt"
	"math"
	"sync/atomic"

	"wirelab.dev/internal/clock"
	"wirelab.dev/internal/latency"
)

// window is what all clients read. The conductor sets its bounds, and does so
// ahead of time: they lie in the future when they are announced, so that no
// client can learn of them too late.
type window struct {
	begin atomic.Int64 // notYet during warm-up
	end   atomic.Int64 // notYet where the window is bounded by requests
	past  atomic.Int64 // closed loop: clients whose measured calls have all ended
	over  atomic.Bool  // every client may stop
	limit chan struct{}
}

// Instants that are none.
const (
	notYet = math.MaxInt64
	never  = math.MinInt64
)

// client is one client's goroutine and its records. The fields that the
// conductor reads while the client runs stand alone at the top, padded from
// what other clients write.
type client struct {
	_    [64]byte
	done atomic.Int64 // calls ended that began before the window's end
	sum  atomic.Int64 // of their service times, ns
	_    [64]byte

	caller  Caller
	checker Checker // nil where the caller has no opinion
	window  *window
	quota   int64 // calls to record; 0: as many as the window holds

	tally
	service, response, wait, late *latency.Recorder
	samples                       *latency.SampleLog

	isPast   bool
	failures map[string]*Failure
	classify func(error) string
}

// tally is what a client counts; those of all clients add up.
type tally struct {
	warmedUp              int64 // calls ended before the window
	recorded              int64 // calls that began in it
	completed, straddling int64
	queued                int64

	straddled int64 // ns that straddling calls took, all of it
	busy      int64 // ns in flight, clipped to the window
	occupied  int64 // the same with waiting for a permit
	spun      int64 // ns burned in waiting for the window's arrivals
	finish    int64 // instant at which the last call of the window ended, or never
}

// call is the course of one call, as instants.
type call struct {
	intended int64
	freed    int64 // its client had ended its last call
	ready    int64 // its client was ready to send
	sent     int64 // the in-flight limit let it go
	ended    int64
	spun     int64 // ns burned in waiting for intended
}

// closedLoop sends the next request when the answer to the last one is there.
func (c *client) closedLoop(ctx context.Context) {
	for !c.finished() {
		now := clock.Now()
		if c.perform(ctx, call{intended: now, freed: now, ready: now}) >= c.window.end.Load() {
			c.markPast()
		}
	}
}

// openLoop sends requests at the schedule's instants, whichever this client
// gets hold of.
func (c *client) openLoop(ctx context.Context, s *schedule) {
	for freed := int64(never); !c.window.over.Load(); {
		intended, spun, ok := s.await(c.window)
		if !ok {
			return
		}
		freed = c.perform(ctx, call{intended: intended, freed: freed, ready: clock.Now(), spun: spun})
	}
}

// perform makes one call, takes its times, accounts for it, and returns the
// instant at which it ended.
func (c *client) perform(ctx context.Context, course call) int64 {
	course.sent = course.ready
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
	c.account(&course, err)
	return course.ended
}

// account books the call under what the window makes of it.
func (c *client) account(course *call, err error) {
	service := course.ended - course.sent
	begin, end := c.window.begin.Load(), c.window.end.Load()
	if course.intended >= end {
		return // sent to keep the load up for the calls that outlast the window
	}
	c.done.Store(c.done.Load() + 1)
	c.sum.Store(c.sum.Load() + service)
	if course.intended < begin && course.ended <= begin {
		c.warmedUp++
		return
	}
	c.finish = course.ended
	c.busy += max(0, min(course.ended, end)-max(course.sent, begin))
	c.occupied += max(0, min(course.ended, end)-max(course.ready, begin))
	if course.ended <= end {
		c.completed++
	}
	if course.sent < begin || course.sent < end && course.ended > end {
		c.straddling++
		c.straddled += service
	}
	if course.intended >= begin {
		c.record(course, begin, err)
	}
}

// record keeps the times of a call that began in the window.
func (c *client) record(course *call, begin int64, err error) {
	c.recorded++
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

// recordPacing tells apart what a request waited for: a client that was still
// in its last call, which is the server's doing, and all that came after that,
// which is the generator's own.
func (c *client) recordPacing(course *call) {
	c.spun += course.spun
	c.late.Record(course.ready - max(course.intended, course.freed))
	if course.freed > course.intended {
		c.queued++
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

// finished tells whether the client may stop. In a window bounded by time every
// client goes on sending, unrecorded, until the last measured call of any has
// ended, so that the slowest calls are measured under the same load as the rest.
func (c *client) finished() bool {
	if c.fulfilled() {
		c.markPast()
		return true
	}
	return c.window.over.Load()
}

// fulfilled tells whether the client has made all requests asked of it.
func (c *client) fulfilled() bool { return c.quota > 0 && c.recorded >= c.quota }

func (c *client) markPast() {
	if !c.isPast {
		c.isPast = true
		c.window.past.Add(1)
	}
}
