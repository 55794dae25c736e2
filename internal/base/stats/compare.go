package stats

import (
	"cmp"
	"slices"
)

// A Verdict is the outcome of a comparison of A with B. Whether higher is better depends on
// the figure, which this package does not know.
type Verdict string

// The verdicts.
const (
	Higher     Verdict = "higher"     // A is above B, by more than the margin
	Lower      Verdict = "lower"      // A is below B, by more than the margin
	Equivalent Verdict = "equivalent" // they differ by less than the margin
	Undecided  Verdict = "undecided"  // the trials do not show which
)

// Rule holds the limits of a verdict.
type Rule struct {
	// Margin is the relative difference that does not matter: 0.02 for 2 %.
	Margin float64
	// Confidence is the confidence of the interval. One minus it is the chance of finding
	// a difference that does not exist: 0.95.
	Confidence float64
}

// A Comparison compares the trials of A with those of B.
type Comparison struct {
	// Ratio is A divided by B.
	Ratio Interval `json:"ratio"`
	// P is the probability of a ratio this far from 1 if there is no difference.
	P       float64 `json:"p"`
	Verdict Verdict `json:"verdict"`
}

// judge gives the verdict. Equivalent: the interval of the ratio lies within the
// margin on both sides of 1. Higher or Lower: the ratio differs from 1 at the
// confidence, and the estimate by more than the margin. Undecided: neither.
func (c Comparison) judge(rule Rule) Verdict {
	least, most := 1/(1+rule.Margin), 1+rule.Margin
	different := c.P < 1-rule.Confidence
	switch {
	case least <= c.Ratio.Low && c.Ratio.High <= most:
		return Equivalent
	case different && c.Ratio.Estimate > most:
		return Higher
	case different && c.Ratio.Estimate < least:
		return Lower
	}
	return Undecided
}

// CorrectFamily corrects the P of all comparisons of a matrix for their number, by [Holm], and
// judges them again: in a matrix without any difference, none is found with the given
// confidence. Each interval stays that of its comparison alone.
func CorrectFamily(comparisons []Comparison, rule Rule) []Comparison {
	p := make([]float64, len(comparisons))
	for i, c := range comparisons {
		p[i] = c.P
	}
	corrected := slices.Clone(comparisons)
	for i, adjusted := range Holm(p) {
		corrected[i].P = adjusted
		corrected[i].Verdict = corrected[i].judge(rule)
	}
	return corrected
}

// Holm corrects the probabilities of a family of tests (Holm 1979): a corrected one
// below alpha is a finding, and the chance of any false finding in the family stays
// below alpha, however the tests depend on each other. It keeps the order.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	corrected := make([]float64, len(p))
	greatest := 0.0
	for rank, i := range order {
		greatest = max(greatest, min(1, p[i]*float64(len(p)-rank)))
		corrected[i] = greatest
	}
	return corrected
}
