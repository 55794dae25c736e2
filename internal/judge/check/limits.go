package check

import "wirelab.dev/internal/data/record"

// Limits holds the limits of the checks. DefaultLimits describes each limit; docs/decisions/0006
// has the reasons. The record stores each check's figure and limit beside its verdict.
type Limits struct {
	Saturated, Idle, Behind, Queued, Little, Active, Errors, Edge, Handshakes, Drops, LossP float64
	LateShare, LateFloorNS, Collected, SleptNS, Beside, Stolen                              float64

	Between, Drift, Link, Moved, Others, Apart Bounds
}

// Bounds holds two limits of a figure. A figure above Warning gives a warning. A figure above
// Invalid makes the trial invalid.
type Bounds struct{ Warning, Invalid float64 }

// DefaultLimits returns this version's limits.
func DefaultLimits() Limits {
	return Limits{
		Saturated:   0.95,                                 // CPU share from which a client is saturated
		Idle:        0.5,                                  // CPU share below which a server was mostly idle; then a saturated client is the bottleneck
		Between:     Bounds{Warning: 0.05, Invalid: 0.2},  // share of time that closed-loop clients spend between calls
		Behind:      0.05,                                 // share of the scheduled requests that may still wait to be sent at the window's end
		Queued:      0.01,                                 // share of the scheduled requests that may wait for a free client without a warning
		LateShare:   0.1,                                  // lateness of the load generator, as a share of the service or response time
		LateFloorNS: 20_000,                               // lateness that is always acceptable, in ns
		Little:      0.02,                                 // relative error of Little's law, in addition to calls across the window's edges
		Active:      0.9,                                  // mean share of the clients that should be at work
		Errors:      0.01,                                 // share of the requests that may fail
		Edge:        0.02,                                 // share of the requests whose connection may open just outside of the window
		Handshakes:  0.01,                                 // share of the handshakes that may be of another kind than wanted
		Drops:       0.01,                                 // drops by the kernel per connection or datagram; each costs a second or a round trip
		Link:        Bounds{Warning: 0.1, Invalid: 0.5},   // P99 of the lateness of an emulated link's frames, as a share of its delay: so far it may move a call's P99, and its mean far less
		LossP:       1e-6,                                 // least probability at which lost frames count as chance
		Moved:       Bounds{Warning: 0.1, Invalid: 0.5},   // relative shift of the mean or P99 that pauses of an end may have caused
		Collected:   1.0 / 3,                              // share of the client's CPU time in its garbage collector, from which there is a warning
		SleptNS:     10e6,                                 // sleep that is allowed, in ns, because reading two clocks is inexact
		Others:      Bounds{Warning: 0.05, Invalid: 0.75}, // share of the machine's CPU time that other processes took, if waits and gaps are unknown. One busy CPU of two moves a mean by 1 %, four programs by 8 to 31 %
		Beside:      0.2,                                  // like Others, if gaps are known. Above it, one-client trials took 1.13 to 1.21 times as long
		Stolen:      0.1,                                  // share of the CPU time that the hypervisor gave to other machines, if gaps are unknown: waits leave it out
		Apart:       Bounds{Warning: 0.01, Invalid: 0.05}, // clock error or delay between the windows of a fleet, as a share of the window
		// Relative error of a mean whose window opened too early. The warning is below 5 %, the smallest
		// difference that counts. Above 25 % the mean shows the warm-up.
		Drift: Bounds{Warning: 0.03, Invalid: 0.25},
	}
}

func (b Bounds) level(figure float64) record.Level {
	switch {
	case figure > b.Invalid:
		return record.Invalid
	case figure > b.Warning:
		return record.Warning
	default:
		return record.OK
	}
}

// atLeastWarning returns Invalid for a figure above b.Invalid, and Warning otherwise.
func (b Bounds) atLeastWarning(figure float64) record.Level {
	if figure > b.Invalid {
		return record.Invalid
	}
	return record.Warning
}

// warnAboveZero returns bounds that give a warning for every figure above 0.
func warnAboveZero(invalid float64) Bounds { return Bounds{Invalid: invalid} }
