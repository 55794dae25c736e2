package link

import "time"

// A wake chooses how long before a frame is due a thread should wake, since the kernel
// wakes it late. It learns from each delay.
type wake struct {
	delay int64 // of the path
	late  int64 // what one wake in ten exceeds
}

const (
	// firstLate is assumed until something is known.
	firstLate = int64(60 * time.Microsecond)
	// mostSpin limits the CPU time that a frame may cost: a machine that is later
	// than this is busy, and spinning would take even more of its CPUs.
	mostSpin = int64(200 * time.Microsecond)
	// spinShare limits the lateness without a spin: the delay divided by it. A trial
	// is invalid at a tenth of the delay, at P99.
	spinShare = 100
)

func newWake(delay time.Duration) wake { return wake{delay: int64(delay), late: firstLate} }

// slept learns from a sleep that ended so much later than asked.
func (w *wake) slept(late int64) {
	// Up by nine for each one that is later, down by one for nine that are not: at
	// rest one in ten is later.
	const step = int64(500 * time.Nanosecond)
	if late > w.late {
		w.late += 9 * step
	} else {
		w.late -= step
	}
	w.late = min(max(w.late, 0), mostSpin)
}

// early returns how long before due a frame's thread is to wake, and then to spin.
// Spinning costs a CPU that the trial may need, so it is for delays that a late wake
// would falsify. Where a rate alone makes frames wait, a late one catches up.
func (w *wake) early() int64 {
	if w.delay == 0 || w.late*spinShare < w.delay {
		return 0
	}
	return w.late
}
