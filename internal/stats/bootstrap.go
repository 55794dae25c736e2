package stats

import (
	"math"
	"math/rand/v2"
	"slices"
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
