package host

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// A Noise holds the share of their CPUs that busy-looping threads lost to other programs.
type Noise struct {
	CPUs int // how many had such a thread
	// LostShare is the mean over the CPUs, 0 to 1, of the time that went to
	// other processes: what the process's own threads took is left out.
	LostShare float64
	// LargestGap is the longest time for which a thread did not run, whatever ran
	// instead.
	LargestGap time.Duration
	Warnings   []string
}

// Calibrate runs a busy loop for d on each of the CPUs; nil means all that the
// process may use. It measures up to GOMAXPROCS CPUs at once, and then the next
// ones. The result depends on the process's priority.
//
// A gap does not say who ran instead: in a new process with one CPU, Go's monitor
// thread takes a tenth of it. So the lost share is computed from CPU times, without
// the time of the process's other threads.
func Calibrate(cpus []int, d time.Duration) Noise {
	if cpus == nil {
		cpus, _ = allowedCPUs() // on an error there is nothing to pin to either
	}
	var noise Noise
	var elapsed, spun time.Duration
	before := processCPU()
	for batch := range slices.Chunk(cpus, runtime.GOMAXPROCS(0)) {
		loops := make([]busyLoop, len(batch))
		refusals := make([]error, len(batch))
		var running sync.WaitGroup
		for i, cpu := range batch {
			running.Go(func() {
				refusals[i] = OnDisposableThread(func() error { return loops[i].run(cpu, d) })
			})
		}
		running.Wait()
		for i, refusal := range refusals {
			if refusal != nil {
				noise.Warnings = append(noise.Warnings, fmt.Sprintf("CPU %d not calibrated: %v", batch[i], refusal))
				continue
			}
			noise.CPUs++
			noise.LargestGap = max(noise.LargestGap, loops[i].largestGap)
			elapsed += loops[i].elapsed
			spun += loops[i].used
		}
	}
	if elapsed > 0 {
		ownOthers := max(0, processCPU()-before-spun)
		noise.LostShare = max(0, float64(elapsed-spun-ownOthers)/float64(elapsed))
	}
	return noise
}

// gapThreshold separates a lost CPU from a slow clock read: two reads are some 50 ns
// apart, and a timer interrupt takes 1 to 3 µs.
const gapThreshold = 2 * time.Microsecond

// A busyLoop holds the measurements of a thread that only read the clock.
type busyLoop struct{ elapsed, used, largestGap time.Duration }

// run pins the calling thread, which is not used afterwards, and loops for d.
func (l *busyLoop) run(cpu int, d time.Duration) error {
	if err := pinThread([]int{cpu}); err != nil {
		return err
	}
	before, start := threadCPU(), time.Now()
	for l.elapsed < d {
		now := time.Since(start)
		if gap := now - l.elapsed; gap > gapThreshold {
			l.largestGap = max(l.largestGap, gap)
		}
		l.elapsed = now
	}
	l.used = threadCPU() - before
	return nil
}
