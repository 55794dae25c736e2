package load

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"sort"
	"time"

	"wirelab.dev/internal/data/record"
)

// A JournalCall is a call that a client in another language wrote into its journal. The instants
// are on the clock of package clock.
type JournalCall struct {
	Due, Sent, Ended int64
	Caller           uint32
	Failure          uint32 // 0: the call succeeded; n: the nth failure of the Journal, from 1
}

// A Journal holds all calls of a client in another language.
type Journal struct {
	Calls      []JournalCall // in any order; Replay sorts them
	Begin, End int64         // the window; End counts only if a duration bounds the window
	Failures   []record.ErrorCount
	Slices     []Slice // the slices that the client got; nil: its window is not made of slices
}

// maxJournalTime bounds the length of a journal. A longer one probably has wrong units.
const maxJournalTime = 2 * time.Hour

// maxFirstCallDelay is the longest time from the window's begin to the first call, if there is no
// warm-up. A worker with many callers needs this time to start them.
const maxFirstCallDelay = 10 * time.Second

// Replay computes a plan's result by the rules of Run, from the journal of a client in another
// language. The plan needs one Caller per caller of that client, but Replay makes no call.
func Replay(p Plan, j Journal) (*Result, error) {
	if err := p.validate(); err != nil {
		return nil, err
	}
	p.Classify = func(err error) record.ErrorCount {
		failed, _ := errors.AsType[*journalFailure](err) // replay passes only errors of this type
		return record.ErrorCount{Class: failed.Class, Code: failed.Code}
	}
	c, err := newController(p)
	if err != nil {
		return nil, err
	}
	defer c.release()
	slices.SortFunc(j.Calls, func(a, b JournalCall) int { return cmp.Compare(a.Ended, b.Ended) })
	if err := c.checkJournal(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.setWindow(j)
	if err := c.replay(j); err != nil {
		c.closeSamples()
		return nil, err
	}
	c.settled = isSteady(intervalsUntil(c.course, c.bounds().runningClock(j.Begin)), len(c.clients), steadinessSeries(&c.plan))
	return c.result(), nil
}

// checkJournal returns an error if a call of the journal is impossible.
func (c *controller) checkJournal(j Journal) error {
	if len(j.Calls) == 0 {
		return errors.New("the worker's journal has no calls: want at least one")
	}
	for i, call := range j.Calls {
		switch {
		case int(call.Caller) >= len(c.clients):
			return fmt.Errorf("call %d has the caller number %d: want a number from 0 to %d", i, call.Caller, len(c.clients)-1)
		case int(call.Failure) > len(j.Failures):
			return fmt.Errorf("call %d has the failure number %d, but the worker listed only %d failures", i, call.Failure, len(j.Failures))
		case call.Due > call.Sent || call.Sent > call.Ended:
			return fmt.Errorf("call %d was due at %d, sent at %d, and ended at %d: want these instants in order", i, call.Due, call.Sent, call.Ended)
		}
	}
	first, last := earliestDue(j.Calls), j.Calls[len(j.Calls)-1].Ended
	if last-first < 0 || last-first > int64(maxJournalTime) { // below 0: the difference overflowed
		return fmt.Errorf("the calls last from instant %d to %d: want nanoseconds of CLOCK_MONOTONIC, and at most %v in all", first, last, maxJournalTime)
	}
	if j.Begin > last || first-j.Begin > int64(maxFirstCallDelay) {
		return fmt.Errorf("the window begins at instant %d, but the calls last from %d to %d: want a begin between these two", j.Begin, first, last)
	}
	if j.Slices != nil {
		return j.checkTurns()
	}
	if c.plan.Duration > 0 && j.End-j.Begin != int64(c.plan.Duration) {
		return fmt.Errorf("the worker's window lasts %v, but the spec asks for %v", time.Duration(j.End-j.Begin), c.plan.Duration)
	}
	return nil
}

// checkTurns returns an error if the window is not that of the slices, or if a call was sent in the
// turn of another client.
func (j *Journal) checkTurns() error {
	if err := checkSlices(j.Slices); err != nil {
		return err
	}
	if begin, end := j.Slices[0].From, j.Slices[len(j.Slices)-1].To; j.Begin != begin || j.End != end {
		return fmt.Errorf("the worker's window lasts from instant %d to %d, but its slices from %d to %d", j.Begin, j.End, begin, end)
	}
	if earliestDue(j.Calls) >= j.Slices[0].Send {
		return errors.New("the worker made no call before its first slice: want a warm-up")
	}
	for i, call := range j.Calls {
		next := sort.Search(len(j.Slices), func(n int) bool { return j.Slices[n].Send > call.Sent })
		if next > 0 && call.Sent >= j.Slices[next-1].To {
			return fmt.Errorf("call %d was sent %v after the end of slice %d: want no call between slices", i, time.Duration(call.Sent-j.Slices[next-1].To), next)
		}
	}
	return nil
}

func earliestDue(calls []JournalCall) int64 {
	first := calls[0].Due
	for _, call := range calls {
		first = min(first, call.Due)
	}
	return first
}

func (c *controller) setWindow(j Journal) {
	c.began = earliestDue(j.Calls)
	c.lastTick = c.began
	b := windowBounds{begin: j.Begin, end: futureInstant}
	if c.plan.Duration > 0 {
		b.end = j.End
	}
	if j.Slices != nil {
		b.pauses = b.pauseAt(j.rested())
		b = b.withSlices(j.Slices)
	}
	c.publish(b)
	for _, one := range c.clients {
		for _, course := range one.courses() {
			course.Begin(c.began, time.Duration(b.runningClock(j.Calls[len(j.Calls)-1].Ended)-c.began))
		}
	}
}

// rested returns the instant from which the client sent nothing until its first slice.
func (j *Journal) rested() int64 {
	last := earliestDue(j.Calls)
	for _, call := range j.Calls {
		if call.Sent < j.Slices[0].Send {
			last = max(last, call.Sent)
		}
	}
	return last + 1
}

// replay counts the calls in the order in which they ended, and observes the course as often
// as Run does.
func (c *controller) replay(j Journal) error {
	freed := make([]int64, len(c.clients))
	for i := range freed {
		freed[i] = pastInstant
	}
	for _, written := range j.Calls {
		for written.Ended > c.lastTick+int64(courseInterval) {
			c.observeAt(c.lastTick + int64(courseInterval))
		}
		own := c.clients[written.Caller]
		var failed error
		if written.Failure > 0 {
			failed = (*journalFailure)(&j.Failures[written.Failure-1])
		}
		own.countCall(&call{
			intended: written.Due, freed: freed[written.Caller], ready: written.Sent, sent: written.Sent, ended: written.Ended,
		}, failed)
		freed[written.Caller] = written.Ended
		if own.quota > 0 && own.recorded > own.quota {
			return fmt.Errorf("caller %d made more calls in the window than the planned %d", written.Caller, own.quota)
		}
	}
	c.observeAt(j.Calls[len(j.Calls)-1].Ended)
	return nil
}

// journalFailure is the error of a call that failed according to the journal.
type journalFailure record.ErrorCount

func (f *journalFailure) Error() string { return f.Example }
