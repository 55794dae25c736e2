package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// bootstrapDraws is the number of resamples: enough for the ends of a 95 % interval to
// differ between seeds by only a few percent of its width.
const bootstrapDraws = 10_000

// Resampling holds the settings of a bootstrap. Equal seeds give equal intervals.
type Resampling struct {
	Seed       uint64
	Confidence float64
}

// source returns the random numbers of the seed.
func (r Resampling) source() *rand.Rand {
	const stream = 0x77697265 // any constant: another one gives another sequence
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
