// Package compare compares variants under equal conditions and decides whether a difference is
// real. It compares every two variants, variants that differ in one option, variants with and
// without a limit, and neighbouring message sizes. It also judges claims.
//
// A ratio of two figures becomes a sample. The samples of a family share one estimate of the noise,
// and their verdicts are corrected together. The noise also gives the power of a run, and decides
// whether a run may stop.
//
// It does not know how figures are computed from a trial, or how a verdict is shown.
package compare

import (
	"cmp"
	"iter"
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Verdict is the result of a comparison.
type Verdict string

// The verdicts on A or, in a contrast, on the changed variant. CPU times and contrasts use More and
// Less, because neither is always better.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	More       Verdict = "more"
	Less       Verdict = "less"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// A Comparison compares two variants under the same conditions. P comes from Student's t on
// logarithms. All comparisons of one metric share an estimate of the noise, and are corrected
// together by Holm's method.
type Comparison struct {
	Part string `json:"part"`
	A    string `json:"a"` // the first variant
	B    string `json:"b"` // the second variant
	record.Place
	Load    record.Load   `json:"load"`                                                                                            // the load without an in-flight limit, which is an option of the variant
	Metric  string        `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`                                 // the compared figure; cpu is the CPU time per request of both ends
	Pairs   int           `json:"pairs"`                                                                                           // number of repeats in which both variants have this figure; other repeats count, too, but tell less
	Ratio   matrix.Figure `json:"ratio"`                                                                                           // A's figure divided by B's, as in the cells
	P       float64       `json:"p" jsonschema:"nullable"`                                                                         // probability of such a ratio if the variants are equal, Holm-adjusted; null with too few trials
	Verdict Verdict       `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // verdict on A; for cpu it is less or more instead of faster or slower
	Margin  float64       `json:"margin"`                                                                                          // smallest of 0.01, 0.02, 0.05 and 0.1 by which the variants differ at most; 0 if they may differ by more. A proven difference may have a margin, too

	points [2]*matrix.Point // A and B; none in an overlay of several runs
}

// Points returns the points of A and B, or nil in an overlay of several runs.
func (c *Comparison) Points() (a, b *matrix.Point) { return c.points[0], c.points[1] }

// IsEqual reports whether two variants are so close that either may be chosen.
func (c *Comparison) IsEqual() bool { return c.Verdict == Equivalent && c.Margin <= matrix.Margin }

// IsOpen reports whether more repeats may tell more.
func (c *Comparison) IsOpen() bool { return !c.IsDifferent() && !c.IsEqual() }

// IsDifferent reports whether a difference is proven.
func (c *Comparison) IsDifferent() bool { return c.Verdict != Undecided && c.Verdict != Equivalent }

// These maps translate verdicts of package stats for times, for throughput, and for figures where
// neither more nor less is better.
var (
	timeVerdicts       = map[stats.Verdict]Verdict{stats.Lower: Faster, stats.Higher: Slower, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	throughputVerdicts = map[stats.Verdict]Verdict{stats.Lower: Slower, stats.Higher: Faster, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	sizeVerdicts       = map[stats.Verdict]Verdict{stats.Lower: Less, stats.Higher: More, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
)

// TranslateVerdict translates a verdict of package stats for a metric.
func TranslateVerdict(metric string, verdict stats.Verdict) Verdict {
	return map[string]map[stats.Verdict]Verdict{matrix.Mean: timeVerdicts, matrix.P99: timeVerdicts, matrix.Throughput: throughputVerdicts, matrix.CPU: sizeVerdicts}[metric][verdict]
}

// Opposite turns a verdict on one of two variants into the verdict on the other variant.
func (v Verdict) Opposite() Verdict {
	opposites := map[Verdict]Verdict{Faster: Slower, Slower: Faster, Less: More, More: Less}
	return cmp.Or(opposites[v], v)
}

// CompareAll compares every two variants under equal conditions, and returns the power of each
// metric. Holm's correction treats each metric as a family, because metrics answer different
// questions. In a closed loop, the mean even determines throughput.
func CompareAll(points []*matrix.Point) (all []Comparison, powers []Power) {
	for _, name := range []string{matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU} {
		var family Family
		fit := matrix.NewFit(points, name)
		for a, b := range comparablePairs(matrix.ComparableGroups(points), name) {
			ratio, known := fit.Ratio(a, b)
			if !known {
				continue
			}
			same, at := a.Conditions(), len(all)
			all = append(all, Comparison{
				Part: same.Part, A: a.Cell.Variant, B: b.Cell.Variant, Place: same.Place, Load: same.Load, Metric: name,
				Pairs: matrix.CountPairs(a, b, matrix.Metrics[name]),
				Ratio: matrix.Figure{Value: ratio.Value}, P: math.NaN(), Verdict: Undecided, points: [2]*matrix.Point{a, b},
			})
			family.Add(ratio, func(verdict stats.Comparison) {
				c := &all[at]
				c.P, c.Verdict, c.Margin = verdict.P, TranslateVerdict(name, verdict.Verdict), verdict.Margin
				c.Ratio = matrix.FigureOf(verdict.Ratio)
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

// comparablePairs yields every two points of a group for which the metric may differ.
func comparablePairs(groups [][]*matrix.Point, metric string) iter.Seq2[*matrix.Point, *matrix.Point] {
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

// A Family holds comparisons that are judged together. Each has its own level, because a run may end
// with different looks at its points. accept receives each verdict.
type Family struct {
	samples []sample
	noise   []sample // samples that show the usual noise; nil means the family's own
	ratios  []matrix.Ratio
	accept  []func(stats.Comparison)
}

// Add adds a ratio, unless there are too few trials for a verdict.
func (f *Family) Add(r matrix.Ratio, accept func(stats.Comparison)) {
	if r.Enough {
		f.samples, f.ratios, f.accept = append(f.samples, newSample(r.Estimate)), append(f.ratios, r), append(f.accept, accept)
	}
}

// Judge computes the verdicts, and passes each to the accept function of its comparison. Each P is
// corrected for the looks at its own comparison first, and then for the number of comparisons.
func (f *Family) Judge() {
	usual := estimateNoise(f.samples)
	if f.noise != nil {
		usual = estimateNoise(f.noise)
	}
	verdicts := make([]stats.Comparison, len(f.samples))
	for i, s := range f.samples {
		verdicts[i] = withValue(usual.judge(s, f.ratios[i].Level), f.ratios[i].Value)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, matrix.Confidence) {
		f.accept[i](verdict)
	}
}

// withValue replaces the ratio by the quotient of the printed figures. Percentiles are over all
// requests together, so their quotient may differ from the usual ratio of two trials. The interval is
// stretched to contain the quotient. If the two lie on different sides of 1, nothing is proven.
func withValue(c stats.Comparison, value float64) stats.Comparison {
	if (value-1)*(c.Ratio.Estimate-1) < 0 {
		c.P = 1
	}
	c.Ratio.Estimate, c.Ratio.Low, c.Ratio.High = value, min(c.Ratio.Low, value), max(c.Ratio.High, value)
	return c
}
