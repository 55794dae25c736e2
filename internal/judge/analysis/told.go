package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
)

// Percentiles that another program computed. They are taken as they are: those that it did
// not compute are unknown, and over several of its files a percentile is the median of theirs,
// as other figures are, since percentiles cannot be pooled.

// toldQuantile is NaN where the program has not told it, or too few requests lie beyond it.
func (t times) toldQuantile(q float64) float64 {
	i := slices.IndexFunc(t.told, func(p latency.Percentile) bool { return math.Abs(p.Quantile-q) < sameQuantile })
	if i < 0 || t.count < stats.LeastCount(q) {
		return math.NaN()
	}
	return float64(t.told[i].Duration) / 1e3
}

// sameQuantile: 99.9 / 100 is not quite 0.999.
const sameQuantile = 1e-9

// overTold is unknown where it is in any of the trials.
func (p pooled) overTold(of func(times) float64) Figure {
	each := func(t trial) float64 { return of(p.of(t)) }
	if len(knownValues(p.trials, each)) < len(p.trials) {
		return Figure{Value: math.NaN()}
	}
	return over(p.trials, each)
}

// toldCurve has the percentiles that every trial has, and the maximum.
func (p pooled) toldCurve() []CurvePoint {
	var points []CurvePoint
	slowest := 0.0
	for _, t := range p.trials {
		slowest = max(slowest, p.of(t).max)
	}
	for _, told := range p.of(p.trials[0]).told {
		at := p.overTold(func(t times) float64 { return t.quantile(told.Quantile) })
		if told.Quantile < 1 && !math.IsNaN(at.Value) {
			points = append(points, CurvePoint{told.Quantile, at.Value})
		}
	}
	return append(points, CurvePoint{1, slowest})
}
