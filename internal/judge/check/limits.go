package check

import "wirelab.dev/internal/data/record"

// Limits holds the limits of the checks; docs/decisions/0006 gives the reasons. The
// record has each check's figure and limit beside its verdict.
type Limits struct {
	// Saturated is the share of its CPUs at which a client can go no faster.
	Saturated float64
	// Idle is the share of its CPUs below which a server was idle for most of the
	// time. Under a saturated client the figure is then the client's.
	Idle float64
	// Between is the share of their time that closed-loop clients may spend
	// outside of calls, in the engine or off the CPU.
	Between Bounds
	// Behind is the share of the window's arrivals that may still wait to be
	// sent when it closes.
	Behind float64
	// Queued is the share of arrivals that may find no free client without a
	// warning.
	Queued float64
	// LateShare is the generator's own lateness, as a share of the time that it
	// is part of; LateFloorNS is the lateness that never matters.
	LateShare, LateFloorNS float64
	// Little is the relative error that Little's law may have, without what straddling
	// calls explain.
	Little float64
	// Active is the mean share of the clients that should be at work.
	Active float64
	// Drift is the relative error that the mean may have because the window opened too
	// early.
	Drift Bounds
	// Errors is the share of the requests that may fail.
	Errors float64
	// Edge is the share of the requests whose connection may lie on the other
	// side of an edge of the window.
	Edge float64
	// Handshakes is the share of the handshakes that may be of another kind
	// than was asked for.
	Handshakes float64
	// Drops is the number of connections or datagrams per request that the kernel may drop.
	// One costs a second, or a round trip, and so shows in the tail first.
	Drops float64
	// Link is an emulated link's own lateness, as a share of its delay.
	Link Bounds
	// LossP is the least probability that a correct link loses the counted number of frames.
	LossP float64
	// Moved is the relative shift of the mean or P99 that pauses of an end may have
	// caused.
	Moved Bounds
	// Collected is the share of the client's CPU time above which the garbage collector,
	// with its default settings, is mentioned.
	Collected float64
	// SleptNS is the time for which the machine may seem to have slept: the jitter of
	// reading two clocks.
	SleptNS float64
	// Stolen is the share of the machine's CPU time that the hypervisor gave to other
	// machines, Others the share that other processes took.
	Stolen, Others Bounds
	// Beside replaces Others if the ends' gaps are known: above it, trials with one client
	// ran 1.13 to 1.21 times slower.
	Beside float64
	// Lost is the share of its CPUs that a worker lost while it only spun.
	Lost Bounds
	// Apart is the share of the window by which a fleet's clocks may be off, or its windows
	// may have opened apart.
	Apart Bounds
}

// Bounds are two limits: above Warning the disturbance is part of the result, above Invalid
// the result is not used.
type Bounds struct{ Warning, Invalid float64 }

// Default returns this version's limits.
func Default() Limits {
	return Limits{
		Saturated:   0.95,
		Idle:        0.5,
		Between:     Bounds{Warning: 0.05, Invalid: 0.20},
		Behind:      0.05,
		Queued:      0.01,
		LateShare:   0.10,
		LateFloorNS: 20_000,
		Little:      0.02,
		Active:      0.90,
		Errors:      0.01,
		Edge:        0.02,
		Handshakes:  0.01,
		Drops:       0.01,
		Link:        Bounds{Warning: 0.05, Invalid: 0.10},
		LossP:       1e-6,
		Moved:       Bounds{Warning: 0.10, Invalid: 0.50},
		Collected:   1.0 / 3,
		SleptNS:     10e6,
		Stolen:      Bounds{Warning: 0.02, Invalid: 0.10},
		Others:      Bounds{Warning: 0.05, Invalid: 0.50},
		Beside:      0.20,
		Lost:        Bounds{Warning: 0.05, Invalid: 0.25},
		Apart:       Bounds{Warning: 0.01, Invalid: 0.05},
		// A warning is below the 5 % from which a difference counts. A mean that is a
		// quarter off that of the settled window shows the warm-up instead.
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

// anyUpTo returns the bounds of an event that should not occur: any occurrence is a warning.
func anyUpTo(invalid float64) Bounds { return Bounds{Invalid: invalid} }
