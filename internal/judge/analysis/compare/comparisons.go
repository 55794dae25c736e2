// Package compare compares variants at one place and decides whether a difference is real: every
// two variants, variants that differ in one choice, with and without a limit, change by change,
// from one size to the next, and for each claim.
//
// Pairs of trials become a sample. The samples of a family share their estimate of the noise, and
// their verdicts are corrected together. The same noise gives the power of a run's repeats, and
// decides whether a run may stop.
//
// It does not know how a trial gives a figure, or how a verdict is shown.
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

// The verdicts are about A or, in a contrast, about the changed variant. CPU time and the figures
// of a contrast are more or less, because neither is better by itself.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
	More       Verdict = "more"
	Less       Verdict = "less"
	Equivalent Verdict = "equivalent"
	Undecided  Verdict = "undecided"
)

// Comparison compares two variants at one point. P comes from Student's t on the logarithms, with
// the noise that the run's comparisons of this metric share, and is Holm-adjusted over them.
type Comparison struct {
	Part string `json:"part"`
	A    string `json:"a"` // a variant
	B    string `json:"b"` // a variant
	record.Place
	Load    record.Load   `json:"load"`                                                                                            // without an in-flight limit, which belongs to the variant
	Metric  string        `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`                                 // mean, p99, throughput or cpu, the CPU time per request of both ends
	Pairs   int           `json:"pairs"`                                                                                           // repeats in which both trials are valid
	Ratio   matrix.Figure `json:"ratio"`                                                                                           // A's figure divided by B's, paired by repeat
	P       float64       `json:"p" jsonschema:"nullable"`                                                                         // probability of a ratio this far from 1 without a difference, Holm-adjusted; null with too few trials
	Verdict Verdict       `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // of A against B; for cpu less or more in place of faster or slower
	Margin  float64       `json:"margin"`                                                                                          // relative difference that counts as equivalent; 0.05 for 5 %
}

// These maps translate a verdict of package stats by the better direction: that of a time, of a
// throughput, and of a figure with none.
var (
	ofTime       = map[stats.Verdict]Verdict{stats.Lower: Faster, stats.Higher: Slower, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofThroughput = map[stats.Verdict]Verdict{stats.Lower: Slower, stats.Higher: Faster, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofSize       = map[stats.Verdict]Verdict{stats.Lower: Less, stats.Higher: More, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
)

// VerdictOn translates a verdict of package stats for a metric.
func VerdictOn(metric string, verdict stats.Verdict) Verdict {
	return map[string]map[stats.Verdict]Verdict{matrix.Mean: ofTime, matrix.P99: ofTime, matrix.Throughput: ofThroughput, matrix.CPU: ofSize}[metric][verdict]
}

// Opposite returns the same verdict about the other variant.
func (v Verdict) Opposite() Verdict {
	opposites := map[Verdict]Verdict{Faster: Slower, Slower: Faster, Less: More, More: Less}
	return cmp.Or(opposites[v], v)
}

// All compares every two variants at equal conditions, and returns the power of each metric.
// Holm's correction takes each metric as its own family: they are different questions, and in a
// closed loop mean and throughput are the same figure.
func All(points []*matrix.Point) (all []Comparison, powers []Power) {
	for _, name := range []string{matrix.Mean, matrix.P99, matrix.Throughput, matrix.CPU} {
		family := FamilyOf(points)
		of := matrix.Metrics[name]
		for a, b := range pairsAt(matrix.Rivals(points), name) {
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

// A Family holds comparisons that are judged together. accept receives each verdict.
type Family struct {
	level   matrix.Level
	samples []sample
	accept  []func(stats.Comparison)
}

// FamilyOf returns a family at the level of the run with the most looks.
func FamilyOf(runs ...[]*matrix.Point) *Family {
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

// AddUnpaired adds the ratio between two runs, whose trials are not paired.
func (f *Family) AddUnpaired(before, after *matrix.Point, of matrix.Metric, accept func(stats.Comparison)) {
	old, now := matrix.KnownValues(before.Valid(), of), matrix.KnownValues(after.Valid(), of)
	if min(len(old), len(now)) >= matrix.LeastTrials && matrix.ArePositive(old) && matrix.ArePositive(now) {
		f.samples, f.accept = append(f.samples, newUnpaired(now, old)), append(f.accept, accept)
	}
}

// Judge computes the verdicts and passes them on.
func (f *Family) Judge() {
	usual := estimateNoise(f.samples)
	verdicts := make([]stats.Comparison, len(f.samples))
	for i, s := range f.samples {
		verdicts[i] = usual.judge(s, f.level)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, rule) {
		f.accept[i](verdict)
	}
}

var rule = stats.Rule{Margin: matrix.Margin, Confidence: matrix.Confidence}

// A Look is an evaluation of a run that repeats until its goal is reached.
type Look struct {
	Open int // undecided comparisons or claims, or cells with too wide an interval
	Of   int
}

// TakeLook evaluates a run by its goal: the claims; the cells' intervals of the mean or of a
// search's rate; or the comparisons of the mean, or of throughput if only that is compared. It
// leaves out cells without a valid trial, because more repeats would bring none, unless only other
// programs spoiled them. again holds the indexes of the claims that more repeats may decide.
func TakeLook(m *record.Manifest, records []*record.Record) (found Look, again []int, err error) {
	s, err := study.Read(m)
	if err != nil {
		return Look{}, nil, err
	}
	measured, profiled := study.SplitProfiled(records)
	points, err := study.Gather(s, measured)
	if err != nil {
		return Look{}, nil, err
	}
	if m.Until.Claims {
		seen, err := study.Gather(s, study.WithProbe(profiled, record.ProbeSyscalls))
		if err != nil {
			return Look{}, nil, err
		}
		most := m.Until.Looks[len(m.Until.Looks)-1].Repeats
		found, again = lookAtClaims(JudgeClaims(s, points, seen), most)
		return found, again, nil
	}
	if m.Until.Width > 0 {
		return lookAtCells(points, m.Until.Width), nil, nil
	}
	return lookAtComparisons(points), nil, nil
}

func lookAtComparisons(points []*matrix.Point) (found Look) {
	comparisons, _ := All(points)
	for _, metric := range []string{matrix.Mean, matrix.Throughput} {
		for a, b := range pairsAt(lists.GroupBy(points, (*matrix.Point).Conditions), metric) {
			if a.Promises() && b.Promises() {
				found.Of++
			}
		}
		found.Open = found.Of
		for _, c := range comparisons {
			if c.Metric == metric && c.Verdict != Undecided {
				found.Open--
			}
		}
		if found.Of > 0 {
			break
		}
	}
	return found
}

// worthwhile bounds the repeats that a claim may need, in multiples of the run's most repeats.
const worthwhile = 4

func lookAtClaims(claims []Claim, most int) (found Look, again []int) {
	for i := range claims {
		c := &claims[i]
		if c.Unasked {
			continue
		}
		found.Of++
		if !c.isOpen() {
			continue
		}
		found.Open++
		if c.Pairs < matrix.LeastTrials || c.NeededPairs != nil && *c.NeededPairs <= worthwhile*most {
			again = append(again, i)
		}
	}
	return found, again
}

func lookAtCells(points []*matrix.Point, width float64) (found Look) {
	for _, p := range points {
		if !p.Promises() {
			continue
		}
		of := matrix.Metrics[matrix.Mean]
		if p.Cell.Load.Model == "search" {
			of = matrix.Metrics[matrix.Throughput]
		}
		found.Of++
		if !matrix.Over(p.Valid(), of).IsWithin(width) {
			found.Open++
		}
	}
	return found
}
