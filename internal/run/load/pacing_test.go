package load

import (
	"testing"
	"testing/synctest"
	"time"
)

// What makes a request late is told apart: the server, for which it queues, or
// the generator itself.
func TestLatenessIsSplitBetweenServerAndGenerator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := &Arrivals{RatePerSecond: 1000}
		slow := mustRun(t, Plan{
			Callers: callers(1, &server{delay: 5 * time.Millisecond}), Duration: time.Second, Drain: 10 * time.Second, Open: open,
		})
		if late := slow.Late.Max(); late > 10*time.Microsecond {
			t.Errorf("a slow server made the generator late by %v", late)
		}
		within(t, "queued behind a slow server", float64(slow.Pacing.Queued), 999, 0.001)

		own := mustRun(t, Plan{
			Callers: callers(1, slowChecker{takes: 5 * time.Millisecond}), Duration: time.Second, Drain: 10 * time.Second, Open: open,
		})
		within(t, "lateness of a generator that dawdles", own.Late.Quantile(0.5).Seconds(), 0.005, 0.01)
		if own.Late.Count() != own.Requests {
			t.Errorf("%d of %d requests have a lateness", own.Late.Count(), own.Requests)
		}
	})
}

// Arrivals that were due before the window and never sent are not the window's.
func TestABacklogFromBeforeTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(1, &server{delay: 10 * time.Millisecond}), Duration: 500 * time.Millisecond, Drain: 100 * time.Millisecond,
			WarmUp: WarmUp{AtMost: 500 * time.Millisecond}, Open: &Arrivals{RatePerSecond: 10_000},
		})
		within(t, "arrivals of the window", float64(r.Requests+r.Pacing.Unsent), 5000, 0.001)
	})
}

// Every arrival of the window is either measured or unsent, also where the
// drain is cut short while clients are about to send.
func TestNoArrivalIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(7, &server{delay: 3 * time.Millisecond}), Duration: 300 * time.Millisecond, Drain: 100 * time.Millisecond,
			Open: &Arrivals{RatePerSecond: 10_000},
		})
		if r.Requests+r.Pacing.Unsent != 3000 || r.Pacing.Unsent == 0 {
			t.Errorf("%d measured and %d unsent, of 3000", r.Requests, r.Pacing.Unsent)
		}
	})
}

// A trial ends with its window, whether its clients wait for an arrival of the
// far future or always have the next one at hand.
func TestAnOpenLoopEndsWithItsWindow(t *testing.T) {
	for rate, requests := range map[float64]int64{10: 10, 10_000: 10_000} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			r := mustRun(t, Plan{
				Callers: callers(100, &server{delay: time.Millisecond}), Duration: time.Second, Drain: 10 * time.Second,
				WarmUp: WarmUp{AtMost: 200 * time.Millisecond}, Open: &Arrivals{RatePerSecond: rate},
			})
			if took := time.Since(began); took > 1300*time.Millisecond {
				t.Errorf("%v a second: a window of 1 s after a warm-up of 0.2 s took %v", rate, took)
			}
			if r.Requests != requests {
				t.Errorf("%v a second: %d requests, want %d", rate, r.Requests, requests)
			}
		})
	}
}

// The CPU time that pacing burned is subtracted from what the client cost in
// the window, so it must be the window's alone. Noise can only make it less.
func TestSpinningCountsInTheWindowOnly(t *testing.T) {
	const window = 50 * time.Millisecond
	// On a busy machine a client may be late for every instant, and need not spin; or lose its
	// CPU while it does. Not each time: only a fault fails all tries.
	var all []time.Duration
	for range 30 {
		r := mustRun(t, Plan{
			Callers: callers(1, emptyCaller{}), Duration: window, Drain: time.Second,
			WarmUp: WarmUp{AtLeast: 300 * time.Millisecond, AtMost: 300 * time.Millisecond}, Open: &Arrivals{RatePerSecond: 2000},
		})
		spun := time.Duration(r.Pacing.SpunNS)
		if spun > 0 && spun <= window+2*time.Millisecond {
			return
		}
		all = append(all, spun)
	}
	t.Errorf("in windows of %v one client spun for %v", window, all)
}
