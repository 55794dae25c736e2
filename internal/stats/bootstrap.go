package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/distuv"
)

// bootstrapDraws is how often trials are drawn anew: enough for the ends of a
// 95 % interval to repeat, from one seed to another, to a few percent of its
// width.
const bootstrapDraws = 10_000

// Resampling says how a bootstrap is done. Equal seeds give equal intervals.
type Resampling struct {
	Seed       uint64
	Confidence float64
}

// source returns the random numbers that belong to the seed.
func (r Resampling) source() *rand.Rand {
	const stream = 0x77697265 // any constant; another would be another sequence
	return rand.New(rand.NewPCG(r.Seed, stream))
}

// Bootstrap bounds any figure of independent trials, by drawing the trials anew
// with replacement. It serves figures that have no formula, such as a median;
// for a mean [MeanInterval] is better. The statistic must not keep or change the
// slice that it is given.
//
// The percentiles are widened for few trials as Student's t widens the normal
// interval (Hesterberg 2015, "What Teachers Should Know About the Bootstrap").
// Even so the interval cannot leave the range of the trials: of a nominal 95 %
// it covers the mean in 75, 92 and 94 % at 3, 5 and 10 trials.
func Bootstrap(values []float64, statistic func([]float64) float64, how Resampling) (Interval, error) {
	if err := checkTrials(values, how.Confidence); err != nil {
		return Interval{}, fmt.Errorf("stats: bootstrap interval: %w", err)
	}
	random := how.source()
	drawn := make([]float64, len(values))
	results := make([]float64, bootstrapDraws)
	for i := range results {
		for j := range drawn {
			drawn[j] = values[random.IntN(len(values))]
		}
		results[i] = statistic(drawn)
	}
	if err := checkFinite(results); err != nil {
		return Interval{}, fmt.Errorf("stats: bootstrap interval: the statistic of a draw: %w", err)
	}
	slices.Sort(results)
	tail := widenedTail(len(values), how.Confidence)
	return Interval{
		Estimate:   statistic(slices.Clone(values)),
		Low:        stat.Quantile(tail, stat.Empirical, results, nil),
		High:       stat.Quantile(1-tail, stat.Empirical, results, nil),
		Confidence: how.Confidence,
	}, nil
}

// widenedTail returns the share of bootstrap results to leave out on each side.
func widenedTail(n int, confidence float64) float64 {
	widening := math.Sqrt(float64(n) / float64(n-1))
	return distuv.UnitNormal.CDF(-widening * student(float64(n-1)).Quantile((1+confidence)/2))
}

// Median returns the median of values in any order, or NaN of none.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(values))
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
