package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
)

// A Written is a call as a client in another language wrote it down. Such a client knows none of
// this package's rules. The instants are those of package clock.
type Written struct {
	Due, Sent, Ended int64
	Caller           uint32
	Failure          uint32 // 0: it was answered rightly; otherwise one of the Journal's, from 1
}

// A Journal holds all calls of such a client.
type Journal struct {
	Calls      []Written // in any order; Replay sorts them
	Begin, End int64     // the window; End counts only where a duration bounds it
	Failures   []record.ErrorCount
}

// mostWritten bounds the time of a journal: one of years has wrong units.
const mostWritten = 2 * time.Hour

// firstCallAtMost is the longest time from the window's begin to the first call without a warm-up:
// many callers take a while to start.
const firstCallAtMost = 10 * time.Second

// Replay computes the result of a plan by the rules of Run, from the calls that its clients wrote
// down. The plan needs one Caller for each of their callers, but Replay calls none of them.
func Replay(p Plan, j Journal) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Classify = func(err error) record.ErrorCount {
		failed, _ := errors.AsType[*writtenFailure](err) // replay passes no other
		return record.ErrorCount{Class: failed.Class, Code: failed.Code}
	}
	c, err := newController(p)
	if err != nil {
		return nil, err
	}
	defer c.release()
	slices.SortFunc(j.Calls, func(a, b Written) int { return cmp.Compare(a.Ended, b.Ended) })
	if err := c.check(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.setWindow(j)
	if err := c.replay(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.settled = steady(until(c.course, j.Begin), len(c.clients), figureOf(&c.plan))
	return c.result(), nil
}

// check refuses impossible calls.
func (c *controller) check(j Journal) error {
	if len(j.Calls) == 0 {
		return errors.New("no call was written down")
	}
	for i, call := range j.Calls {
		switch {
		case int(call.Caller) >= len(c.clients):
			return fmt.Errorf("call %d is of caller %d: there are %d, from 0", i, call.Caller, len(c.clients))
		case int(call.Failure) > len(j.Failures):
			return fmt.Errorf("call %d failed by failure %d of %d", i, call.Failure, len(j.Failures))
		case call.Due > call.Sent || call.Sent > call.Ended:
			return fmt.Errorf("call %d was due at %d, sent at %d, and ended at %d: want each no sooner than the one before", i, call.Due, call.Sent, call.Ended)
		}
	}
	first, last := earliest(j.Calls), j.Calls[len(j.Calls)-1].Ended
	if last-first < 0 || last-first > int64(mostWritten) { // below 0: too far apart for a number
		return fmt.Errorf("its calls last from %d to %d: want nanoseconds of CLOCK_MONOTONIC, and %v at most", first, last, mostWritten)
	}
	if j.Begin > last || first-j.Begin > int64(firstCallAtMost) {
		return fmt.Errorf("the window begins at %d, and its calls last from %d to %d: want an instant among them", j.Begin, first, last)
	}
	if c.plan.Duration > 0 && j.End-j.Begin != int64(c.plan.Duration) {
		return fmt.Errorf("the window lasts %v: want %v", time.Duration(j.End-j.Begin), c.plan.Duration)
	}
	return nil
}

func earliest(calls []Written) int64 {
	first := calls[0].Due
	for _, call := range calls {
		first = min(first, call.Due)
	}
	return first
}

func (c *controller) setWindow(j Journal) {
	c.began = earliest(j.Calls)
	c.lastTick = c.began
	b := bounds{begin: j.Begin, end: notYet}
	if c.plan.Duration > 0 {
		b.end = j.End
	}
	c.publish(b)
	for _, one := range c.clients {
		for _, course := range one.courses() {
			course.Begin(c.began, time.Duration(j.Calls[len(j.Calls)-1].Ended-c.began))
		}
	}
}

// replay accounts for the calls in the order in which they ended, and observes the course
// as often as Run does.
func (c *controller) replay(j Journal) error {
	freed := make([]int64, len(c.clients))
	for i := range freed {
		freed[i] = never
	}
	for _, written := range j.Calls {
		for written.Ended > c.lastTick+int64(tick) {
			c.observeAt(c.lastTick + int64(tick))
		}
		own := c.clients[written.Caller]
		var failed error
		if written.Failure > 0 {
			failed = (*writtenFailure)(&j.Failures[written.Failure-1])
		}
		own.account(&call{
			intended: written.Due, freed: freed[written.Caller], ready: written.Sent, sent: written.Sent, ended: written.Ended,
		}, failed)
		freed[written.Caller] = written.Ended
		if own.quota > 0 && own.recorded > own.quota {
			return fmt.Errorf("caller %d made more than its %d calls in the window", written.Caller, own.quota)
		}
	}
	c.observeAt(j.Calls[len(j.Calls)-1].Ended)
	return nil
}

// writtenFailure is the failure of a written call.
type writtenFailure record.ErrorCount

func (f *writtenFailure) Error() string { return f.Example }
