package load

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
)

// A Slice is a stretch of the window of a load that takes turns with other loads: it sends calls
// from Send on, and measures those that begin from From on, until To. The instants are those of
// package clock.
type Slice struct {
	Send int64 `json:"send_ns"`
	From int64 `json:"from_ns"`
	To   int64 `json:"to_ns"`
}

// MostSlices bounds the slices of a window.
const MostSlices = 500

// RestAround is the time before the first slice and after the last one that a process's cost
// includes. The load must rest for twice as long there: periodic readings of the process then see the
// cost of all calls for the slices, and nothing else.
const RestAround = 30 * time.Millisecond

// checkSlices refuses slices that are none, too many, or out of order.
func checkSlices(all []Slice) error {
	if len(all) == 0 || len(all) > MostSlices {
		return fmt.Errorf("load: %d slices: want 1 to %d", len(all), MostSlices)
	}
	before := all[0].Send
	for i, s := range all {
		if s.Send < before || s.From < s.Send || s.To <= s.From {
			return fmt.Errorf("load: slice %d sends from %d and lasts from %d to %d: want increasing instants", i+1, s.Send, s.From, s.To)
		}
		before = s.To
	}
	return nil
}

// turns are a load's slices, and the end of the last slice of all loads.
type turns struct {
	slices []Slice
	end    int64
}

// TakeTurns gives a load its slices, and the instant at which the last slice of all loads ends.
// Until then Run does not return, since whatever follows it would disturb the others. Only the
// first TakeTurns counts.
func (c *Controls) TakeTurns(slices []Slice, end int64) {
	if c.turns.CompareAndSwap(nil, &turns{slices, end}) {
		close(c.awaitTurns())
	}
}

// awaitTurns returns a channel that TakeTurns closes.
func (c *Controls) awaitTurns() chan struct{} {
	c.making.Do(func() { c.turnsGiven = make(chan struct{}) })
	return c.turnsGiven
}

// CostSpan returns the time in which a process's cost of its turns arises. It returns 0 before TakeTurns.
func (c *Controls) CostSpan() (begin, end int64) {
	t := c.turns.Load()
	if t == nil || len(t.slices) == 0 {
		return 0, 0
	}
	return t.slices[0].Send - int64(RestAround), t.slices[len(t.slices)-1].To + int64(RestAround)
}

// restTimeout is the longest wait of a warmed-up load for its slices. The other loads of a block, which
// may be many and slow to start, warm up meanwhile.
const restTimeout = 10 * time.Minute

var errNoSlices = fmt.Errorf("load: no control \"slices\" came within %v after the warm-up", restTimeout)

// errTooLate is the error of slices that began before the load learned of them.
var errTooLate = errors.New("load: the slices came after the first of them should have begun")

// rest keeps a load that is warmed up from sending, from an instant on until it gets its slices.
func (c *controller) rest(now, from int64) {
	c.mayOpen, c.rests = now, true
	c.pause(from)
	c.lastReport = from - int64(reportPeriod) // whoever gives the slices waits for this report
}

// restOnCue lets a load of a group rest once its cue is given: all parts of the group keep up the load
// until the last one is warmed up, and rest from the same instant on, so that their schedules agree.
func (c *controller) restOnCue(now int64) error {
	if c.mayOpen == 0 {
		c.mayOpen = now
		c.lastReport = now - int64(reportPeriod) // whoever gives the cue waits for this report
	}
	switch at, told := c.cueInstant(OnOpenControl, now); {
	case told:
		c.rest(now, max(at, now+c.pauseLead()))
	case now-c.mayOpen > int64(cueTimeout):
		return errNotOpened
	}
	return nil
}

// isResting reports whether the load waits for its slices.
func (c *controller) isResting() bool { return c.rests && c.bounds().begin == futureInstant }

// takeTurns announces the slices of a resting load, once they are given.
func (c *controller) takeTurns(now int64) error {
	given := c.plan.Controls.turns.Load()
	switch {
	case c.plan.Controls.end.Load():
		return ErrNothingMeasured
	case given == nil && now-c.mayOpen > int64(restTimeout):
		return errNoSlices
	case given == nil:
		return nil
	}
	if err := checkSlices(given.slices); err != nil {
		return err
	}
	if given.slices[0].From <= now {
		return errTooLate
	}
	c.prepareWindow()
	b := c.bounds().withSlices(given.slices)
	c.lastEnded = max(c.lastEnded, b.begin)
	resting := c.bounds().openPause()
	c.publish(b)
	close(resting.resumed)
	return nil
}

// withSlices returns the bounds of a window of slices. The first slice ends the open pause.
func (b windowBounds) withSlices(all []Slice) windowBounds {
	b.pauses = slices.Clone(b.pauses)
	for i, s := range all {
		if i > 0 {
			b.pauses = b.pauseAt(b.end)
		}
		last := &b.pauses[len(b.pauses)-1]
		last.send, last.to = s.Send, s.From
		b.end = s.To
	}
	b.begin, b.slices = all[0].From, len(all)
	return b
}

// costAround returns how long before and after the window the cost of the counted calls arose.
func (b *windowBounds) costAround() (before, after int64) {
	if b.slices == 0 {
		return 0, 0
	}
	return b.begin - b.sliceFrom() + int64(RestAround), int64(RestAround)
}

// sliceFrom returns the instant from which calls were sent for the first slice.
func (b *windowBounds) sliceFrom() int64 { return b.pauses[len(b.pauses)-b.slices].send }

// awaitOthers waits for the end of the other loads' slices.
func (c *controller) awaitOthers(ctx context.Context) {
	if c.bounds().slices == 0 {
		return
	}
	select {
	case <-time.After(time.Duration(c.plan.Controls.turns.Load().end - clock.Now())):
	case <-ctx.Done():
	}
}

// inSlice returns the client's record of the slice at a spot.
func (c *client) inSlice(b *windowBounds, at spot) *record.Slice {
	if c.slices == nil {
		c.slices = make([]record.Slice, b.slices)
	}
	return &c.slices[b.slice(at)]
}

// slicesOf sums up the slices of all clients.
func (c *controller) slicesOf(b *windowBounds) []record.Slice {
	if b.slices == 0 {
		return nil
	}
	all := make([]record.Slice, b.slices)
	from, first := b.begin, len(b.pauses)+1-b.slices
	for i := range all {
		to := b.end
		if i+1 < b.slices {
			to = b.pauses[first+i].from
		}
		all[i].AtNS, all[i].TookNS = from-b.begin, to-from
		for _, one := range c.clients {
			if one.slices != nil {
				all[i] = all[i].Plus(one.slices[i])
			}
		}
		if i+1 < b.slices {
			from = b.pauses[first+i].to
		}
	}
	return all
}
