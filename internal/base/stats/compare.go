package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"

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
	c.Margin = 0
	for _, margin := range slices.Backward(Margins) {
		if 1/(1+margin) <= c.Ratio.Low && c.Ratio.High <= 1+margin {
			c.Margin = margin
		}
	}
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

// A ClaimVerdict is the verdict on a claimed effect.
type ClaimVerdict string

// The verdicts.
const (
	Compatible   ClaimVerdict = "compatible"   // the effect is as large as claimed, or larger
	Larger       ClaimVerdict = "larger"       // the effect is larger than claimed
	Smaller      ClaimVerdict = "smaller"      // the effect is smaller than claimed, or absent
	Refuted      ClaimVerdict = "refuted"      // there is no effect, or the opposite effect
	Underpowered ClaimVerdict = "underpowered" // the trials are too few for a verdict
)

// A LogRatio estimates the logarithm of a ratio. Its error has Student's t distribution.
type LogRatio struct {
	Mean, StandardError, Freedom float64
	Trials                       int
}

// A Claim is a claimed effect and its estimate from trials.
type Claim struct {
	// Ratio is the claimed ratio: an upper limit if it is below 1, a lower limit if above 1. 0
	// means that Least and Most are the claim; without them the claim is a ratio above 1.
	Ratio float64
	// Least and Most are the claimed bounds of the ratio, without a margin. 0 means no bound.
	Least, Most float64
	Estimate    LogRatio
}

// A ClaimTest is the result of testing a claim.
type ClaimTest struct {
	Verdict ClaimVerdict
	// P is the probability of an estimate at least this far beyond the verdict's border if the
	// true ratio is on the border.
	P float64
	// Margin is the relative difference that counts as no effect. It is the rule's margin, or a
	// smaller one if the claimed effect is small.
	Margin float64
	// Trials estimates how many trials would decide an underpowered claim in 80 of 100
	// experiments, if the estimate is true. 0 means that 10,000 trials would not suffice.
	Trials int
}

// JudgeClaims compares the claims of a study with their estimates. A border separates effects as
// large as claimed from smaller ones. A verdict needs the whole interval on one side of the
// border; [Holm] corrects the confidence for the number of claims. In at most 1 − confidence of
// the studies, more trials reverse a verdict. For a claimed ratio below 1 (a ratio above 1 is
// mirrored):
//
//	       compatible   │       smaller
//	(larger │           │           │ refuted)
//	────────┼───────────┼───────────┼─────────> ratio
//	claim/(1+margin)  claim·(1+margin)  1/(1+margin)
//
// The verdicts in brackets are stronger. A stronger verdict needs the interval beyond its own
// border too. The margin is at most a third of the claimed effect, so that all zones exist. A claim
// of a ratio above 1 has two zones: above 1+margin, and below. For a claim with bounds, estimates
// within the bounds are compatible, and other estimates refute the claim.
func JudgeClaims(claims []Claim, rule Rule) []ClaimTest {
	zones := make([]zone, len(claims))
	p := make([]float64, len(claims))
	for i, c := range claims {
		zones[i] = c.zone(rule)
		p[i] = c.Estimate.probabilityBeyond(zones[i].distance)
	}
	tests := make([]ClaimTest, len(claims))
	for i, corrected := range Holm(p) {
		c, z := claims[i], zones[i]
		tests[i] = ClaimTest{Verdict: z.verdict, P: corrected, Margin: math.Expm1(z.margin)}
		// alone is the probability of a wrong verdict that this claim may have.
		alone := (1 - rule.Confidence) * p[i] / corrected
		switch {
		case corrected >= 1-rule.Confidence:
			tests[i].Verdict, tests[i].Trials = Underpowered, c.Estimate.trialsToShow(z.distance, alone)
		case z.further > 0 && c.Estimate.probabilityBeyond(z.further) < alone:
			tests[i].Verdict = z.sharper
		}
	}
	return tests
}

// A zone is a verdict and the distance of the estimate from the verdict's border.
type zone struct {
	verdict  ClaimVerdict
	distance float64
	margin   float64 // margin as a logarithm
	// A stronger verdict, and the estimate's distance beyond its border. 0 means none.
	sharper ClaimVerdict
	further float64
}

func (c Claim) zone(rule Rule) zone {
	mean, margin := c.Estimate.Mean, math.Log1p(rule.Margin)
	switch {
	case c.Least > 0 || c.Most > 0:
		return c.zoneBetweenBounds()
	case c.Ratio == 0:
		return twoZones(mean-margin, margin)
	}
	claimed := math.Log(c.Ratio)
	if c.Ratio < 1 {
		mean, claimed = -mean, -claimed
	}
	margin = min(margin, claimed/3)
	border := claimed - margin
	if mean >= border {
		return zone{Compatible, mean - border, margin, Larger, max(0, mean-(claimed+margin))}
	}
	return zone{Smaller, border - mean, margin, Refuted, max(0, margin-mean)}
}

// zoneBetweenBounds returns a claim's zone. It needs no margin, because the bounds are the claim.
func (c Claim) zoneBetweenBounds() zone {
	inside := math.Inf(1)
	if c.Least > 0 {
		inside = c.Estimate.Mean - math.Log(c.Least)
	}
	if c.Most > 0 {
		inside = min(inside, math.Log(c.Most)-c.Estimate.Mean)
	}
	return twoZones(inside, 0)
}

// twoZones returns Compatible if inside is at least 0, otherwise Refuted.
func twoZones(inside, margin float64) zone {
	if inside >= 0 {
		return zone{verdict: Compatible, distance: inside, margin: margin}
	}
	return zone{verdict: Refuted, distance: -inside, margin: margin}
}

// probabilityBeyond returns the probability of an estimate at least this far from a border if the
// true value is on the border.
func (r LogRatio) probabilityBeyond(distance float64) float64 {
	return 2 * NewStudent(r.Freedom).CDF(-distance/r.StandardError)
}

// trialsToShow estimates how many trials prove, in 80 of 100 experiments, that an estimate is at
// this distance from a border. p is the accepted probability of an error. It returns 0 if the
// number is too large.
func (r LogRatio) trialsToShow(distance, p float64) int {
	const power, most = 0.8, 10_000
	deviation := r.StandardError * math.Sqrt(float64(r.Trials))
	n := leastTrials + sort.Search(most-leastTrials, func(i int) bool {
		n := leastTrials + i
		t := NewStudent(float64(n - 1))
		return (t.Quantile(1-p/2)+t.Quantile(power))*deviation <= distance*math.Sqrt(float64(n))
	})
	if n < most {
		return n
	}
	return 0
}
