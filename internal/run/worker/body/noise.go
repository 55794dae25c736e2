package body

import (
	"time"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/worker"
)

// spinTime is the time that a worker spins to see what others take of its CPUs: short,
// because every trial does it four times, and longer than a scheduler's slice of a few
// milliseconds.
const spinTime = 10 * time.Millisecond

// spinBefore measures the noise before the work; spinAfter adds the noise after it. The
// result is nil if no CPU could be spun on.
func spinBefore() *worker.Noise {
	spun := host.Calibrate(nil, spinTime)
	if spun.CPUs == 0 {
		return nil
	}
	return &worker.Noise{LostBefore: spun.LostShare, LargestGapNS: int64(spun.LargestGap)}
}

func spinAfter(n *worker.Noise) {
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
