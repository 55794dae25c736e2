package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/check"
)

// A Trial is a record with its times read.
type Trial struct {
	*record.Record
	valid    bool
	level    Level // of the run
	limits   check.Limits
	service  times
	response times // the service times where the record has no others
	wait     times
	// What the connections of the window waited for.
	connect, handshake, firstByte times
	messages                      times
	named                         []times // in the order of the record's
}

// ifOwnClient returns a figure that only wirelab's own client measures, and NaN for
// other clients.
func (t Trial) ifOwnClient(value float64) float64 {
	if t.ClientProgram != "" {
		return math.NaN()
	}
	return value
}

// Number returns a record's number, or NaN if it was not measured.
func Number[N int64 | float64](p *N) float64 {
	if p == nil {
		return math.NaN()
	}
	return float64(*p)
}

// knowsResponse reports whether a record has times from when its calls were due. Other
// programs time calls from their actual send, which is the same only if there was no rate to
// keep.
func knowsResponse(r *record.Record) bool {
	return r.Foreign == nil || r.Response != nil || r.Cell.Load.Model == "closed"
}

// Filter returns the trials for which keep returns true.
func Filter(trials []Trial, keep func(Trial) bool) []Trial {
	var kept []Trial
	for _, t := range trials {
		if keep(t) {
			kept = append(kept, t)
		}
	}
	return kept
}

func hasAll(trials []Trial, has func(Trial) bool) bool {
	return !slices.ContainsFunc(trials, func(t Trial) bool { return !has(t) })
}

// SpoiledByMachine reports whether only other programs on the machine spoiled a trial.
func SpoiledByMachine(r *record.Record) bool {
	_, spoiled := check.SpoiledByMachine(r.Checks)
	return spoiled && r.Probe == ""
}
