package stats

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
)

// A Verdict is the outcome of a comparison of A with B. The caller knows whether higher is better.
type Verdict string

// The verdicts.
const (
	Higher     Verdict = "higher"     // A is above B, by more than the margin
	Lower      Verdict = "lower"      // A is below B, by more than the margin
	Equivalent Verdict = "equivalent" // A and B differ by less than the margin
	Undecided  Verdict = "undecided"  // the trials do not show a difference or an equivalence
)

// Rule holds the limits of a verdict.
type Rule struct {
	// Margin is the largest relative difference that does not matter: 0.02 for 2 %.
	Margin float64
	// Confidence is the confidence level of the interval, such as 0.95. One minus Confidence is
	// the probability of finding a difference that does not exist.
	Confidence float64
}

// A Comparison compares the trials of A with those of B.
type Comparison struct {
	// Ratio is A divided by B.
	Ratio Interval `json:"ratio"`
	// P is the probability of a ratio at least this far from 1 if A and B do not differ.
	P       float64 `json:"p"`
	Verdict Verdict `json:"verdict"`
}

// judge returns the verdict. Equivalent means that the ratio's interval lies within the margin
// around 1. Higher and Lower mean that the interval excludes 1, and that the estimate differs from
// 1 by more than the margin.
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

// CorrectFamily corrects P of all comparisons of a matrix for their number, by [Holm], and judges
// them again. If no cells differ, it finds no difference with the given confidence. It does not
// change the intervals.
func CorrectFamily(comparisons []Comparison, rule Rule) []Comparison {
	corrected := slices.Clone(comparisons)
	for i, adjusted := range Holm(lists.Map(comparisons, func(c Comparison) float64 { return c.P })) {
		corrected[i].P = adjusted
		corrected[i].Verdict = corrected[i].judge(rule)
	}
	return corrected
}

// Holm corrects the P values of a family of tests (Holm 1979) and keeps their order. The
// probability that any corrected value of a true null hypothesis is below alpha is at most alpha.
// The tests may depend on each other.
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
