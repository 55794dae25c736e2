package analysis

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/stats"
)

// LeastTrials is the smallest number of trials that gets an interval or a verdict, as
// in package stats.
const LeastTrials = 3

// confidence is that of every interval that does not state another.
const confidence = 0.95

// figure is the median of the trials' figures. Its interval is that of their
// mean, by Student's t: for three to ten trials nothing that bounds a median
// keeps its promise. Positive figures are taken by their logarithms, since their
// noise is a factor. Where outliers pull the mean away from the median, the
// interval is stretched to hold both.
func figure(values []float64, at level) Figure {
	if len(values) == 0 {
		return Figure{}
	}
	f := Figure{Value: stats.Median(values)}
	interval, err := meanInterval(values, at.confidence())
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

func meanInterval(values []float64, confidence float64) (stats.Interval, error) {
	logs := make([]float64, len(values))
	for i, v := range values {
		if v <= 0 {
			return stats.MeanInterval(values, confidence)
		}
		logs[i] = math.Log(v)
	}
	interval, err := stats.MeanInterval(logs, confidence)
	return exp(interval), err
}

// exp turns an interval of logarithms into one of the figures.
func exp(i stats.Interval) stats.Interval {
	i.Estimate, i.Low, i.High = math.Exp(i.Estimate), math.Exp(i.Low), math.Exp(i.High)
	return i
}

// over is the figure of a metric over trials.
func over(trials []trial, of metric) Figure { return figure(values(trials, of), levelFor(trials)) }

// levelFor is that of trials, which are all of one run.
func levelFor(trials []trial) level {
	if len(trials) == 0 {
		return 0
	}
	return trials[0].level
}

// known is the figure of a metric over the trials in which it was measured, or nil
// where there is none.
func known(trials []trial, of metric) *Figure {
	measured := knownValues(trials, of)
	if len(measured) == 0 {
		return nil
	}
	return new(figure(measured, levelFor(trials)))
}

// knownValues are a metric's figures over the trials in which it was measured.
func knownValues(trials []trial, of metric) []float64 {
	return slices.DeleteFunc(values(trials, of), math.IsNaN)
}

// pairs returns a metric of both points for the repeats in which both have a valid
// trial: those two trials ran next to each other.
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

// arePositive reports whether every value is known and above zero, as a ratio needs.
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
	interval, err := stats.RatioInterval(ofA, ofB, a.level.confidence())
	if err != nil {
		return Figure{Value: stats.Median(ofA) / stats.Median(ofB)}
	}
	return estimated(stated(interval))
}

// stated is an interval at a look with the confidence that all looks have together.
func stated(i stats.Interval) stats.Interval {
	i.Confidence = confidence
	return i
}

// estimated converts an interval of package stats, where a confidence of 0 means that
// there is only the estimate.
func estimated(i stats.Interval) Figure {
	f := Figure{Value: i.Estimate}
	if i.Confidence > 0 {
		f.Interval = &Interval{Low: i.Low, High: i.High, Confidence: i.Confidence}
	}
	return f
}
