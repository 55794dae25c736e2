package curves

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Crossover is the size at which one variant overtakes another as messages grow.
type Crossover struct {
	Part       string        `json:"part"`
	A          string        `json:"a"` // faster below
	B          string        `json:"b"` // faster above
	Clients    int           `json:"clients"`
	Bytes      matrix.Figure `json:"bytes"`
	Kind       string        `json:"kind" jsonschema:"enum=gradual,enum=sharp,enum=indistinct"` // gradual, sharp or indistinct, where the noise covers it
	SizeBefore int           `json:"size_before"`                                               // the measured size below
	SizeAfter  int           `json:"size_after"`                                                // the measured size above
	Before     float64       `json:"before" jsonschema:"nullable"`                              // A's latency over B's at size_before
	After      float64       `json:"after" jsonschema:"nullable"`                               // A's latency over B's at size_after
}

const (
	// crossoverSizes is the fewest sizes of a sweep.
	crossoverSizes = 4
	// crossoverConfidence is greater than the confidence of other intervals, because a sweep
	// asks at every size: at 95 % one in twelve sweeps of 13 sizes would find equal variants
	// to cross, at 99 % one in 250.
	crossoverConfidence = 0.99
)

// FindCrossovers compares every two variants along the sizes, at every concurrency.
func FindCrossovers(points []*matrix.Point) []Crossover {
	var crossovers []Crossover
	atAnySize := func(p *matrix.Point) record.Cell {
		cell := p.Conditions()
		cell.Payload = record.Payload{}
		return cell
	}
	for _, group := range lists.GroupBy(points, atAnySize) {
		if !matrix.IsMeaningful(group[0].Cell.Load.Model, matrix.Mean) {
			continue
		}
		sweeps := lists.GroupBy(group, func(p *matrix.Point) string { return p.Cell.Variant })
		for i, a := range sweeps {
			for _, b := range sweeps[i+1:] {
				crossovers = append(crossovers, crossoversOf(a, b)...)
			}
		}
	}
	return crossovers
}

// A sweep holds two variants over the sizes at which both have enough trials.
type sweep struct {
	a, b stats.Curve
}

func crossoversOf(a, b []*matrix.Point) []Crossover {
	along := pairSweep(a, b)
	if len(along.a.X) < crossoverSizes {
		return nil
	}
	found, err := stats.FindCrossovers(along.a, along.b, stats.CrossoverRule{
		Confidence: crossoverConfidence, SharpStep: 2, SharpJump: 0.1,
	})
	if err != nil {
		return nil // a figure is not positive, so there is no ratio
	}
	crossovers := make([]Crossover, len(found))
	for i, f := range found {
		c := &crossovers[i]
		*c = Crossover{
			Part: a[0].Cell.Part, A: a[0].Cell.Variant, B: b[0].Cell.Variant, Clients: a[0].Cell.Clients,
			Bytes: matrix.FigureOf(stats.Interval{Estimate: f.X, Low: f.Low, High: f.High, Confidence: crossoverConfidence}),
			Kind:  string(f.Kind),
		}
		after := slices.IndexFunc(along.a.X, func(x float64) bool { return x >= f.X })
		after = max(after, 1)
		c.SizeBefore, c.SizeAfter = int(along.a.X[after-1]), int(along.a.X[after])
		c.Before, c.After = along.ratio(after-1), along.ratio(after)
		if f.Beyond == stats.Lower {
			c.A, c.B = c.B, c.A
			c.Before, c.After = 1/c.Before, 1/c.After
		}
	}
	return crossovers
}

// pairSweep takes the sizes at which there are enough paired trials.
func pairSweep(a, b []*matrix.Point) sweep {
	var along sweep
	a = slices.Clone(a)
	slices.SortFunc(a, func(x, y *matrix.Point) int { return cmp.Compare(x.Cell.RequestBytes, y.Cell.RequestBytes) })
	for _, p := range a {
		i := slices.IndexFunc(b, func(q *matrix.Point) bool { return q.Conditions() == p.Conditions() })
		if i < 0 || p.Cell.RequestBytes == 0 || p.Cell.RequestBytes != p.Cell.ResponseBytes {
			continue
		}
		ofA, ofB := matrix.Pairs(p, b[i], matrix.Metrics[matrix.Mean])
		if len(ofA) < matrix.LeastTrials {
			continue
		}
		size := float64(p.Cell.RequestBytes)
		along.a.X, along.a.Y = append(along.a.X, size), append(along.a.Y, ofA)
		along.b.X, along.b.Y = append(along.b.X, size), append(along.b.Y, ofB)
	}
	return along
}

func (s sweep) ratio(i int) float64 {
	interval, err := stats.RatioInterval(s.a.Y[i], s.b.Y[i], crossoverConfidence)
	if err != nil {
		panic("analysis: a sweep holds what FindCrossovers has refused: " + err.Error())
	}
	return interval.Estimate
}
