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

// A sentinel is a thread on one CPU that sleeps for some milliseconds and measures how late it
// wakes up. It has the workers' priority, so the same delays affect the workers. A delay minus the
// CPU time of wirelab's processes in it is the time that other programs used.
//
// The time of each sleep is random. So the share of late wake-ups equals the share of delayed
// requests, even if delays are periodic. On a virtual machine a wake-up takes 30 µs, or 1.4 % of
// the CPU.
const (
	minSleep = 2 * time.Millisecond
	maxSleep = 6 * time.Millisecond
	// minGap is the shortest gap that differs clearly from a late timer. In a virtual machine,
	// timers are up to 50 µs late.
	minGap = 50 * time.Microsecond
	// maxGaps limits the stored gaps per CPU. At the limit, the shorter half is dropped.
	maxGaps = 4096
)

// A SentinelCPU is a CPU that a sentinel watches.
type SentinelCPU struct {
	CPU int `json:"cpu"`
	// PIDs lists wirelab's processes on this CPU. CPUs is the number of CPUs that they may use.
	PIDs []int `json:"pids"`
	CPUs int   `json:"cpus"`
}

// A Gap is a period in which other programs used a CPU while a thread of wirelab waited for it.
type Gap struct {
	AtNS   int64 `json:"at_ns"`
	TookNS int64 `json:"took_ns"`
}

// A SentinelResult holds the measurements of one sentinel.
type SentinelResult struct {
	CPU     int   `json:"cpu"`
	FromNS  int64 `json:"from_ns"`
	ToNS    int64 `json:"to_ns"`
	Wakings int64 `json:"wakings"`
	Gaps    []Gap `json:"gaps"` // in order of time
	// Problem says why the sentinel measured nothing, or stopped early. Empty means that all went
	// well.
	Problem string `json:"problem,omitempty"`
}

// Shift adds nanoseconds to all instants, which converts them to another machine's clock.
func (w *SentinelResult) Shift(by int64) {
	w.FromNS += by
	w.ToNS += by
	for i := range w.Gaps {
		w.Gaps[i].AtNS += by
	}
}

// RunSentinels watches the CPUs until stop is closed. Each sentinel wakes up at least once. The
// process should do nothing else, because a sleeping sentinel occupies a Go processor.
func RunSentinels(cpus []SentinelCPU, stop <-chan struct{}) []SentinelResult {
	runtime.GOMAXPROCS(len(cpus) + 1)
	watched := make([]SentinelResult, len(cpus))
	var stopped atomic.Bool
	var running sync.WaitGroup
	for i, cpu := range cpus {
		running.Go(func() {
			runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
			s := sentinel{of: cpu, watched: SentinelResult{CPU: cpu.CPU, Gaps: make([]Gap, 0, maxGaps)}}
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

type sentinel struct {
	of      SentinelCPU
	watched SentinelResult
	// leastLate is the smallest delay so far. The timer itself causes this part of a delay.
	leastLate time.Duration
	floor     time.Duration // shorter gaps are not stored
}

// A wakeUp is the end of one sleep.
type wakeUp struct {
	dueNS, ranNS int64
	// own is the CPU time of wirelab's processes during the sleep and the delay.
	own time.Duration
}

func (s *sentinel) run(stopped *atomic.Bool) error {
	if err := prepareSentinelThread(s.of.CPU); err != nil {
		return fmt.Errorf("watch CPU %d: %w", s.of.CPU, err)
	}
	before, err := s.ownCPUTime()
	if err != nil {
		return err
	}
	s.watched.FromNS = clock.Now()
	for first := true; first || !stopped.Load(); first = false {
		due := clock.Now() + int64(minSleep+rand.N(maxSleep-minSleep))
		sleepUntil(due)
		ran := clock.Now()
		after, err := s.ownCPUTime()
		if err != nil {
			return err
		}
		s.recordWakeUp(wakeUp{dueNS: due, ranNS: ran, own: after - before})
		before = after
	}
	return nil
}

func (s *sentinel) ownCPUTime() (time.Duration, error) {
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

func (s *sentinel) recordWakeUp(w wakeUp) {
	s.watched.Wakings++
	s.watched.ToNS = w.ranNS
	late := time.Duration(w.ranNS - w.dueNS)
	if s.watched.Wakings == 1 || late < s.leastLate {
		s.leastLate = late
	}
	gap := late - s.leastLate - s.limitOwnTime(w.own)
	if gap < max(minGap, s.floor) {
		return
	}
	if len(s.watched.Gaps) == maxGaps {
		s.keepLongestGaps()
	}
	if gap >= s.floor {
		s.watched.Gaps = append(s.watched.Gaps, Gap{AtNS: w.dueNS, TookNS: int64(gap)})
	}
}

// limitOwnTime returns how much of the CPU time of wirelab's processes is subtracted from a delay.
// The CPU time includes the sleep, so a gap may be too short but never too long. Processes
// with several CPUs spend a part of it on other CPUs: for them at most three time slices are
// subtracted.
func (s *sentinel) limitOwnTime(own time.Duration) time.Duration {
	const turns = 10 * time.Millisecond // three time slices of up to 3 ms
	if s.of.CPUs > 1 {
		return min(own, turns)
	}
	return own
}

func (s *sentinel) keepLongestGaps() {
	lengths := make([]int64, len(s.watched.Gaps))
	for i, gap := range s.watched.Gaps {
		lengths[i] = gap.TookNS
	}
	slices.Sort(lengths)
	s.floor = time.Duration(lengths[len(lengths)/2] + 1)
	s.watched.Gaps = slices.DeleteFunc(s.watched.Gaps, func(gap Gap) bool { return gap.TookNS < int64(s.floor) })
}
