package probe

import (
	"errors"
	"sync"
	"time"

	"wirelab.dev/internal/machine/symbol"
)

// A Collector empties buffers that the kernel fills, periodically until Stop. It also looks up the
// programs of the watched processes, since these may end at any time.
type Collector struct {
	empty func(pids [2]int) error
	stop  chan struct{}
	done  chan struct{}

	guard    sync.Mutex
	pids     [2]int // by End; 0: none yet
	programs [2]*symbol.Process
	failed   error
}

// Collect starts a collector. It calls empty once at a time, and no more after it failed.
func Collect(period time.Duration, empty func(pids [2]int) error) *Collector {
	c := &Collector{empty: empty, stop: make(chan struct{}), done: make(chan struct{})}
	go c.run(period)
	return c
}

func (c *Collector) run(period time.Duration) {
	defer close(c.done)
	ticks := time.NewTicker(period)
	defer ticks.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticks.C:
			c.collect()
		}
	}
}

func (c *Collector) collect() {
	c.guard.Lock()
	defer c.guard.Unlock()
	for end, pid := range c.pids {
		if pid == 0 {
			continue
		}
		if program, err := symbol.Of(pid); err == nil {
			c.programs[end] = program
		}
	}
	if c.failed == nil {
		c.failed = c.empty(c.pids)
	}
}

// Process sets the process at an end by calling begin, which may be nil. Nothing is emptied
// meanwhile.
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
	close(c.stop)
	<-c.done
	c.collect()
	return c.programs, c.failed
}

// ErrTooMuch means that a trial had more to see than is kept.
var ErrTooMuch = errors.New("more than is kept: give the load a shorter duration or fewer requests")
