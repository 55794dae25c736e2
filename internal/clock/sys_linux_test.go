package clock

import (
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
			var waiters sync.WaitGroup
			spuns := make([]time.Duration, test.spinners)
			before := processCPU(t)
			end := Now() + int64(60*time.Millisecond)
			for i := range spuns {
				waiters.Go(func() { spuns[i] = spin(end) })
			}
			waiters.Wait()
			charged := processCPU(t) - before
			var spun time.Duration
			for _, s := range spuns {
				spun += s
			}
			ratio := float64(spun) / float64(charged)
			t.Logf("spun %v, charged %v, ratio %.2f", spun, charged, ratio)
			if ratio < test.least || ratio > test.most {
				t.Errorf("the spinners say %v, the kernel %v: want a ratio from %v to %v", spun, charged, test.least, test.most)
			}
		})
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
