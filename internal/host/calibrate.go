package host

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Noise is what a spinning thread, which never gives its CPU up, lost of it.
type Noise struct {
	// LostShare is the mean over the CPUs, 0 to 1.
	LostShare float64 `json:"lost_share"`
	// LargestGap is the longest that any CPU was away.
	LargestGap time.Duration `json:"largest_gap_ns"`
	CPUs       []CPUNoise    `json:"cpus"`
	Warnings   []string      `json:"warnings,omitempty"`
}

// CPUNoise is the noise of one CPU over Elapsed.
type CPUNoise struct {
	CPU        int           `json:"cpu"`
	Elapsed    time.Duration `json:"elapsed_ns"`
	Lost       time.Duration `json:"lost_ns"`
	LargestGap time.Duration `json:"largest_gap_ns"`
}

// gapThreshold separates a CPU taken away from a slow clock read: two reads
// lie some 50 ns apart, and a timer interrupt takes 1 to 3 µs.
const gapThreshold = 2 * time.Microsecond

// Calibrate spins for d on each of the CPUs, nil for all that the process may
// use, and sums the gaps above 2 µs. CPUs run side by side, at most GOMAXPROCS
// of them; the others follow, d each. The process should be idle otherwise, as
// its own threads and collector count as noise; and what others take depends on
// its priority.
func Calibrate(cpus []int, d time.Duration) Noise {
	if cpus == nil {
		cpus, _ = allowedCPUs() // where they are not known none can be pinned to either
	}
	var noise Noise
	for batch := range slices.Chunk(cpus, runtime.GOMAXPROCS(0)) {
		results := make([]CPUNoise, len(batch))
		refusals := make([]error, len(batch))
		var spinning sync.WaitGroup
		for i, cpu := range batch {
			spinning.Go(func() {
				refusals[i] = onDoomedThread(func() error {
					if err := pinThread([]int{cpu}); err != nil {
						return err
					}
					results[i] = spin(d)
					results[i].CPU = cpu
					return nil
				})
			})
		}
		spinning.Wait()
		for i, refusal := range refusals {
			if refusal != nil {
				noise.Warnings = append(noise.Warnings, fmt.Sprintf("CPU %d not calibrated: %v", batch[i], refusal))
				continue
			}
			noise.CPUs = append(noise.CPUs, results[i])
		}
	}
	noise.summarise()
	return noise
}

func (n *Noise) summarise() {
	for _, cpu := range n.CPUs {
		n.LostShare += float64(cpu.Lost) / float64(cpu.Elapsed) / float64(len(n.CPUs))
		n.LargestGap = max(n.LargestGap, cpu.LargestGap)
	}
}

func spin(d time.Duration) CPUNoise {
	var noise CPUNoise
	start := time.Now()
	for noise.Elapsed < d {
		now := time.Since(start)
		if gap := now - noise.Elapsed; gap > gapThreshold {
			noise.Lost += gap
			noise.LargestGap = max(noise.LargestGap, gap)
		}
		noise.Elapsed = now
	}
	return noise
}
