package probe

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/machine/symbol"
)

// Readings holds periodic readings of counters. They cover the whole trial, because the measured
// window is known only after the trial.
type Readings struct {
	read    func(into []uint64) error
	columns int

	guard  sync.Mutex // several goroutines may call ReadNow
	taken  []reading
	failed error

	period time.Duration
	ticks  ticker
}

type reading struct {
	atNS   int64
	values []uint64
}

// StartReadings reads all counters now, and then periodically until Stop.
func StartReadings(columns int, period time.Duration, read func(into []uint64) error) *Readings {
	r := &Readings{read: read, columns: columns, period: period}
	r.ReadNow()
	r.ticks = startTicker(period, func() time.Duration {
		r.ReadNow()
		return r.dropEverySecond()
	})
	return r
}

// maxReadings limits the number of readings. At the limit, every second reading is dropped and the
// period doubles.
const maxReadings = 256

// dropEverySecond drops every second reading if there are maxReadings, and keeps the memory for new
// readings. It returns the time until the next reading.
func (r *Readings) dropEverySecond() time.Duration {
	r.guard.Lock()
	defer r.guard.Unlock()
	if len(r.taken) >= maxReadings {
		for i := range maxReadings / 2 {
			r.taken[i], r.taken[2*i] = r.taken[2*i], r.taken[i]
		}
		r.taken = r.taken[:maxReadings/2]
		r.period *= 2
	}
	return r.period
}

// ReadNow reads all counters now, which separates the counts before and after this call.
func (r *Readings) ReadNow() {
	r.guard.Lock()
	defer r.guard.Unlock()
	if r.failed != nil {
		return
	}
	next := reading{atNS: clock.Now()}
	if len(r.taken) < cap(r.taken) { // reuses the memory of a dropped reading
		next.values = r.taken[:len(r.taken)+1][len(r.taken)].values
	}
	if next.values == nil {
		next.values = make([]uint64, r.columns)
	}
	if r.failed = r.read(next.values); r.failed == nil {
		r.taken = append(r.taken, next)
	}
}

// Stop takes a last reading and ends the periodic readings.
func (r *Readings) Stop() {
	r.ticks.stop()
	r.ReadNow()
}

// Between returns the growth of each counter in the window. Call it after Stop. It assumes that
// counters grow at a constant rate between two readings, or if the window is Alone, only within it.
func (r *Readings) Between(window Span) ([]float64, error) {
	if r.failed != nil {
		return nil, r.failed
	}
	first, last := r.taken[0], r.taken[len(r.taken)-1]
	if window.BeginNS < first.atNS || window.EndNS > last.atNS {
		return nil, fmt.Errorf("the readings do not cover the window: they begin %v after its start and end %v before its end",
			max(0, time.Duration(first.atNS-window.BeginNS)), max(0, time.Duration(window.EndNS-last.atNS)))
	}
	if window.Alone {
		before := r.firstFrom(window.BeginNS)
		if r.taken[before].atNS > window.BeginNS {
			before--
		}
		window.BeginNS, window.EndNS = r.taken[before].atNS, r.taken[r.firstFrom(window.EndNS)].atNS
	}
	grown := r.valuesAt(window.EndNS)
	for i, before := range r.valuesAt(window.BeginNS) {
		grown[i] -= before
	}
	return grown, nil
}

// Covered returns the part of a window that the readings cover. Call it after Stop.
func (r *Readings) Covered(window Span) Span {
	if len(r.taken) == 0 {
		return Span{BeginNS: window.BeginNS, EndNS: window.BeginNS}
	}
	begin := max(window.BeginNS, r.taken[0].atNS)
	return Span{BeginNS: begin, EndNS: max(begin, min(window.EndNS, r.taken[len(r.taken)-1].atNS))}
}

// firstFrom returns the index of the first reading at an instant or after it.
func (r *Readings) firstFrom(instant int64) int {
	return slices.IndexFunc(r.taken, func(one reading) bool { return one.atNS >= instant })
}

