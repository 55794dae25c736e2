// Package curves shows how figures change along an axis of the matrix. It finds the number of
// clients at which throughput stops growing, the message size from which another variant is faster,
// the limit of throughput as more calls are in flight, and the time when trials became steady.
//
// It does not know how two variants are compared under equal conditions.
package curves

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The curves that may have a knee.
const (
	KneeOfThroughput = "throughput" // where throughput stops growing
	KneeOfTail       = "tail"       // where P99/P50 begins to grow
)

// A Knee is the number of clients from which throughput stops growing, or the tail begins to
// grow, for one variant and message size.
type Knee struct {
	Part       string `json:"part"`
	Variant    string `json:"variant"`
	Connection string `json:"connection"`
	record.Payload
	By      string         `json:"by" jsonschema:"enum=throughput,enum=tail"` // which curve bends: throughput or tail
	Points  int            `json:"-"`                                         // how many numbers of clients have enough valid trials
	Found   bool           `json:"found"`                                     // whether there is a knee; if not, reason says why
	Clients *matrix.Figure `json:"clients"`                                   // number of clients at the knee; null if not found
	Reason  string         `json:"reason"`
}

// FindKnees looks for knees in every curve with at least two numbers of clients.
func FindKnees(points []*matrix.Point, seed uint64) []Knee {
	var knees []Knee
	for _, curve := range matrix.GroupByClients(points) {
		if len(curve) < 2 {
			continue
		}
		if curve[0].Cell.Load.Model == "closed" {
			knees = append(knees, kneeOf(curve, KneeOfThroughput, seed))
		}
		if matrix.IsMeaningful(curve[0].Cell.Load.Model, matrix.P99) {
			knees = append(knees, kneeOf(curve, KneeOfTail, seed))
		}
	}
	return knees
}

func kneeOf(points []*matrix.Point, by string, seed uint64) Knee {
	cell := points[0].Cell
	knee := Knee{Part: cell.Part, Variant: cell.Variant, Connection: cell.Connection, Payload: cell.Payload, By: by}
	search := stats.KneeSearch{Bend: stats.Flattens, Resampling: stats.Resampling{Seed: seed, Confidence: matrix.Confidence}}
	of := matrix.Metrics[matrix.Throughput]
	if by == KneeOfTail {
		search.Bend, of = stats.Steepens, matrix.Metrics[matrix.Tail]
	}
	var curve stats.Curve
	tooFewRequests := false
	for _, p := range points {
		figures := matrix.KnownValues(p.TrialsWith(record.Times), of)
		tooFewRequests = tooFewRequests || len(figures) < len(p.TrialsWith(record.Times))
		curve.X, curve.Y = append(curve.X, float64(p.Cell.Clients)), append(curve.Y, figures)
	}
	curve = curve.WithTrials(matrix.LeastTrials)
	knee.Points = len(curve.X)
	if knee.Points < matrix.KneePoints {
		knee.Reason = fmt.Sprintf("a knee needs %d numbers of clients with %d valid trials each; the run has %d", matrix.KneePoints, matrix.LeastTrials, knee.Points)
		if tooFewRequests {
			knee.Reason += fmt.Sprintf("; P99 also needs %s requests per trial", units.Thousands(matrix.P99Requests))
		}
	} else if found, err := stats.FindKnee(curve, search); err != nil {
		knee.Reason = noKneeReason(curve, by)
	} else {
		knee.Found, knee.Clients = true, new(matrix.FigureOf(found.X))
	}
	return knee
}

// noKneeReason describes the shape of a curve that has no knee.
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
	if by == KneeOfTail {
		name = "P99/P50"
	}
	switch {
	case greatest == last && at(last) > (1+matrix.Margin)*at(last-1) && by == KneeOfThroughput:
		return fmt.Sprintf("throughput still grows at %.0f clients, the largest number with %d valid trials: measure more clients", curve.X[last], matrix.LeastTrials)
	case at(greatest) < (1+matrix.Margin)*at(0):
		return name + " does not grow with more clients"
	case greatest < last && at(last) < at(0):
		return fmt.Sprintf("%s is greatest at %.0f clients, and falls below its value at %.0f clients", name, curve.X[greatest], curve.X[0])
	}
	return "the curve of " + name + " has no bend that exceeds the noise of the trials"
}

// A Crossover is the size at which one variant overtakes another as messages grow.
type Crossover struct {
	Part       string        `json:"part"`
	A          string        `json:"a"` // name of the variant that is faster with smaller messages
	B          string        `json:"b"` // name of the variant that is faster with larger messages
	Clients    int           `json:"clients"`
	Bytes      matrix.Figure `json:"bytes"`
	Kind       string        `json:"kind" jsonschema:"enum=gradual,enum=sharp,enum=indistinct"` // how the order changes: gradually, sharply, or hidden by noise
	SizeBefore int           `json:"size_before"`                                               // nearest measured size below the crossover
	SizeAfter  int           `json:"size_after"`                                                // nearest measured size above the crossover
	Before     float64       `json:"before" jsonschema:"nullable"`                              // A's latency divided by B's at size_before
	After      float64       `json:"after" jsonschema:"nullable"`                               // A's latency divided by B's at size_after
}

const (
	// leastCrossoverSizes is the least number of sizes for finding crossovers.
	leastCrossoverSizes = 4
	// crossoverConfidence is higher than the confidence of other intervals, because a sweep tests
	// at every size. With equal variants and 13 sizes, 1 in 12 sweeps shows a false crossover at
	// 95 %, and 1 in 250 at 99 %.
	crossoverConfidence = 0.99
)

