package clock

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Two processes can only share instants when Now is the kernel's own count.
func TestNowIsTheSharedClock(t *testing.T) {
	for range 1000 {
		// A lost time slice between the readings widens the bracket, and cannot
		// fail the test: the shared reading must only lie inside it.
		const exactness = 2 * time.Microsecond
		before, shared, after := Now(), sharedNow(), Now()
		if shared < before-int64(exactness) || shared > after+int64(exactness) {
			t.Fatalf("the kernel reads %d, outside [%d, %d]", shared, before, after)
		}
	}
}

// The kernel's CPU time is the truth: the spinners' own sum must never be much above what
// the process was charged. It may be below: beside busy processes each yield is a switch, and in a crowd the spinners of several CPUs wait for each other
// inside the Go scheduler. Until leaves out both. A spinner that loses its CPU
// between two readings of the clock counts too much; a fault would do so each time.
func TestSpunAgreesWithTheKernel(t *testing.T) {
	for _, test := range []struct {
		name     string
		spinners int
		most     float64
	}{
		{"alone", 1, 1.15},
		{"crowd", 8, 1.25},
	} {
		t.Run(test.name, func(t *testing.T) {
			for try := 1; ; try++ {
				spun, charged := spinTogether(t, test.spinners)
				if ratio := float64(spun) / float64(charged); spun > 0 && ratio <= test.most {
					return
				}
				if try == 30 {
					t.Fatalf("the spinners say %v, the kernel %v: want more than nothing, and a ratio of at most %v", spun, charged, test.most)
				}
			}
		})
	}
}

func spinTogether(t *testing.T, spinners int) (spun, charged time.Duration) {
	t.Helper()
	var waiters sync.WaitGroup
	spuns := make([]time.Duration, spinners)
	before := cpuTime()
	end := Now() + int64(60*time.Millisecond)
	for i := range spuns {
		waiters.Go(func() { spuns[i] = spin(end) })
	}
	waiters.Wait()
	for _, s := range spuns {
		spun += s
	}
	return spun, time.Duration(cpuTime() - before)
}

// A goroutine that becomes ready must run while others spin, even where a single thread
// runs them all. Without turns each spinner keeps the thread for the 10 ms after which
// the Go runtime takes it away, so that the rounds take 16 s of CPU time.
func TestSpinnersLetOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const spinners, rounds, most = 8, 200, 2 * time.Second
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		for range ping {
			pong <- struct{}{}
		}
	}()
	defer close(ping)

	var stop atomic.Bool
	var waiters sync.WaitGroup
	for range spinners {
		waiters.Go(func() {
			for !stop.Load() {
				spin(Now() + int64(50*time.Millisecond))
			}
		})
	}
	start := cpuTime()
	for range rounds {
		ping <- struct{}{}
		<-pong
		runtime.Gosched() // all spinners are before the next round
	}
	took := time.Duration(cpuTime() - start)
	stop.Store(true)
	waiters.Wait()
	if took > most {
		t.Errorf("%d rounds beside %d spinners took %v of CPU time, want at most %v", rounds, spinners, took, most)
	}
}

// Waiting for an instant that is too near for time.Sleep must leave most of the CPU free. Neighbours only make the
// time of spinning shorter, or a wake-up late; a fault spins almost all the time in every try.
func TestUntilSleepsWhileTheInstantIsNear(t *testing.T) {
	const near, most = sleepMargin - 100*time.Microsecond, 2 * spinMargin
	var all []time.Duration
	for range 30 {
		spun := Until(Now() + int64(near))
		if spun <= most {
			return
		}
		all = append(all, spun)
	}
	t.Errorf("waits of %v spun for %v, want at most %v", near, all, most)
}

// More waiters than there are timers wait, too, and each timer is used again.
func TestManyWaitForANearInstant(t *testing.T) {
	for range 3 {
		var waiters sync.WaitGroup
		for range 2 * maxTimers {
			waiters.Go(func() {
				instant := Now() + int64(time.Millisecond)
				if Until(instant); Now() < instant {
					t.Error("a waiter returned early")
				}
			})
		}
		waiters.Wait()
	}
	if idle := len(idleTimers); idle != maxTimers {
		t.Errorf("%d timers are idle, want %d", idle, maxTimers)
	}
}
