package analysis

import (
	"iter"
	"math"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// Verdict says whether a difference is real.
type Verdict string

// The verdicts of a comparison; faster and slower speak of A, as do [More] and [Less]
// where CPU time is compared.
const (
	Faster     Verdict = "faster"
	Slower     Verdict = "slower"
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
	Load    record.Load `json:"load"`                                                                                            // without an in-flight limit, which is the variant's
	Metric  string      `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`                                 // what the ratio is of: mean, p99, throughput or cpu, which is CPU time a request of both ends
	Pairs   int         `json:"pairs"`                                                                                           // repeats in which both trials are valid
	Ratio   Figure      `json:"ratio"`                                                                                           // A's over B's, paired by repeat
	P       float64     `json:"p" jsonschema:"nullable"`                                                                         // of a ratio this far from 1 where there is no difference, Holm-adjusted; null with too few trials
	Verdict Verdict     `json:"verdict" jsonschema:"enum=faster,enum=slower,enum=more,enum=less,enum=equivalent,enum=undecided"` // faster or slower (of cpu less or more), equivalent or undecided; the first four speak of A
	Margin  float64     `json:"margin"`                                                                                          // within it they count as equivalent; 0.05 for 5 %
}

var rule = stats.Rule{Margin: margin, Confidence: confidence}

// The direction that is better: what a verdict of package stats means for a time, for a
// throughput, and for a figure where neither more nor less is better by itself.
var (
	ofTime       = map[stats.Verdict]Verdict{stats.Lower: Faster, stats.Higher: Slower, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofThroughput = map[stats.Verdict]Verdict{stats.Lower: Slower, stats.Higher: Faster, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
	ofSize       = map[stats.Verdict]Verdict{stats.Lower: Less, stats.Higher: More, stats.Equivalent: Equivalent, stats.Undecided: Undecided}
)

// verdictOn words a verdict of package stats on a metric of comparisons.
func verdictOn(metric string, verdict stats.Verdict) Verdict {
	return map[string]map[stats.Verdict]Verdict{Mean: ofTime, P99: ofTime, Throughput: ofThroughput, CPU: ofSize}[metric][verdict]
}

// compareAll compares every two variants wherever all else is equal. Each metric
// is a family of its own to Holm: they are different questions, and the mean and
// the throughput of a closed loop are one figure seen twice. The powers are the metrics'.
func compareAll(points []*point) (all []Comparison, powers []Power) {
	for _, name := range []string{Mean, P99, Throughput, CPU} {
		family := familyOf(points)
		of := metrics[name]
		for a, b := range compared(rivals(points), name) {
			c := compare(a, b, of)
			if c.Metric = name; !(c.Ratio.Value > 0) {
				continue
			}
			at := len(all)
			all = append(all, c)
			family.add(a, b, of, func(verdict stats.Comparison) {
				c := &all[at]
				c.P, c.Verdict = verdict.P, verdictOn(name, verdict.Verdict)
				c.Ratio.Interval = estimated(verdict.Ratio).Interval
			})
		}
		family.judge()
		if p := family.power(); p != nil {
			p.Metric = name
			powers = append(powers, *p)
		}
	}
	return all, powers
}

// compared yields every two rivals that a metric can tell apart.
func compared(groups [][]*point, metric string) iter.Seq2[*point, *point] {
	return func(yield func(a, b *point) bool) {
		for _, group := range groups {
			for i, a := range group {
				for _, b := range group[i+1:] {
					if isMeaningful(a.cell.Load.Model, metric) && !yield(a, b) {
						return
					}
				}
			}
		}
	}
}

// family is the comparisons that are judged together; accept receives each verdict.
type family struct {
	level   level
	samples []sample
	accept  []func(stats.Comparison)
}

// familyOf returns a family for comparisons between the points of runs, at the level of the
// run that was looked at most often.
func familyOf(runs ...[]*point) *family {
	f := &family{}
	for _, points := range runs {
		if len(points) > 0 && points[0].level.confidence() >= f.level.confidence() {
			f.level = points[0].level
		}
	}
	return f
}

// add adds the ratio of A to B, unless there are too few trials for a verdict.
func (f *family) add(a, b *point, of metric, accept func(stats.Comparison)) {
	ofA, ofB := pairs(a, b, of)
	if len(ofA) >= LeastTrials && arePositive(ofA) && arePositive(ofB) {
		f.samples, f.accept = append(f.samples, newSample(ofA, ofB)), append(f.accept, accept)
	}
}

// judge computes the verdicts and passes them on.
func (f *family) judge() {
	usual := estimateNoise(f.samples)
	verdicts := make([]stats.Comparison, len(f.samples))
	for i, s := range f.samples {
		verdicts[i] = usual.judge(s, f.level)
	}
	for i, verdict := range stats.CorrectFamily(verdicts, rule) {
		f.accept[i](verdict)
	}
}

// compare gives the ratio of A to B, without a verdict on it.
func compare(a, b *point, of metric) Comparison {
	ofA, _ := pairs(a, b, of)
	same := a.conditions()
	return Comparison{
		Part: same.Part, A: a.cell.Variant, B: b.cell.Variant, Place: same.Place, Load: same.Load, Pairs: len(ofA),
		Ratio: ratio(a, b, of), P: math.NaN(), Verdict: Undecided, Margin: margin,
	}
}

// addUnpaired adds the ratio of what was measured after to what was before.
func (f *family) addUnpaired(before, after *point, of metric, accept func(stats.Comparison)) {
	old, now := knownValues(before.valid(), of), knownValues(after.valid(), of)
	if min(len(old), len(now)) >= LeastTrials && arePositive(old) && arePositive(now) {
		f.samples, f.accept = append(f.samples, newUnpaired(now, old)), append(f.accept, accept)
	}
}
