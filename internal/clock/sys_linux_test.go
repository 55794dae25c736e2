package clock

import (
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
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

// The truth about CPU time is the kernel's: what spinners say they burned must
// be close to what the process was charged, and never much above it. In a crowd
// the spinners of several CPUs also wait for each other inside the Go scheduler,
// which Until leaves out.
func TestSpunAgreesWithTheKernel(t *testing.T) {
	for _, test := range []struct {
		name        string
		spinners    int
		least, most float64
	}{
		{"alone", 1, 0.75, 1.15},
		{"crowd", 8, 0.05, 1.25},
	} {
		t.Run(test.name, func(t *testing.T) {
			// Beside busy processes each yield is a switch, which the kernel
			// charges and Until leaves out, so the lower bound holds only where
			// the process had a CPU to itself.
			const attempts, ownCPU = 10, 0.9
			best, had := 0.0, 0.0
			for range attempts {
				spun, charged, elapsed := spinTogether(t, test.spinners)
				ratio := float64(spun) / float64(charged)
				t.Logf("spun %v, charged %v in %v, ratio %.2f", spun, charged, elapsed, ratio)
				if ratio > test.most {
					t.Fatalf("the spinners say %v, the kernel %v: want a ratio of at most %v", spun, charged, test.most)
				}
				best, had = max(best, ratio), max(had, float64(charged)/float64(elapsed))
				if best >= test.least {
					return
				}
			}
			if had < ownCPU {
				t.Skipf("lower bound not checked: this process never had more than %.0f %% of a CPU", 100*had)
			}
			t.Errorf("the spinners say at most %.2f of what the kernel says, want %v", best, test.least)
		})
	}
}

func spinTogether(t *testing.T, spinners int) (spun, charged, elapsed time.Duration) {
	t.Helper()
	var waiters sync.WaitGroup
	spuns := make([]time.Duration, spinners)
	start, before := Now(), processCPU(t)
	end := start + int64(60*time.Millisecond)
	for i := range spuns {
		waiters.Go(func() { spuns[i] = spin(end) })
	}
	waiters.Wait()
	for _, s := range spuns {
		spun += s
	}
	return spun, processCPU(t) - before, time.Duration(Now() - start)
}

// A goroutine that becomes ready must run while others spin, even where a
// single thread runs them all.
func TestSpinnersLetOthersRun(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	const spinners = 8
	ping, pong := make(chan struct{}), make(chan struct{})
	go func() {
		for range ping {
			pong <- struct{}{}
		}
	}()
	defer close(ping)

	end := Now() + int64(100*time.Millisecond)
	start := processCPU(t)
	var waiters sync.WaitGroup
	for range spinners {
		waiters.Go(func() { spin(end) })
	}
	// Two goroutines that talk to each other share what is left of a 10 ms time
	// slice, so counting rounds would prove nothing; in how many of the
	// milliseconds there was one at all does. They are milliseconds of this
	// process, for in those of other processes nobody here runs.
	alive := make(map[time.Duration]bool)
	for Now() < end {
		alive[(processCPU(t)-start)/time.Millisecond] = true
		ping <- struct{}{}
		<-pong
	}
	waiters.Wait()
	ran := (processCPU(t) - start) / time.Millisecond
	if want := int(ran) * 6 / 10; len(alive) < want {
		t.Errorf("others ran in %d of %d ms beside %d spinners, want %d", len(alive), ran, spinners, want)
	}
}

func processCPU(t *testing.T) time.Duration {
	t.Helper()
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &reading); err != nil {
		t.Fatalf("reading the process's CPU time: %v", err)
	}
	return time.Duration(reading.Nano())
}
