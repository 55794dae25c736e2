package check

import "wirelab.dev/internal/data/record"

// Limits holds the limits of the checks. Default describes each; docs/decisions/0006 has the
// reasons. The record stores each check's figure and limit beside its verdict.
type Limits struct {
	Saturated, Idle, Behind, Queued, Little, Active, Errors, Edge, Handshakes, Drops, LossP float64
	LateShare, LateFloorNS, Collected, SleptNS, Beside                                      float64

	Between, Drift, Link, Moved, Stolen, Others, Lost, Apart Bounds
}

// Bounds are two limits: above Warning the result includes the disturbance, above Invalid the
// result is not used.
type Bounds struct{ Warning, Invalid float64 }

// Default returns this version's limits.
func Default() Limits {
	return Limits{
		Saturated:   0.95,                                 // CPU share from which a client can go no faster
		Idle:        0.5,                                  // CPU share below which a server was mostly idle: under a saturated client the figure is then the client's
		Between:     Bounds{Warning: 0.05, Invalid: 0.2},  // share of their time that closed-loop clients spend outside of calls, in the engine or off the CPU
		Behind:      0.05,                                 // share of the window's arrivals that may still wait to be sent when it closes
		Queued:      0.01,                                 // share of the arrivals that may find no free client without a warning
		LateShare:   0.1,                                  // the generator's own lateness, as a share of the time that includes it
		LateFloorNS: 20_000,                               // lateness that is always acceptable, in ns
		Little:      0.02,                                 // relative error of Little's law, besides straddling calls
		Active:      0.9,                                  // mean share of the clients that should be at work
		Errors:      0.01,                                 // share of the requests that may fail
		Edge:        0.02,                                 // share of the requests whose connection may lie on the other side of an edge of the window
		Handshakes:  0.01,                                 // share of the handshakes that may be of another kind than wanted
		Drops:       0.01,                                 // connections or datagrams per request that the kernel may drop: one costs a second or a round trip, so the tail shows it first
		Link:        Bounds{Warning: 0.05, Invalid: 0.1},  // an emulated link's own lateness, as a share of its delay
		LossP:       1e-6,                                 // least probability that a correct link loses the counted number of frames
		Moved:       Bounds{Warning: 0.1, Invalid: 0.5},   // relative shift of the mean or P99 that pauses of an end may have caused
		Collected:   1.0 / 3,                              // share of the client's CPU time from which its garbage collector is mentioned, with default settings
		SleptNS:     10e6,                                 // apparent sleep that is allowed, in ns: the jitter of reading two clocks
		Stolen:      Bounds{Warning: 0.02, Invalid: 0.1},  // share of the machine's CPU time that the hypervisor gave to other machines
		Others:      Bounds{Warning: 0.05, Invalid: 0.5},  // share of the machine's CPU time that other processes took
		Beside:      0.2,                                  // replaces Others if the ends' gaps are known: above it, trials with one client ran 1.13 to 1.21 times slower
		Lost:        Bounds{Warning: 0.05, Invalid: 0.25}, // share of its CPUs that a worker lost while it only spun
		Apart:       Bounds{Warning: 0.01, Invalid: 0.05}, // share of the window by which a fleet's clocks may be off, or its windows may have opened apart
		// Relative error of a mean whose window opened too early. The warning is below 5 %, from
		// which a difference counts. A mean that differs by a quarter from the settled window's
		// mean measures the warm-up instead.
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

// atLeastWarning returns the level of a disturbance that always deserves a warning.
func (b Bounds) atLeastWarning(figure float64) record.Level {
	if figure > b.Invalid {
		return record.Invalid
	}
	return record.Warning
}

// anyUpTo returns the bounds of an event that should not occur: one occurrence is a warning.
func anyUpTo(invalid float64) Bounds { return Bounds{Invalid: invalid} }
