package worker

import (
	"time"

	"wirelab.dev/internal/machine/host"
)

// spinTime is how long a worker spins to see what others take of its CPUs: short,
// because every trial does it four times, and longer than a scheduler's slice of a few
// milliseconds.
const spinTime = 10 * time.Millisecond

// Noise is the share of its CPUs that a worker lost to others while it only spun. The
// worker itself spins, because its priority decides what others can take.
type Noise struct {
	LostBefore   float64 `json:"lost_before"` // shares of the spin
	LostAfter    float64 `json:"lost_after"`
	LargestGapNS int64   `json:"largest_gap_ns"`
}

// Plus returns the worse of both.
func (n Noise) Plus(other Noise) Noise {
	n.LostBefore, n.LostAfter = max(n.LostBefore, other.LostBefore), max(n.LostAfter, other.LostAfter)
	n.LargestGapNS = max(n.LargestGapNS, other.LargestGapNS)
	return n
}

// spinBefore measures the noise before the work; spinAfter adds the noise after it. The
// result is nil if no CPU could be spun on.
func spinBefore() *Noise {
	spun := host.Calibrate(nil, spinTime)
	if spun.CPUs == 0 {
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

// allowance returns what the kernel let a process of this worker use, or nil.
func allowance(pid int) *host.Allowance {
	a, err := host.AllowanceOf(pid)
	if err != nil {
		return nil
	}
	return &a
}
