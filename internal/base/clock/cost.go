package clock

import (
	"math"
	"runtime"
	"time"
)

// stepCosts limits what the steps of spin count as their own cost; longer times went to
// other threads.
type stepCosts struct {
	read  time.Duration // a pass that only reads the clock
	turn  time.Duration // a pass that lets another goroutine run
	yield time.Duration // yielding the CPU, on top of either
}

// costs is measured at start, in less than a millisecond, because machines differ by a
// factor of several.
var costs = measureCosts()

func measureCosts() (measured stepCosts) {
	done := make(chan struct{})
	// Not in this goroutine: during initialisation it is locked to its thread,
	// and each Gosched would cost a change of threads.
	go func() {
		defer close(done)
		measured = stepCosts{
			// Generous: without a yield only the kernel can interrupt, and
			// never for so short a time.
			read: 4 * leastCost(Now, func() { Now() }),
			turn: leastCost(Now, func() {
				Now()
				runtime.Gosched()
			}),
			// Beside busy processes each yield lasts as long as their turns, so
			// only the CPU time tells its cost.
			yield: leastCost(cpuTime, yieldCPU),
		}
	}()
	<-done
	return measured
}

// leastCost returns the minimum cost of a step over some tries, by that clock:
// disturbances only make a try longer.
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
