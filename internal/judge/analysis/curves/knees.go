// Package curves follows a figure along an axis of the matrix: where more clients stop
// paying, where one variant overtakes another as messages grow, what keeps throughput from
// following the calls in flight, and when trials became steady.
//
// It must not know how two variants are compared at one place.
package curves

import (
	"fmt"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The curves that may have a knee.
const (
	ByThroughput = "throughput" // where more clients stop paying
	ByTail       = "tail"       // where P99/P50 begins to grow
)

// A Knee is the number of clients from which more of them stop paying, for one variant and
// size.
type Knee struct {
	Part       string `json:"part"`
	Variant    string `json:"variant"`
	Connection string `json:"connection"`
	record.Payload
	By      string         `json:"by" jsonschema:"enum=throughput,enum=tail"` // which curve bends: throughput or tail
	Points  int            `json:"-"`                                         // concurrencies with enough valid trials
	Found   bool           `json:"found"`                                     // false: refused, see reason
	Clients *matrix.Figure `json:"clients"`                                   // null if not found
	Reason  string         `json:"reason"`
}

// FindKnees looks for knees in every curve with at least two concurrencies.
func FindKnees(points []*matrix.Point, seed uint64) []Knee {
	var knees []Knee
	for _, curve := range matrix.ByClients(points) {
		if len(curve) < 2 {
			continue
		}
		if curve[0].Cell.Load.Model == "closed" {
			knees = append(knees, kneeOf(curve, ByThroughput, seed))
		}
		if matrix.IsMeaningful(curve[0].Cell.Load.Model, matrix.P99) {
			knees = append(knees, kneeOf(curve, ByTail, seed))
		}
	}
	return knees
}

// kneeOf finds the knee of one curve.
func kneeOf(points []*matrix.Point, by string, seed uint64) Knee {
	cell := points[0].Cell
	knee := Knee{Part: cell.Part, Variant: cell.Variant, Connection: cell.Connection, Payload: cell.Payload, By: by}
	search := stats.KneeSearch{Bend: stats.Flattens, Resampling: stats.Resampling{Seed: seed, Confidence: matrix.Confidence}}
	of := matrix.Metrics[matrix.Throughput]
	if by == ByTail {
		search.Bend, of = stats.Steepens, matrix.Metrics[matrix.Tail]
	}
	var curve stats.Curve
	tooFewRequests := false
	for _, p := range points {
		figures := matrix.KnownValues(p.Valid(), of)
		tooFewRequests = tooFewRequests || len(figures) < len(p.Valid())
		curve.X, curve.Y = append(curve.X, float64(p.Cell.Clients)), append(curve.Y, figures)
	}
	curve = curve.WithTrials(matrix.LeastTrials)
	knee.Points = len(curve.X)
	if knee.Points < matrix.KneePoints {
		knee.Reason = fmt.Sprintf("a knee takes %d concurrencies with %d valid trials each, and %d have them", matrix.KneePoints, matrix.LeastTrials, knee.Points)
		if tooFewRequests {
			knee.Reason += fmt.Sprintf(", where P99 takes %s requests per trial", units.Thousands(matrix.P99Requests))
		}
	} else if found, err := stats.FindKnee(curve, search); err != nil {
		knee.Reason = noKneeReason(curve, by)
	} else {
		knee.Found, knee.Clients = true, new(matrix.FigureOf(found.X))
	}
	return knee
}

// noKneeReason describes the curve, as the reason why it has no knee.
func noKneeReason(curve stats.Curve, by string) string {
	last := len(curve.X) - 1
	at := func(i int) float64 { return stats.Median(curve.Y[i]) }
	greatest := 0
	for i := range curve.X {
		if at(i) > at(greatest) {
			greatest = i
		}
	}
	name := "throughput"
	if by == ByTail {
		name = "P99/P50"
	}
	switch {
	case greatest == last && at(last) > (1+matrix.Margin)*at(last-1) && by == ByThroughput:
		return fmt.Sprintf("throughput still grows at %.0f clients, the most with %d valid trials", curve.X[last], matrix.LeastTrials)
	case at(greatest) < (1+matrix.Margin)*at(0):
		return name + " does not grow with the number of clients"
	case greatest < last && at(last) < at(0):
		return fmt.Sprintf("%s is greatest at %.0f clients and falls to less than it was at %.0f", name, curve.X[greatest], curve.X[0])
	}
	return "no bend of " + name + " stands out of the differences between trials"
}
