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
	Higher     Verdict = "higher"     // A is above B
	Lower      Verdict = "lower"      // A is below B
	Equivalent Verdict = "equivalent" // A and B differ by less than one of Margins
	Undecided  Verdict = "undecided"  // the trials do not show a difference or an equivalence
)

// Margins lists the relative differences within which two variants may be equal, ascending.
var Margins = []float64{0.01, 0.02, 0.05, 0.10}

// Rule holds the limits of a claim's verdict.
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
	Ratio Interval
	// P is the probability of a ratio at least this far from 1 if A and B do not differ.
	P       float64
	Verdict Verdict
	// Margin is the smallest of Margins that contains the whole interval, or 0.
	Margin float64
}

// judge sets the verdict and the margin. Higher and Lower mean that A and B differ, by however little.
// Equivalent means that no difference is found, and that the interval lies within a margin around 1.
func (c *Comparison) judge(confidence float64) {
	c.Margin = MarginAround(c.Ratio.Low, c.Ratio.High)
	different := c.P < 1-confidence
	switch {
	case different && c.Ratio.Estimate > 1:
		c.Verdict = Higher
	case different && c.Ratio.Estimate < 1:
		c.Verdict = Lower
	case c.Margin > 0:
		c.Verdict = Equivalent
	default:
		c.Verdict = Undecided
	}
}

// MarginAround returns the smallest of Margins that contains the whole interval of a ratio, or 0.
func MarginAround(low, high float64) float64 {
	for _, margin := range Margins {
		if 1/(1+margin) <= low && high <= 1+margin {
			return margin
		}
	}
	return 0
}

// CorrectFamily corrects P of all comparisons of a matrix for their number, by [Holm], and judges
// them. If no cells differ, it finds no difference with the given confidence. It does not change the
// intervals.
func CorrectFamily(comparisons []Comparison, confidence float64) []Comparison {
	corrected := slices.Clone(comparisons)
	for i, adjusted := range Holm(lists.Map(comparisons, func(c Comparison) float64 { return c.P })) {
		corrected[i].P = adjusted
		corrected[i].judge(confidence)
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
