package worker

import (
	"time"

	"wirelab.dev/internal/host"
)

// spinTime is how long a worker spins to see what others take of its CPUs:
// short, because every trial pays for it four times, and long enough to meet a
// scheduler's slice of a few milliseconds.
const spinTime = 10 * time.Millisecond

// Noise is what a worker lost of its own CPUs while it did nothing but spin. It
// is the worker that spins, and not whoever started it, because its priority
// decides what others can take.
type Noise struct {
	LostBefore   float64 `json:"lost_before"` // shares of the spin
	LostAfter    float64 `json:"lost_after"`
	LargestGapNS int64   `json:"largest_gap_ns"`
}

// spinBefore begins a noise; spinAfter completes it. It is nil, and not zero,
// where no CPU could be spun.
func spinBefore() *Noise {
	spun := host.Calibrate(nil, spinTime)
	if len(spun.CPUs) == 0 {
		return nil
	}
	return &Noise{LostBefore: spun.LostShare, LargestGapNS: int64(spun.LargestGap)}
}

func (n *Noise) spinAfter() {
	if n == nil {
		return
	}
	spun := host.Calibrate(nil, spinTime)
	n.LostAfter = spun.LostShare
	n.LargestGapNS = max(n.LargestGapNS, int64(spun.LargestGap))
}
