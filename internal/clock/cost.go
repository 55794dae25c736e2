package clock

import (
	"math"
	"runtime"
	"time"
)

// stepCosts is the most that the steps of spin are taken to cost; time beyond
// it was someone else's.
type stepCosts struct {
	read  time.Duration // a pass that only reads the clock
	turn  time.Duration // a pass that lets another goroutine run
	yield time.Duration // yielding the CPU, on top of either
}

// costs is measured at start, in less than a millisecond, because its figures
// differ several times between machines.
var costs = measureCosts()

func measureCosts() (measured stepCosts) {
	done := make(chan struct{})
	// Not in this goroutine: during initialisation it is locked to its thread,
	// and each Gosched would cost a change of threads.
	go func() {
		defer close(done)
		measured = stepCosts{
			// Generous, for without a yield only the kernel can step in
			// between, and that is never so short.
			read: 4 * leastCost(func() { Now() }),
			turn: leastCost(func() {
				Now()
				runtime.Gosched()
			}),
			yield: leastCost(yieldCPU),
		}
	}()
	<-done
	return measured
}

// leastCost returns what a step costs at the best of many tries: whatever
// disturbs one makes it longer, never shorter.
func leastCost(step func()) time.Duration {
	const tries, steps = 32, 8
	least := time.Duration(math.MaxInt64)
	for range tries {
		start := Now()
		for range steps {
			step()
		}
		least = min(least, time.Duration(Now()-start)/steps)
	}
	return least
}
