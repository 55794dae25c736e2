// Package clock reads instants and waits for them, with an error well below a microsecond if the
// machine allows it. An instant is an int64: nanoseconds of CLOCK_MONOTONIC. All processes of a
// machine share this clock, so the instants of a server and a client are comparable.
//
// The package knows nothing of schedules, requests or rates.
package clock

import (
	"math"
	"runtime"
	"sync/atomic"
	"time"
)

// epoch is the moment from which Now counts in this process. epochInstant is the same moment on the
// shared clock. Now returns epochInstant plus the time since epoch, which needs one vDSO read and
// costs a tenth of the system call behind unix.ClockGettime.
var epoch, epochInstant = readEpoch()

// Now returns the present instant. It is safe for concurrent use and never goes backwards. Inside
// a testing/synctest bubble it follows the bubble's clock. Instants of two processes on one
// machine agree to within the cost of a system call (well below 1 µs).
func Now() int64 {
	return epochInstant + int64(time.Since(epoch))
}

// readEpoch reads the kernel's clock between two readings of Go's clock. It tries a few times and
// returns the try with the shortest time between the two readings of Go's clock.
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
	// sleepMargin is the time before the instant at which time.Sleep is not exact enough. The Go
	// runtime hands its timers to epoll_wait in whole milliseconds, so a sleep ends up to 1 ms
	// late.
	sleepMargin = 1500 * time.Microsecond

	// spinMargin is the time before the instant at which any sleep gives way to spinning: a thread
	// that the kernel's timers wake runs some 50 µs late.
	spinMargin = 300 * time.Microsecond

	// yieldInterval is the shortest time between two yields of the CPU by spinning goroutines. A
	// shorter interval wastes CPU time in the kernel. With a longer interval, the network poller's
	// thread waits if it needs the same CPU.
	yieldInterval = 5 * time.Microsecond

	// goschedInterval is the shortest time between two calls of Gosched, while fewer goroutines
	// spin than there are processors. The idle processors run the other goroutines, and each
	// needless Gosched wakes a thread, which costs some 5 µs.
	goschedInterval = 200 * time.Microsecond

	// unchangedReadings is the number of passes that may read the same instant before Until sleeps.
	unchangedReadings = 16
)

// Until returns at the instant, or at once if it has passed. It sleeps first, at the end by a timer of the
// kernel, then spins. It
// returns the CPU time of its spinning, so that a load generator can subtract this time from the
// cost of its requests. That time is too low by a tenth, or by more if many goroutines spin on
// several CPUs. Any number of goroutines may wait at the same time.
//
// Every few microseconds of spinning, Until yields to ready goroutines and ready threads. The Go
// scheduler asks the network poller only if no goroutine is ready, and a spinning goroutine always
// is. On a single CPU, replies would stay unread without the yields to threads.
//
// Inside a testing/synctest bubble only sleeping moves the clock, so Until sleeps to the instant.
func Until(instant int64) (spun time.Duration) {
	remaining := time.Duration(instant - Now())
	if remaining <= 0 {
		return 0
	}
	if remaining > sleepMargin {
		time.Sleep(remaining - sleepMargin)
	}
	if remaining = time.Duration(instant - Now()); remaining > spinMargin && clockMoves() {
		sleepExactly(remaining - spinMargin)
		lastGosched.Store(Now()) // others ran meanwhile
	}
	return spin(instant)
}

// clockMoves reports whether the clock moves by itself: in a bubble it does not.
func clockMoves() bool {
	now := Now()
	for range unchangedReadings {
		if Now() != now {
			return true
		}
	}
	return false
}

func spin(instant int64) (spun time.Duration) {
	// With as many spinners as processors, each must let the others run, or the last one is late.
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
		// If the pass took longer than the limit, other threads used the CPU in the rest of that
		// time.
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
	spinnerCount atomic.Int64 // number of spinning goroutines
	lastGosched  atomic.Int64 // instant of the latest Gosched that goschedInterval limited
	lastYield    atomic.Int64 // instant of the latest yield of the CPU
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
	yield time.Duration // additional CPU time of a pass that yields the CPU
}

// spinCosts is measured at start, in less than a millisecond. The costs of machines differ
// severalfold.
var spinCosts = measureCosts()

func measureCosts() (measured stepCosts) {
	done := make(chan struct{})
	// During initialisation this goroutine is locked to its thread, so a Gosched would change
	// threads.
	go func() {
		defer close(done)
		measured = stepCosts{
			// The factor 4 is safe: only the kernel can interrupt a pass that does not yield, and
			// its interruptions take longer.
			read: 4 * leastCost(Now, func() { Now() }),
			turn: leastCost(Now, func() {
				Now()
				runtime.Gosched()
			}),
			// If other processes are busy, a yield waits for them. So measure its CPU time.
			yield: leastCost(cpuTime, yieldCPU),
		}
	}()
	<-done
	return measured
}

// leastCost returns the smallest cost of a step over some tries. Disturbances only make a step
// longer, so the smallest cost is the best estimate.
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
