package probe

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
)

// A sentinel is a thread on a CPU that sleeps for a moment and measures how late it wakes up. It
// has the workers' priority, so delays meet both alike. The CPU was taken for the time of the
// delay, less the time that our own processes ran meanwhile.
//
// It sleeps for a random time: the share of its wakings that met a gap equals the share of
// requests that did, even of periodic gaps. A waking costs 30 µs on a virtual machine: 1.4 % of
// each watched CPU.
const (
	leastSleep = 2 * time.Millisecond
	mostSleep  = 6 * time.Millisecond
	// leastGap is the shortest gap that can be distinguished from a late timer: in a
	// virtual machine timers are 25 µs late, and vary by as much.
	leastGap = 50 * time.Microsecond
	// mostGaps limits the gaps that are kept per CPU. At the limit the shortest are dropped.
	mostGaps = 4096
)

// A SentinelCPU is a CPU to watch.
type SentinelCPU struct {
	CPU int `json:"cpu"`
	// PIDs are the processes whose work on the CPU is ours; CPUs is the number of CPUs they have.
	PIDs []int `json:"pids"`
	CPUs int   `json:"cpus"`
}

// A Gap is a time in which others had a CPU while a thread of ours was due on it.
type Gap struct {
	AtNS   int64 `json:"at_ns"`
	TookNS int64 `json:"took_ns"`
}

// Watched holds the measurements of a sentinel on a CPU.
type Watched struct {
	CPU     int   `json:"cpu"`
	FromNS  int64 `json:"from_ns"`
	ToNS    int64 `json:"to_ns"`
	Wakings int64 `json:"wakings"`
	Gaps    []Gap `json:"gaps"` // in order of time
	// Problem says why it measured nothing, or stopped.
	Problem string `json:"problem,omitempty"`
}

// Shift adds this many nanoseconds to all instants, as for the clock of another machine.
func (w *Watched) Shift(by int64) {
	w.FromNS += by
	w.ToNS += by
	for i := range w.Gaps {
		w.Gaps[i].AtNS += by
	}
}

// RunSentinels watches the CPUs until stop is closed, for at least one waking. The process should
// do nothing else: a thread that sleeps here occupies one of Go's processors.
func RunSentinels(cpus []SentinelCPU, stop <-chan struct{}) []Watched {
	runtime.GOMAXPROCS(len(cpus) + 1)
	watched := make([]Watched, len(cpus))
	var stopped atomic.Bool
	var running sync.WaitGroup
	for i, cpu := range cpus {
		running.Go(func() {
			runtime.LockOSThread() // and never unlocked: the thread ends here
			s := sentinel{of: cpu, watched: Watched{CPU: cpu.CPU, Gaps: make([]Gap, 0, mostGaps)}}
			if err := s.run(&stopped); err != nil {
				s.watched.Problem = err.Error()
			}
			watched[i] = s.watched
		})
	}
	<-stop
	stopped.Store(true)
	running.Wait()
	return watched
}

// sentinel watches one CPU.
type sentinel struct {
	of      SentinelCPU
	watched Watched
	// leastLate is the smallest lateness so far: the timer's own.
	leastLate time.Duration
	floor     time.Duration
}

// A waking is one sleep and its end.
type waking struct {
	dueNS, ranNS int64
	// own is the time that our processes ran between the beginning of the sleep and its end.
	own time.Duration
}

func (s *sentinel) run(stopped *atomic.Bool) error {
	if err := becomeSentinel(s.of.CPU); err != nil {
		return fmt.Errorf("watch CPU %d: %w", s.of.CPU, err)
	}
	before, err := s.ownTime()
	if err != nil {
		return err
	}
	s.watched.FromNS = clock.Now()
	for first := true; first || !stopped.Load(); first = false {
		due := clock.Now() + int64(leastSleep+rand.N(mostSleep-leastSleep))
		sleepUntil(due)
		ran := clock.Now()
		after, err := s.ownTime()
		if err != nil {
			return err
		}
		s.observe(waking{dueNS: due, ranNS: ran, own: after - before})
		before = after
	}
	return nil
}

// ownTime returns the processor time of our processes. If one of them has ended, it fails.
func (s *sentinel) ownTime() (time.Duration, error) {
	var sum time.Duration
	for _, pid := range s.of.PIDs {
		took, err := processorTime(pid)
		if err != nil {
			return 0, err
		}
		sum += took
	}
	return sum, nil
}

// observe records a waking, and its gap if there was one.
func (s *sentinel) observe(w waking) {
	s.watched.Wakings++
	s.watched.ToNS = w.ranNS
	late := time.Duration(w.ranNS - w.dueNS)
	if s.watched.Wakings == 1 || late < s.leastLate {
		s.leastLate = late
	}
	gap := late - s.leastLate - s.ownWithin(w.own)
	if gap < max(leastGap, s.floor) {
		return
	}
	if len(s.watched.Gaps) == mostGaps {
		s.thin()
	}
	if gap >= s.floor {
		s.watched.Gaps = append(s.watched.Gaps, Gap{AtNS: w.dueNS, TookNS: int64(gap)})
	}
}

// ownWithin limits the time that our processes ran here after the sentinel was due. The time
// includes their time during its sleep, so a gap is a lower bound. If they have several CPUs, it
// subtracts at most the time that the scheduler gives a few threads before a waiting one.
func (s *sentinel) ownWithin(own time.Duration) time.Duration {
	const turns = 10 * time.Millisecond // three of its slices, of 3 ms at most
	if s.of.CPUs > 1 {
		return min(own, turns)
	}
	return own
}

// thin keeps the longer half of the gaps.
func (s *sentinel) thin() {
	lengths := make([]int64, len(s.watched.Gaps))
	for i, gap := range s.watched.Gaps {
		lengths[i] = gap.TookNS
	}
	slices.Sort(lengths)
	s.floor = time.Duration(lengths[len(lengths)/2] + 1)
	s.watched.Gaps = slices.DeleteFunc(s.watched.Gaps, func(gap Gap) bool { return gap.TookNS < int64(s.floor) })
}
