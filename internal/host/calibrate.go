package host

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"time"
)

// Noise says how much of their CPUs busy-looping threads lost to others.
type Noise struct {
	// LostShare is the mean over the CPUs, 0 to 1, of the time that went to
	// other processes: what the process's own threads took is left out.
	LostShare float64 `json:"lost_share"`
	// LargestGap is the longest time for which a thread lost its CPU.
	LargestGap time.Duration `json:"largest_gap_ns"`
	CPUs       []CPUNoise    `json:"cpus"`
	Warnings   []string      `json:"warnings,omitempty"`
}

// CPUNoise is the noise of one CPU over Elapsed: the gaps in which its thread did
// not run, whatever ran instead.
type CPUNoise struct {
	CPU        int           `json:"cpu"`
	Elapsed    time.Duration `json:"elapsed_ns"`
	Lost       time.Duration `json:"lost_ns"`
	LargestGap time.Duration `json:"largest_gap_ns"`

	away time.Duration // Elapsed less the thread's CPU time
}

// gapThreshold tells a lost CPU from a slow clock read: two reads are some 50 ns
// apart, and a timer interrupt takes 1 to 3 µs.
const gapThreshold = 2 * time.Microsecond

// Calibrate runs a busy loop for d on each of the CPUs; nil means all that the
// process may use. It measures up to GOMAXPROCS CPUs at once, and then the next
// ones. The result depends on the process's priority.
//
// A gap does not say who ran instead: in a new process with one CPU, Go's monitor
// thread takes a tenth of it. So the lost share is computed from CPU times, and
// leaves out what the process's other threads used.
func Calibrate(cpus []int, d time.Duration) Noise {
	if cpus == nil {
		cpus, _ = allowedCPUs() // on an error there is nothing to pin to either
	}
	var noise Noise
	own := processCPU()
	for batch := range slices.Chunk(cpus, runtime.GOMAXPROCS(0)) {
		results := make([]CPUNoise, len(batch))
		refusals := make([]error, len(batch))
		var spinning sync.WaitGroup
		for i, cpu := range batch {
			spinning.Go(func() {
				refusals[i] = OnDisposableThread(func() error {
					if err := pinThread([]int{cpu}); err != nil {
						return err
					}
					before := threadCPU()
					results[i] = spin(d)
					results[i].away = results[i].Elapsed - (threadCPU() - before)
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
	noise.summarise(processCPU() - own)
	return noise
}

// summarise computes the totals. process is the CPU time that the whole process
// used meanwhile.
func (n *Noise) summarise(process time.Duration) {
	var elapsed, away, spun time.Duration
	for _, cpu := range n.CPUs {
		elapsed += cpu.Elapsed
		away += cpu.away
		spun += cpu.Elapsed - cpu.away
		n.LargestGap = max(n.LargestGap, cpu.LargestGap)
	}
	if elapsed > 0 {
		others := max(0, away-max(0, process-spun))
		n.LostShare = float64(others) / float64(elapsed)
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
