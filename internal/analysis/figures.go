package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/stats"
)

// leastTrials is the fewest that an interval or a verdict is given for, as in
// package stats.
const leastTrials = 3

// confidence is that of every interval, unless it says another.
const confidence = 0.95

// figure is the median of the trials' figures. Its interval is that of their
// mean, by Student's t: for three to ten trials nothing that bounds a median
// keeps its promise. Positive figures are taken by their logarithms, since their
// noise is a factor. Where outliers pull the mean away from the median, the
// interval is stretched to hold both.
func figure(values []float64) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	f := Figure{Value: stats.Median(values)}
	interval, err := meanInterval(values)
	if err != nil {
		return f // too few trials
	}
	f.Interval = &Interval{
		Low:        min(interval.Low, f.Value),
		High:       max(interval.High, f.Value),
		Confidence: confidence,
	}
	return f
}

func meanInterval(values []float64) (stats.Interval, error) {
	logs := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return stats.MeanInterval(values, confidence)
		}
		logs[i] = math.Log(v)
	}
	interval, err := stats.MeanInterval(logs, confidence)
	interval.Low, interval.High = math.Exp(interval.Low), math.Exp(interval.High)
	return interval, err
}

// over is the figure of a metric over trials.
func over(trials []trial, of metric) Figure { return figure(values(trials, of)) }

// known is the figure of what was measured in some trials only, or nil where in
// none.
func known(trials []trial, of func(trial) (float64, bool)) *Figure {
	var had []float64
	for _, t := range trials {
		if v, ok := of(t); ok {
			had = append(had, v)
		}
	}
	return figureOf(had)
}

// figureOf is nil where there is no value.
func figureOf(values []float64) *Figure {
	if len(values) == 0 {
		return nil
	}
	return new(figure(values))
}

// pairs returns a metric of both points, in the repeats in which both have a
// valid trial: those ran next to each other.
func pairs(a, b *point, of metric) (ofA, ofB []float64) {
	byRepeat := map[int]trial{}
	for _, t := range b.valid() {
		byRepeat[t.Repeat] = t
	}
	for _, t := range a.valid() {
		if other, both := byRepeat[t.Repeat]; both {
			ofA, ofB = append(ofA, of(t)), append(ofB, of(other))
		}
	}
	return ofA, ofB
}

// arePositive tells whether every value is known, and above zero: only such have
// a ratio.
func arePositive(values []float64) bool {
	return !slices.ContainsFunc(values, func(v float64) bool { return !(v > 0) })
}

// ratio is a metric of A over that of B, with an interval where there are
// enough pairs.
func ratio(a, b *point, of metric) Figure {
	ofA, ofB := pairs(a, b, of)
	if len(ofA) == 0 {
		ofA, ofB = values(a.valid(), of), values(b.valid(), of)
	}
	interval, err := stats.RatioInterval(ofA, ofB, confidence)
	if err != nil {
		return Figure{Value: stats.Median(ofA) / stats.Median(ofB)}
	}
	return Figure{
		Value:    interval.Estimate,
		Interval: &Interval{Low: interval.Low, High: interval.High, Confidence: confidence},
	}
}
