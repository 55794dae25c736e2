package lab

import (
	"fmt"

	"wirelab.dev/internal/record"
)

// The limits of the checks; docs/decisions/0006 says why these. Each check's
// figure and limit stand in the record, so that a reader may hold them to other
// limits.
const (
	// A client that has this much of its CPUs busy cannot go faster.
	saturated = 0.95
	// A server less busy than this, under a saturated client, was idle for
	// more than half of the time: the figure is then the client's.
	idle = 0.5
	// The share of their time that closed-loop clients may spend outside of
	// calls, in the engine or off the CPU.
	betweenWarning, betweenInvalid = 0.05, 0.20
	// The share of the window's arrivals that may still wait to be sent when
	// it closes.
	behindInvalid = 0.05
	// The share of arrivals that may find no free client without a word.
	queuedWarning = 0.01
	// The generator's own lateness, as a share of what it is part of, and the
	// absolute value below which it never matters.
	lateShare, lateFloorNS = 0.10, 20_000
	littleLimit            = 0.02
	errorsInvalid          = 0.01
	stolenWarning          = 0.02
	stolenInvalid          = 0.10
	othersWarning          = 0.05
	othersInvalid          = 0.50
	lostWarning            = 0.05
	lostInvalid            = 0.25
	unevenWarning          = 0.90
	// The share of the requests whose connection may lie on the other side of
	// an edge of the window.
	edgeShare = 0.02
	// The share of the handshakes that may be of another kind than asked for.
	handshakesInvalid = 0.01
	// Connections and datagrams that the kernel dropped, a request: one costs
	// a second, or a round trip, and so shows in the tail first.
	dropsInvalid = 0.01
	// An emulated link's own lateness, as a share of its delay.
	linkWarning, linkInvalid = 0.05, 0.10
)

// Judge checks whether a trial may be believed. It is a pure function of the
// record, so that old records can be judged again.
func Judge(r *record.Record) []record.Check {
	if r.Failure != "" {
		return []record.Check{{Name: "measured", Level: record.Invalid, Detail: r.Failure}}
	}
	return []record.Check{
		excuseCollapse(r, generatorBound(r)),
		schedule(r),
		littlesLaw(r),
		evenness(r),
		connections(r),
		limits(r),
		emulation(r),
		failures(r),
		settled(r),
		neighbours(r),
		share("stolen-cpu", "the hypervisor gave %s of the CPU time to others", r.Host.StolenShare, stolenWarning, stolenInvalid),
		share("noise", "a worker that only spun, before or after, lost %s of its CPU to others", worse(r.Host.LostBefore, r.Host.LostAfter), lostWarning, lostInvalid),
	}
}

// spoiledByMachine tells whether a trial is invalid for what others did on the
// machine meanwhile, and for nothing else, and what that was.
func spoiledByMachine(r *record.Record) (why string, spoiled bool) {
	for _, c := range r.Checks {
		if c.Level != record.Invalid {
			continue
		}
		switch c.Name {
		case "neighbours", "stolen-cpu", "noise":
			why, spoiled = c.Detail, true
		default:
			return "", false
		}
	}
	return why, spoiled
}

// neighbours asks what other processes took of the machine.
func neighbours(r *record.Record) record.Check {
	c := share("neighbours", "other processes took %s of the CPU time", r.Host.OthersShare, othersWarning, othersInvalid)
	if r.Cell.Target != "" && r.Host.OthersShare != nil {
		c.Level = record.Unknown
		c.Detail += ", the server at " + r.Cell.Target + " among them if it is on this machine"
	}
	return c
}

// share judges a share that the machine lost.
func share(name, words string, figure *float64, warning, invalid float64) record.Check {
	c := record.Check{Name: name, Level: record.Unknown, Unit: "share", Limit: &invalid, Detail: "not known on this machine"}
	if figure == nil {
		return c
	}
	c.Level, c.Figure = level(*figure, warning, invalid), figure
	c.Detail = fmt.Sprintf(words, percent(*figure))
	return c
}

func level(figure, warning, invalid float64) record.Level {
	switch {
	case figure > invalid:
		return record.Invalid
	case figure > warning:
		return record.Warning
	default:
		return record.OK
	}
}

func worse(a, b *float64) *float64 {
	if a == nil || b != nil && *b > *a {
		return b
	}
	return a
}

func pointer(v float64) *float64 { return &v }

func percent(v float64) string { return fmt.Sprintf("%.3g %%", 100*v) }
