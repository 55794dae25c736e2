package analysis

import (
	"math"

	"wirelab.dev/internal/stats"
)

// margin is the relative difference that does not matter: below it the choice
// between two wires is made by other things.
const margin = 0.05

var rule = stats.Rule{Margin: margin, Confidence: confidence}

// contended is what variants are compared by.
var contended = []struct {
	name         string
	of           metric
	moreIsFaster bool
}{
	{Mean, meanResponse, false},
	{P99, p99Response, false},
	{Throughput, throughput, true},
}

// compareAll compares every two variants wherever all else is equal. Each metric
// is a family of its own to Holm: they are different questions, and the mean and
// the throughput of a closed loop are one figure seen twice.
func compareAll(points []*point) []Comparison {
	var all []Comparison
	for _, m := range contended {
		var judged []stats.Comparison
		var judgedAt []int
		for _, rivals := range groupBy(points, (*point).contest) {
			if m.name == Throughput && rivals[0].cell.Load.Model == "open" {
				continue
			}
			for i, a := range rivals {
				for _, b := range rivals[i+1:] {
					c, verdict, err := compare(a, b, m.of)
					c.Metric = m.name
					if err == nil {
						judged, judgedAt = append(judged, verdict), append(judgedAt, len(all))
					}
					if c.Ratio.Value > 0 {
						all = append(all, c)
					}
				}
			}
		}
		for i, verdict := range stats.CorrectFamily(judged, rule) {
			c := &all[judgedAt[i]]
			c.P = verdict.P
			c.Verdict = inTermsOfSpeed(verdict.Verdict, m.moreIsFaster)
		}
	}
	return all
}

// compare gives the ratio of A to B, and what the trials say of it before it is
// seen as one of many. The error is that there are too few; the ratio then
// stands without an interval, and is zero where one of the two has no valid
// trial.
func compare(a, b *point, of metric) (Comparison, stats.Comparison, error) {
	c := Comparison{
		Part: a.cell.Part, A: a.cell.Variant, B: b.cell.Variant, Workload: a.cell.Workload,
		RequestBytes: a.cell.RequestBytes, ResponseBytes: a.cell.ResponseBytes,
		Clients: a.cell.Clients, Load: a.contest().load,
		P: math.NaN(), Verdict: Undecided, Margin: margin,
	}
	if len(a.valid()) == 0 || len(b.valid()) == 0 {
		return c, stats.Comparison{}, stats.ErrTooFew
	}
	c.Ratio = ratio(a, b, of)
	ofA, ofB := pairs(a, b, of)
	c.Pairs = len(ofA)
	verdict, err := stats.Compare(ofA, ofB, rule)
	return c, verdict, err
}

func inTermsOfSpeed(v stats.Verdict, moreIsFaster bool) Verdict {
	switch {
	case v == stats.Equivalent:
		return Equivalent
	case v == stats.Higher && moreIsFaster, v == stats.Lower && !moreIsFaster:
		return Faster
	case v == stats.Higher || v == stats.Lower:
		return Slower
	}
	return Undecided
}
