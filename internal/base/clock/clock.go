// Package clock reads instants and waits for them, with an error well below a microsecond if the
// machine allows it. An instant is an int64: nanoseconds of CLOCK_MONOTONIC, which all processes
// of a machine share, so that a server's instants can be compared with a client's.
//
// The package knows nothing of schedules, requests or rates.
package clock

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// epoch is the moment from which Now counts in this process; epochInstant is the same moment on
// the shared clock. Go keeps CLOCK_MONOTONIC inside time.Time, so adding the two costs one vDSO
// read, a tenth of the system call behind unix.ClockGettime.
var epoch, epochInstant = readEpoch()

// Now returns the present instant. It is safe for concurrent use, never goes backwards, and
// inside a testing/synctest bubble follows the bubble's clock. Instants of two processes on one
// machine agree to within the cost of a system call (well below 1 µs).
func Now() int64 {
	return epochInstant + int64(time.Since(epoch))
}

// readEpoch pairs Go's reading of the clock with the kernel's, which it takes between two of Go's.
// Of a few tries it keeps the one with the shortest time between Go's two readings.
func readEpoch() (time.Time, int64) {
	const tries = 16
	var (
		best     time.Time
		instant  int64
		narrowed = time.Duration(math.MaxInt64)
	)
	for range tries {
		before := time.Now()
		shared := sharedNow()
		width := time.Since(before)
		if width < narrowed {
			best, instant, narrowed = before, shared-int64(width/2), width
		}
	}
	return best, instant
}

const (
	// sleepMargin is the time before the instant at which sleeping gives way to spinning. The Go
	// runtime hands its timers to epoll_wait in whole milliseconds, so a sleep ends up to 1 ms
	// late.
	sleepMargin = 1500 * time.Microsecond

	// yieldInterval is the shortest time between two yields of the CPU, by all spinning goroutines
	// together. A shorter one wastes CPU in the kernel; with a longer one, the network poller's
	// thread waits where it shares the CPU.
	yieldInterval = 5 * time.Microsecond

	// goschedInterval is the same for yields to other goroutines, while fewer goroutines spin than
	// there are processors. Another processor takes over the work behind a spinner, while a
	// Gosched beside an idle processor wakes a thread for nothing, some 5 µs each time.
	goschedInterval = 200 * time.Microsecond

	// unchangedReadings is the number of passes that may read the same instant before Until
	// sleeps.
	unchangedReadings = 16
)

// Until returns at the instant, or at once if it has passed: it sleeps first, then spins. It
// returns the CPU time of its own spinning, so that a load generator can subtract pacing from
// the cost of its requests; the figure is too low by a tenth, and by more if many goroutines
// spin on several CPUs. Any number of goroutines may wait at the same time.
//
// Spinning yields, every few microseconds, to ready goroutines and to ready threads. The threads
// matter because the Go scheduler asks the network poller only where no goroutine is ready,
// which a spinning one always is; on a single CPU replies would lie unread.
//
// Inside a testing/synctest bubble, where only sleeping moves the clock, it sleeps to the
// instant.
func Until(instant int64) (spun time.Duration) {
	remaining := time.Duration(instant - Now())
	if remaining <= 0 {
		return 0
	}
	if remaining > sleepMargin {
		time.Sleep(remaining - sleepMargin)
	}
	return spin(instant)
}

// spin spins until the instant and returns the CPU time that it took.
func spin(instant int64) (spun time.Duration) {
	// With as many spinners as processors, each yields its turn; otherwise the last would be late.
	processors := int64(runtime.GOMAXPROCS(0))
	spinnerCount.Add(1)
	defer spinnerCount.Add(-1)

	motionless := 0
	for now := Now(); now < instant; {
		limit := spinCosts.read
		if spinnerCount.Load() >= processors || claimInterval(&lastGosched, now, goschedInterval) {
			runtime.Gosched()
			limit = spinCosts.turn
		}
		if claimInterval(&lastYield, now, yieldInterval) {
			yieldCPU()
			limit += spinCosts.yield
		}
		previous := now
		now = Now()
		// Other threads had the CPU for the time of a pass beyond its own cost.
		spun += min(time.Duration(now-previous), limit)
		if now != previous {
			motionless = 0
		} else if motionless++; motionless == unchangedReadings {
			time.Sleep(time.Duration(instant - now))
			return spun
		}
	}
	return spun
}

// State that the spinning goroutines of the process share.
var (
	spinnerCount atomic.Int64 // how many there are
	lastGosched  atomic.Int64 // instant at which one of them last rationed a Gosched
	lastYield    atomic.Int64 // instant at which one of them last yielded the CPU
)

// claimInterval reports whether the caller is the first to notice that the interval has passed.
func claimInterval(last *atomic.Int64, now int64, interval time.Duration) bool {
	done := last.Load()
	return now-done >= int64(interval) && last.CompareAndSwap(done, now)
}

// stepCosts holds the CPU cost of each step of spin. Longer steps include time of other threads.
type stepCosts struct {
	read  time.Duration // a pass that only reads the clock
	turn  time.Duration // a pass that lets another goroutine run
	yield time.Duration // yielding the CPU, on top of either
}

// spinCosts is measured at start, in less than a millisecond: machines differ severalfold.
var spinCosts = measureCosts()

func measureCosts() (measured stepCosts) {
	done := make(chan struct{})
	// During initialisation this goroutine is locked to its thread: a Gosched would change it.
	go func() {
		defer close(done)
		measured = stepCosts{
			// The factor 4 is safe: without a yield only the kernel can interrupt the pass, and its
			// interruptions take longer.
			read: 4 * leastCost(Now, func() { Now() }),
			turn: leastCost(Now, func() {
				Now()
				runtime.Gosched()
			}),
			// Beside busy processes a yield lasts as long as their turns: only its CPU time shows its
			// cost.
			yield: leastCost(cpuTime, yieldCPU),
		}
	}()
	<-done
	return measured
}

// leastCost returns the smallest cost of a step over some tries: disturbances only make a step
// longer.
func leastCost(now func() int64, step func()) time.Duration {
	const tries, steps = 16, 8
	least := time.Duration(math.MaxInt64)
	for range tries {
		start := now()
		for range steps {
			step()
		}
		least = min(least, time.Duration(now()-start)/steps)
	}
	return least
}