// FindCrossovers compares every two variants over all message sizes, for each number of clients.
func FindCrossovers(points []*matrix.Point) []Crossover {
	var crossovers []Crossover
	fit := matrix.NewFit(points, matrix.Mean)
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
				crossovers = append(crossovers, crossoversOf(a, b, fit)...)
			}
		}
	}
	return crossovers
}

// crossoversOf compares two variants at the sizes at which both have enough trials.
func crossoversOf(a, b []*matrix.Point, fit *matrix.Fit) []Crossover {
	var sizes []float64
	var ratios []stats.Interval
	for _, p := range slices.SortedFunc(slices.Values(a), func(x, y *matrix.Point) int { return cmp.Compare(x.Cell.RequestBytes, y.Cell.RequestBytes) }) {
		i := slices.IndexFunc(b, func(q *matrix.Point) bool { return q.Conditions() == p.Conditions() })
		if i < 0 || p.Cell.RequestBytes == 0 || p.Cell.RequestBytes != p.Cell.ResponseBytes {
			continue
		}
		if ratio, _ := fit.Ratio(p, b[i]); ratio.Enough {
			sizes, ratios = append(sizes, float64(p.Cell.RequestBytes)), append(ratios, ratio.Estimate.Interval(crossoverConfidence))
		}
	}
	if len(sizes) < leastCrossoverSizes {
		return nil
	}
	found := stats.FindCrossovers(sizes, ratios, stats.CrossoverRule{SharpStep: 2, SharpJump: 0.1})
	return lists.Map(found, func(f stats.Crossover) Crossover {
		after := max(1, slices.IndexFunc(sizes, func(x float64) bool { return x >= f.X }))
		c := Crossover{
			Part: a[0].Cell.Part, A: a[0].Cell.Variant, B: b[0].Cell.Variant, Clients: a[0].Cell.Clients,
			Bytes: matrix.Figure{Value: f.X, Interval: &matrix.Interval{Low: f.Low, High: f.High, Confidence: crossoverConfidence}},
			Kind:  string(f.Kind), SizeBefore: int(sizes[after-1]), SizeAfter: int(sizes[after]),
			Before: ratios[after-1].Estimate, After: ratios[after].Estimate,
		}
		if f.Beyond == stats.Lower {
			c.A, c.B = c.B, c.A
			c.Before, c.After = 1/c.Before, 1/c.After
		}
		return c
	})
}

// A WarmUpNeed holds the length of the warm-up that a cell needs.
type WarmUpNeed struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Payload
	Clients     int            `json:"clients"`
	Trials      int            `json:"trials"`
	Settled     int            `json:"settled"`            // number of trials that became steady
	Needed      *matrix.Figure `json:"needed_ms"`          // time from the first request to the steady state; null if no trial settled
	NeededCalls *matrix.Figure `json:"needed_requests"`    // requests of all clients from the first request to the steady state
	FirstOver   *matrix.Figure `json:"first_over_settled"` // mean service time in the first 100 ms, divided by the mean in the steady state
}

// firstPeriod is the first part of a warm-up. Comparing it with the steady state shows the error
// of a measurement without warm-up.
const firstPeriod = 100 * time.Millisecond

// FindWarmUpNeeds returns how long each cell's trials took to become steady.
func FindWarmUpNeeds(points []*matrix.Point) []WarmUpNeed {
	var needs []WarmUpNeed
	for _, p := range points {
		switch p.Cell.Load.Model {
		case "burst", "ramp", "search":
			continue // loads of this model have no steady state
		}
		need := WarmUpNeed{Part: p.Cell.Part, Variant: p.Cell.Variant, Payload: p.Cell.Payload, Clients: p.Cell.Clients}
		followed := matrix.Filter(p.TrialsWith(record.Times), func(t matrix.Trial) bool { return len(t.Intervals) > 0 })
		settled := matrix.Filter(followed, func(t matrix.Trial) bool { return t.WarmUp.EnoughNS != nil && t.WarmUp.EnoughRequests != nil })
		if len(followed) == 0 {
			continue
		}
		need.Trials, need.Settled = len(followed), len(settled)
		need.Needed = matrix.KnownFigure(settled, func(t matrix.Trial) float64 { return matrix.Number(t.WarmUp.EnoughNS) / 1e6 })
		need.NeededCalls = matrix.KnownFigure(settled, func(t matrix.Trial) float64 { return matrix.Number(t.WarmUp.EnoughRequests) })
		need.FirstOver = matrix.KnownFigure(settled, func(t matrix.Trial) float64 { return firstOverSettled(t.Intervals, *t.WarmUp.EnoughNS) })
		needs = append(needs, need)
	}
	return needs
}

// firstOverSettled returns the mean service time in the firstPeriod divided by the mean in the
// steady state.
func firstOverSettled(course []record.Interval, enoughNS int64) float64 {
	begin := course[0].StartNS
	var first, settled record.Interval
	for _, i := range course {
		if i.StartNS-begin < int64(firstPeriod) {
			first.Requests += i.Requests
			first.SumNS += i.SumNS
		}
		if i.StartNS-begin >= enoughNS {
			settled.Requests += i.Requests
			settled.SumNS += i.SumNS
		}
	}
	if first.Requests == 0 || settled.Requests == 0 || settled.SumNS == 0 {
		return math.NaN()
	}
	mean := func(i record.Interval) float64 { return float64(i.SumNS) / float64(i.Requests) }
	return mean(first) / mean(settled)
}
