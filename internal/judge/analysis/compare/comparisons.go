// Package compare compares variants under equal conditions and decides whether a difference is
// real. It compares every two variants, variants that differ in one option, variants with and
// without a limit, and neighbouring message sizes. It also judges claims.
//
// Pairs of trials become a sample. The samples of a family share one estimate of the noise, and
// their verdicts are corrected together. The noise also gives the power of a run, and decides
// whether a run may stop.
//
// It does not know how figures are computed from a trial, or how a verdict is shown.
package compare

import (
	"cmp"
	"iter"
	"math"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
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
	Pairs   int           `json:"pairs"`                                                                                           // number of repeats in which both variants have the figure
	Ratio   matrix.Figure `json:"ratio"`                                                                                           // A's figure divided by B's, paired by repeat
	P       float64       `json:"p" jsonschema:"nullable"`                                                                         // probability of such a ratio if the variants are equal, Holm-adjusted; null with too few trials
	Verdict Verdict       `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // verdict on A; for cpu it is less or more instead of faster or slower
	Margin  float64       `json:"margin"`                                                                                          // relative difference that counts as equivalent; 0.05 for 5 %
}

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
		family := NewFamily(points)
		of := matrix.Metrics[name]
		for a, b := range comparablePairs(matrix.ComparableGroups(points), name) {
			ofA, _ := matrix.Pairs(a, b, of)
			same, at := a.Conditions(), len(all)
			c := Comparison{
				Part: same.Part, A: a.Cell.Variant, B: b.Cell.Variant, Place: same.Place, Load: same.Load, Metric: name, Pairs: len(ofA),
				Ratio: matrix.Ratio(a, b, of), P: math.NaN(), Verdict: Undecided, Margin: matrix.Margin,
			}
			if !(c.Ratio.Value > 0) {
				continue
			}
			all = append(all, c)
			family.add(a, b, of, func(verdict stats.Comparison) {
				c := &all[at]
				c.P, c.Verdict = verdict.P, TranslateVerdict(name, verdict.Verdict)
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

// A Family holds comparisons that are judged together. accept receives each verdict.
type Family struct {
	level   matrix.Level
	samples []sample
	accept  []func(stats.Comparison)
}

// NewFamily returns an empty family. Its level is the strictest level of the runs.
func NewFamily(runs ...[]*matrix.Point) *Family {
	f := &Family{}
	for _, points := range runs {
		if len(points) > 0 && points[0].Level.Confidence() >= f.level.Confidence() {
			f.level = points[0].Level
		}
	}
	return f
}

// add adds the ratio of A to B, unless there are too few trials for a verdict.
func (f *Family) add(a, b *matrix.Point, of matrix.Metric, accept func(stats.Comparison)) {
	ofA, ofB := matrix.Pairs(a, b, of)
	if len(ofA) >= matrix.LeastTrials && matrix.ArePositive(ofA) && matrix.ArePositive(ofB) {
		f.samples, f.accept = append(f.samples, newSample(ofA, ofB)), append(f.accept, accept)
	}
}

// AddUnpaired adds the ratio of a later to an earlier run. Trials of two runs are never paired.
func (f *Family) AddUnpaired(before, after *matrix.Point, of matrix.Metric, accept func(stats.Comparison)) {
	old, now := matrix.KnownValues(before.Trials, of), matrix.KnownValues(after.Trials, of)
	if min(len(old), len(now)) >= matrix.LeastTrials && matrix.ArePositive(old) && matrix.ArePositive(now) {
		f.samples, f.accept = append(f.samples, newUnpairedSample(now, old)), append(f.accept, accept)
	}
}

// Judge computes the verdicts, and passes each to the accept function of its comparison.
func (f *Family) Judge() {
	usual := estimateNoise(f.samples)
	verdicts := make([]stats.Comparison, len(f.samples))
	for i, s := range f.samples {
		verdicts[i] = usual.judge(s, f.level)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, comparisonRule) {
		f.accept[i](verdict)
	}
}

var comparisonRule = stats.Rule{Margin: matrix.Margin, Confidence: matrix.Confidence}

// A Look is one evaluation of a run that repeats until its goal is reached.
type Look struct {
	Open int // number of undecided comparisons or claims, or of cells with too wide an interval
	Of   int // number of all comparisons, claims or cells
}

// EvaluateLook evaluates a run by its goal. The goal is about claims, about the intervals of cells,
// or about comparisons of the mean, or of throughput if only this is compared. It leaves out cells
// that have no valid trial, and would get none by more repeats. toRepeat holds the indexes of the
// claims that more repeats may decide.
func EvaluateLook(m *record.Manifest, records []*record.Record) (look Look, toRepeat []int, err error) {
	s, err := study.Read(m)
	if err != nil {
		return Look{}, nil, err
	}
	measured, profiled := study.SplitProfiled(records)
	points, err := study.GroupTrials(s, measured)
	if err != nil {
		return Look{}, nil, err
	}
	if m.Until.Claims {
		seen, err := study.GroupTrials(s, study.WithProbe(profiled, record.ProbeSyscalls))
		if err != nil {
			return Look{}, nil, err
		}
		maxRepeats := m.Until.Looks[len(m.Until.Looks)-1].Repeats
		look, toRepeat = lookAtClaims(JudgeClaims(s, points, seen), maxRepeats)
		return look, toRepeat, nil
	}
	if m.Until.Width > 0 {
		return lookAtCells(points, m.Until.Width), nil, nil
	}
	return lookAtComparisons(points), nil, nil
}

func lookAtComparisons(points []*matrix.Point) (look Look) {
	comparisons, _ := CompareAll(points)
	for _, metric := range []string{matrix.Mean, matrix.Throughput} {
		for a, b := range comparablePairs(lists.GroupBy(points, (*matrix.Point).Conditions), metric) {
			if a.MayHaveTrials() && b.MayHaveTrials() {
				look.Of++
			}
		}
		look.Open = look.Of
		for _, c := range comparisons {
			if c.Metric == metric && c.Verdict != Undecided {
				look.Open--
			}
		}
		if look.Of > 0 {
			break
		}
	}
	return look
}

// maxRepeatFactor limits the repeats that a claim may need, as a multiple of the run's largest
// number of repeats. A claim that needs more is not measured again.
const maxRepeatFactor = 4

// lookAtClaims counts the claims and the undecided claims, and lists the claims to measure again.
func lookAtClaims(claims []Claim, maxRepeats int) (look Look, toRepeat []int) {
	for i := range claims {
		c := &claims[i]
		if c.Unasked {
			continue
		}
		look.Of++
		if !c.isOpen() {
			continue
		}
		look.Open++
		if c.Pairs < matrix.LeastTrials || c.NeededPairs != nil && *c.NeededPairs <= maxRepeatFactor*maxRepeats {
			toRepeat = append(toRepeat, i)
		}
	}
	return look, toRepeat
}

func lookAtCells(points []*matrix.Point, width float64) (look Look) {
	for _, p := range points {
		if !p.MayHaveTrials() {
			continue
		}
		of := matrix.Metrics[matrix.Mean]
		if p.Cell.Load.Model == "search" {
			of = matrix.Metrics[matrix.Throughput]
		}
		look.Of++
		if !matrix.FigureOver(p.TrialsWith(record.Times), of).IsWithin(width) {
			look.Open++
		}
	}
	return look
}
