package stats

import (
	"fmt"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"
)

// QuantileInterval bounds the q-quantile of which the sorted values are draws,
// by order statistics: exact for any continuous distribution, and never under
// the stated confidence where values tie. It assumes independent draws; requests
// of one trial are not, so within a trial it says how far the sample resolves
// the quantile, and only intervals over trials say how far it repeats.
func QuantileInterval(sorted []float64, q, confidence float64) (Interval, error) {
	if !slices.IsSorted(sorted) {
		return Interval{}, fmt.Errorf("stats: interval of a quantile: %w: the values are not sorted", ErrUnusable)
	}
	low, high, err := QuantileRanks(int64(len(sorted)), q, confidence)
	if err != nil {
		return Interval{}, err
	}
	return Interval{
		Estimate:   stat.Quantile(q, stat.Empirical, sorted, nil),
		Low:        sorted[low-1],
		High:       sorted[high-1],
		Confidence: confidence,
	}, nil
}

// QuantileRanks returns the ranks, from 1 to n, of the two order statistics of n
// draws that bound the q-quantile, with at most half of the error on either
// side. A histogram answers for the values at these ranks. Where n draws cannot
// bound it (the P99.99 of a thousand requests has no upper bound) the error
// wraps ErrTooFew.
func QuantileRanks(n int64, q, confidence float64) (low, high int64, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stats: interval of the %v quantile of %d values: %w", q, n, err)
		}
	}()
	if err := checkConfidence(confidence); err != nil {
		return 0, 0, err
	}
	if !(q > 0 && q < 1) {
		return 0, 0, fmt.Errorf("%w: the quantile is not between 0 and 1", ErrUnusable)
	}
	tail := (1 - confidence) / 2
	// As many draws lie below the quantile as a binomial variable says. Of rank
	// r, the quantile is below with probability P(count < r), and above or at it
	// with P(count >= r).
	low = int64(sort.Search(int(n), func(r int) bool { return binomialCDF(int64(r), n, q) > tail }))
	high = 1 + int64(sort.Search(int(n), func(r int) bool { return binomialCDF(int64(r), n, q) >= 1-tail }))
	if low < 1 || high > n {
		return 0, 0, ErrTooFew
	}
	return low, high, nil
}

// binomialCDF returns the probability of at most k successes in n tries.
func binomialCDF(k, n int64, p float64) float64 {
	if k < 0 {
		return 0
	}
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
