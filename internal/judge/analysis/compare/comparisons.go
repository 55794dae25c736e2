// Package compare holds variants against each other at one place and says whether a
// difference is real: every two variants, those that differ in one choice, with and
// without a limit, change by change, from one size to the next, and as a claim says.
//
// Pairs of trials become a sample, a family of samples shares what it knows of the noise,
// and the family's verdicts are corrected together. What the repeats of a run can find,
// and whether a run may stop, follows from the same noise.
//
// It must not know how a figure comes from a trial, nor how a verdict is shown.
package compare

import (
	"iter"
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Verdict says whether a difference is real.
type Verdict string

// The verdicts. They speak of A or, in a contrast, of the changed variant. CPU time and the
// figures of a contrast are more or less, which is neither better nor worse by itself.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	More       Verdict = "more"
	Less       Verdict = "less"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// Comparison holds two variants against each other at one point. P is by
// Student's t over the logarithms, with the noise that the run's comparisons of
// this metric have in common, Holm-adjusted over them.
type Comparison struct {
	Part string `json:"part"`
	A    string `json:"a"` // a variant
	B    string `json:"b"` // a variant
	record.Place
	Load    record.Load   `json:"load"`                                                                                            // without an in-flight limit, which is the variant's
	Metric  string        `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`                                 // what the ratio is of: mean, p99, throughput or cpu, which is CPU time per request of both ends
	Pairs   int           `json:"pairs"`                                                                                           // repeats in which both trials are valid
	Ratio   matrix.Figure `json:"ratio"`                                                                                           // A's over B's, paired by repeat
	P       float64       `json:"p" jsonschema:"nullable"`                                                                         // of a ratio this far from 1 where there is no difference, Holm-adjusted; null with too few trials
	Verdict Verdict       `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // faster or slower (of cpu less or more), equivalent or undecided; the first four speak of A
	Margin  float64       `json:"margin"`                                                                                          // within it they count as equivalent; 0.05 for 5 %
}

// These maps word a verdict of package stats by the direction that is better: for a time, for
// a throughput, and for a figure that has no better direction.
var (
	ofTime       = map[stats.Verdict]Verdict{stats.Lower: Faster, stats.Higher: Slower, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofThroughput = map[stats.Verdict]Verdict{stats.Lower: Slower, stats.Higher: Faster, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofSize       = map[stats.Verdict]Verdict{stats.Lower: Less, stats.Higher: More, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
)

// VerdictOn words a verdict of package stats on a metric.
func VerdictOn(metric string, verdict stats.Verdict) Verdict {
	return map[string]map[stats.Verdict]Verdict{matrix.Mean: ofTime, matrix.P99: ofTime, matrix.Throughput: ofThroughput, matrix.CPU: ofSize}[metric][verdict]
}

// All compares every two variants wherever everything else is equal, and returns the power of
// each metric. Holm's correction takes each metric as a family of its own: they are different
// questions, and the mean and the throughput of a closed loop are one figure seen twice.
func All(points []*matrix.Point) (all []Comparison, powers []Power) {
	for _, name := range []string{matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU} {
		family := FamilyOf(points)
		of := matrix.Metrics[name]
		for a, b := range pairsAt(matrix.Rivals(points), name) {
			c := ratioOfRivals(a, b, of)
			if c.Metric = name; !(c.Ratio.Value > 0) {
				continue
			}
			at := len(all)
			all = append(all, c)
			family.add(a, b, of, func(verdict stats.Comparison) {
				c := &all[at]
				c.P, c.Verdict = verdict.P, VerdictOn(name, verdict.Verdict)
				c.Ratio.Interval = matrix.FigureOf(verdict.Ratio).Interval
			})
		}
		family.Judge()
		if p := family.Power(); p != nil {
			p.Metric = name
			powers = append(powers, *p)
		}
	}
	return all, powers
}

// pairsAt yields every two points of a group between which the metric can differ.
func pairsAt(groups [][]*matrix.Point, metric string) iter.Seq2[*matrix.Point, *matrix.Point] {
	return func(yield func(a, b *matrix.Point) bool) {
		for _, group := range groups {
			for i, a := range group {
				for _, b := range group[i+1:] {
					if matrix.IsMeaningful(a.Cell.Load.Model, metric) && !yield(a, b) {
						return
					}
				}
			}
		}
	}
}

// ratioOfRivals returns the ratio of A to B, without a verdict on it.
func ratioOfRivals(a, b *matrix.Point, of matrix.Metric) Comparison {
	ofA, _ := matrix.Pairs(a, b, of)
	same := a.Conditions()
	return Comparison{
		Part: same.Part, A: a.Cell.Variant, B: b.Cell.Variant, Place: same.Place, Load: same.Load, Pairs: len(ofA),
		Ratio: matrix.Ratio(a, b, of), P: math.NaN(), Verdict: Undecided, Margin: matrix.Margin,
	}
}
