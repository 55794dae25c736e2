package probe

import (
	"errors"
	"fmt"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/symbol"
)

// Readings reads growing counters periodically: the window is known only when it is over.
type Readings struct {
	read    func(into []uint64) error
	columns int

	guard  sync.Mutex // Mark may come at any time
	taken  []reading
	failed error

	period time.Duration
	ticks  ticker
}

type reading struct {
	atNS   int64
	values []uint64
}

// TakeReadings reads a number of counters at once, and then periodically until Stop.
func TakeReadings(columns int, period time.Duration, read func(into []uint64) error) *Readings {
	r := &Readings{read: read, columns: columns, period: period}
	r.Mark()
	r.ticks = tick(period, func() time.Duration {
		r.Mark()
		return r.thin()
	})
	return r
}

// mostReadings limits the readings. At the limit every second one is dropped; the period doubles.
const mostReadings = 256

// thin reuses the memory of the readings that it drops. It returns the time to the next reading.
func (r *Readings) thin() time.Duration {
	r.guard.Lock()
	defer r.guard.Unlock()
	if len(r.taken) >= mostReadings {
		for i := range mostReadings / 2 {
			r.taken[i], r.taken[2*i] = r.taken[2*i], r.taken[i]
		}
		r.taken = r.taken[:mostReadings/2]
		r.period *= 2
	}
	return r.period
}

// Mark takes a reading now, so that counts before and after it are separated exactly.
func (r *Readings) Mark() {
	r.guard.Lock()
	defer r.guard.Unlock()
	if r.failed != nil {
		return
	}
	next := reading{atNS: clock.Now()}
	if len(r.taken) < cap(r.taken) { // the memory of a dropped reading
		next.values = r.taken[:len(r.taken)+1][len(r.taken)].values
	}
	if next.values == nil {
		next.values = make([]uint64, r.columns)
	}
	if r.failed = r.read(next.values); r.failed == nil {
		r.taken = append(r.taken, next)
	}
}

// Stop takes a last reading.
func (r *Readings) Stop() {
	r.ticks.stop()
	r.Mark()
}

// Between returns the growth of each counter, after Stop. At an edge it assumes that the counters
// grew steadily between the readings around it.
func (r *Readings) Between(window Span) ([]float64, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	first, last := r.taken[0], r.taken[len(r.taken)-1]
	if window.BeginNS < first.atNS || window.EndNS > last.atNS {
		return nil, fmt.Errorf("the readings begin %v after the window and end %v before it",
			max(0, time.Duration(first.atNS-window.BeginNS)), max(0, time.Duration(window.EndNS-last.atNS)))
	}
	grown := r.at(window.EndNS)
	for i, before := range r.at(window.BeginNS) {
		grown[i] -= before
	}
	return grown, nil
}

// at returns the counters at an instant within the readings.
func (r *Readings) at(instant int64) []float64 {
	after := 0
	for r.taken[after].atNS < instant {
		after++
	}
	b := r.taken[after]
	a := r.taken[max(0, after-1)]
	share := 1.0
	if b.atNS > a.atNS {
		share = float64(instant-a.atNS) / float64(b.atNS-a.atNS)
	}
	values := make([]float64, r.columns)
	for i := range values {
		// The subtraction is exact also where the counters are large.
		values[i] = float64(a.values[i]) + share*float64(b.values[i]-a.values[i])
	}
	return values
}

// A ticker calls a function periodically.
type ticker struct{ stopping, stopped chan struct{} }

// tick starts a ticker. The function returns the time until its next call.
func tick(period time.Duration, call func() (next time.Duration)) ticker {
	t := ticker{stopping: make(chan struct{}), stopped: make(chan struct{})}
	go func() { // ends with stop
		defer close(t.stopped)
		ticks := time.NewTicker(period)
		defer ticks.Stop()
		for {
			select {
			case <-t.stopping:
				return
			case <-ticks.C:
				if next := call(); next != period {
					period = next
					ticks.Reset(period)
				}
			}
		}
	}()
	return t
}

// stop returns when the last call has ended.
func (t ticker) stop() {
	close(t.stopping)
	<-t.stopped
}

// A Collector empties buffers that the kernel fills, periodically until Stop. It also looks up the
// programs of the watched processes, since these may end at any time.
type Collector struct {
	empty func(pids [2]int) error
	ticks ticker

	guard    sync.Mutex
	pids     [2]int // by End; 0: none yet
	programs [2]*symbol.Process
	failed   error
}

// Collect starts a collector. Calls of empty do not overlap, and end at its first error.
func Collect(period time.Duration, empty func(pids [2]int) error) *Collector {
	c := &Collector{empty: empty}
	c.ticks = tick(period, func() time.Duration {
		c.collect()
		return period
	})
	return c
}

func (c *Collector) collect() {
	c.guard.Lock()
	defer c.guard.Unlock()
	for end, pid := range c.pids {
		if program, err := symbol.Of(pid); pid != 0 && err == nil {
			c.programs[end] = program
		}
	}
	if c.failed == nil {
		c.failed = c.empty(c.pids)
	}
}

// Process sets the process at an end by calling begin, while nothing is emptied.
func (c *Collector) Process(end End, pid int, begin func() error) error {
	c.guard.Lock()
	defer c.guard.Unlock()
	c.pids[end] = pid
	if begin == nil {
		return nil
	}
	return begin()
}

// Stop empties the buffers for the last time, and returns the programs of the processes, or nil if
// they were not found.
func (c *Collector) Stop() ([2]*symbol.Process, error) {
	c.ticks.stop()
	c.collect()
	return c.programs, c.failed
}

// ErrTooMuch means that a trial had more events than are kept.
var ErrTooMuch = errors.New("more than is kept: give the load a shorter duration or fewer requests")
