package analysis

import (
	"fmt"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
)

// The curves that may have a knee.
const (
	ByThroughput = "throughput" // where more clients stop paying
	ByTail       = "tail"       // where P99/P50 begins to grow
)

// Knee is where more concurrency stops paying, for one variant and size.
type Knee struct {
	Part       string `json:"part"`
	Variant    string `json:"variant"`
	Connection string `json:"connection"`
	record.Payload
	By      string  `json:"by" jsonschema:"enum=throughput,enum=tail"` // which curve bends: throughput or tail
	Points  int     `json:"-"`                                         // concurrencies with enough valid trials
	Found   bool    `json:"found"`                                     // false: refused, see reason
	Clients *Figure `json:"clients"`                                   // null where not found
	Reason  string  `json:"reason"`
}

// findKnees looks for knees in every curve with at least two concurrencies.
func findKnees(points []*point, seed uint64) []Knee {
	var knees []Knee
	for _, curve := range byClients(points) {
		if len(curve) < 2 {
			continue
		}
		if curve[0].cell.Load.Model == "closed" {
			knees = append(knees, kneeOf(curve, ByThroughput, seed))
		}
		if isMeaningful(curve[0].cell.Load.Model, P99) {
			knees = append(knees, kneeOf(curve, ByTail, seed))
		}
	}
	return knees
}

// kneeOf finds the knee of one curve.
func kneeOf(points []*point, by string, seed uint64) Knee {
	cell := points[0].cell
	knee := Knee{Part: cell.Part, Variant: cell.Variant, Connection: cell.Connection, Payload: cell.Payload, By: by}
	search := stats.KneeSearch{Bend: stats.Flattens, Resampling: stats.Resampling{Seed: seed, Confidence: confidence}}
	of := metrics[Throughput]
	if by == ByTail {
		search.Bend, of = stats.Steepens, metrics[Tail]
	}
	var curve stats.Curve
	tooFewRequests := false
	for _, p := range points {
		figures := knownValues(p.valid(), of)
		tooFewRequests = tooFewRequests || len(figures) < len(p.valid())
		curve.X, curve.Y = append(curve.X, float64(p.cell.Clients)), append(curve.Y, figures)
	}
	curve = curve.WithTrials(LeastTrials)
	knee.Points = len(curve.X)
	if knee.Points < KneePoints {
		knee.Reason = fmt.Sprintf("a knee takes %d concurrencies with %d valid trials each, and %d have them", KneePoints, LeastTrials, knee.Points)
		if tooFewRequests {
			knee.Reason += fmt.Sprintf(", where P99 takes %s requests a trial", units.Thousands(P99Requests))
		}
	} else if found, err := stats.FindKnee(curve, search); err != nil {
		knee.Reason = noKneeReason(curve, by)
	} else {
		knee.Found, knee.Clients = true, new(estimated(found.X))
	}
	return knee
}

// noKneeReason says what the curve does, as the reason why there is no knee.
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
	case greatest == last && at(last) > (1+margin)*at(last-1) && by == ByThroughput:
		return fmt.Sprintf("throughput still grows at %.0f clients, the most with %d valid trials", curve.X[last], LeastTrials)
	case at(greatest) < (1+margin)*at(0):
		return name + " does not grow with the number of clients"
	case greatest < last && at(last) < at(0):
		return fmt.Sprintf("%s is greatest at %.0f clients and falls to less than it was at %.0f", name, curve.X[greatest], curve.X[0])
	}
	return "no bend of " + name + " stands out of the differences between trials"
}