func (r *Readings) valuesAt(instant int64) []float64 {
	after := r.firstFrom(instant)
	b := r.taken[after]
	a := r.taken[max(0, after-1)]
	share := 1.0
	if b.atNS > a.atNS {
		share = float64(instant-a.atNS) / float64(b.atNS-a.atNS)
	}
	values := make([]float64, r.columns)
	for i := range values {
		// Subtract integers, because floats would lose the last digits of large counters.
		values[i] = float64(a.values[i]) + share*float64(b.values[i]-a.values[i])
	}
	return values
}

// A ticker calls a function periodically.
type ticker struct{ stopping, stopped chan struct{} }

// startTicker starts a ticker. call returns the time until its next call. The first call is at a multiple
// of the period, so that several tickers wake the process up together: a wake-up costs as much as a
// reading.
func startTicker(period time.Duration, call func() (next time.Duration)) ticker {
	t := ticker{stopping: make(chan struct{}), stopped: make(chan struct{})}
	go func() { // ends when stop is called
		defer close(t.stopped)
		began := time.Now()
		current := began.Truncate(period).Add(period).Sub(began)
		ticks := time.NewTicker(current)
		defer ticks.Stop()
		for {
			select {
			case <-t.stopping:
				return
			case <-ticks.C:
				if next := call(); next != current {
					current = next
					ticks.Reset(current)
				}
			}
		}
	}()
	return t
}

func (t ticker) stop() {
	close(t.stopping)
	<-t.stopped
}

// A Collector periodically empties the buffers that the kernel fills. It also reads the memory maps
// of the watched processes while they run, because they may end at any time.
type Collector struct {
	empty func(ends map[int]End) error
	ticks ticker

	guard   sync.Mutex
	watched WatchedProcesses
	failed  error
}

// WatchedProcesses holds the processes of both ends, by PID.
type WatchedProcesses struct {
	Ends     map[int]End
	programs map[int]*symbol.Process // programs whose memory maps were read
	hidden   map[int]bool            // processes without a readable memory map: true if rights are missing, false if they ended
}

// StartCollector starts a collector. It calls empty from one goroutine at a time. empty may add processes
// to ends. After empty returns an error, it does not call it again.
func StartCollector(period time.Duration, empty func(ends map[int]End) error) *Collector {
	c := &Collector{empty: empty, watched: WatchedProcesses{map[int]End{}, map[int]*symbol.Process{}, map[int]bool{}}}
	c.ticks = startTicker(period, func() time.Duration {
		c.collect()
		return period
	})
	return c
}

func (c *Collector) collect() {
	c.guard.Lock()
	defer c.guard.Unlock()
	for pid := range c.watched.Ends {
		if _, hidden := c.watched.hidden[pid]; hidden {
			continue
		}
		if program, err := symbol.ReadProcess(pid); err != nil {
			c.watched.hidden[pid] = errors.Is(err, fs.ErrPermission)
		} else {
			c.watched.programs[pid] = program
		}
	}
	if c.failed == nil {
		c.failed = c.empty(c.watched.Ends)
	}
}

// AddProcess adds a process to an end. It calls begin when no buffer is being emptied.
func (c *Collector) AddProcess(end End, pid int, begin func() error) error {
	c.guard.Lock()
	defer c.guard.Unlock()
	err := begin()
	if err == nil {
		c.watched.Ends[pid] = end
	}
	return err
}

// Stop empties the buffers for the last time. It returns the processes that were watched.
func (c *Collector) Stop() (WatchedProcesses, error) {
	c.ticks.stop()
	c.collect()
	return c.watched, c.failed
}

// ErrTooManyEvents means that a trial had more events than wirelab keeps in memory.
var ErrTooManyEvents = errors.New("this is more than wirelab can keep: give the load a shorter duration or fewer requests")
