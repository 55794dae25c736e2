package compare

import (
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Family collects the comparisons that are judged together. accept receives each verdict.
type Family struct {
	level   matrix.Level
	samples []sample
	accept  []func(stats.Comparison)
}

// FamilyOf returns a family for comparisons between the points of runs, at the level of the
// run that was looked at most often.
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
