package stats

import (
	"cmp"
	"math"
	"slices"
	"sort"

	"wirelab.dev/internal/base/lists"
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

// judge gives the verdict. Equivalent: the ratio's interval lies within the margin on both sides
// of 1. Higher or Lower: the ratio differs from 1 at the confidence, and its estimate by more
// than the margin.
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
	corrected := slices.Clone(comparisons)
	for i, adjusted := range Holm(lists.Map(comparisons, func(c Comparison) float64 { return c.P })) {
		corrected[i].P = adjusted
		corrected[i].Verdict = corrected[i].judge(rule)
	}
	return corrected
}

// Holm corrects the probabilities of a family of tests (Holm 1979), in their order: the chance
// of any corrected one below alpha stays below alpha, however the tests depend on each other.
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

// A ClaimVerdict is the verdict of trials on a claimed effect.
type ClaimVerdict string

// The verdicts.
const (
	Compatible   ClaimVerdict = "compatible"   // the effect is as large as is claimed, or may be larger
	Larger       ClaimVerdict = "larger"       // it is larger than is claimed
	Smaller      ClaimVerdict = "smaller"      // it is smaller than is claimed, and may be none
	Refuted      ClaimVerdict = "refuted"      // there is no effect, or the reverse
	Underpowered ClaimVerdict = "underpowered" // these trials cannot tell
)

// A LogRatio estimates the logarithm of a ratio, from trials whose noise is Student's with the
// stated degrees of freedom.
type LogRatio struct {
	Mean, StandardError, Freedom float64
	Trials                       int
}

// A Claim is an effect that somebody claims, beside its estimate.
type Claim struct {
	// Ratio is the claimed ratio: at most, if it is below 1, or at
	// least, where it is above. 0 claims that it is above 1, or what Least and Most say.
	Ratio float64
	// Least and Most bound it without a margin; 0: no bound.
	Least, Most float64
	Estimate    LogRatio
}

// A ClaimTest is the result of testing a claim.
type ClaimTest struct {
	Verdict ClaimVerdict
	// P is the probability of an estimate that speaks for the verdict this clearly
	// if the truth is on the border to another one.
	P float64
	// Margin is the relative difference that was taken for none: the rule's, or
	// less where the claimed effect is small.
	Margin float64
	// Trials estimates, for an underpowered claim, the number of trials that would decide it
	// in 80 of 100 experiments if the estimate is true. 0: no number under 10,000.
	Trials int
}

// JudgeClaims compares the claims of a study with their estimates. One border separates effects as
// large as claimed from smaller ones, and the whole interval must lie on one side of it, with the
// confidence corrected by [Holm] for the number of claims. If trials are added, a verdict turns
// into its opposite in at most 1 − confidence of the studies. For a claimed
// ratio below 1 (a ratio above 1 is mirrored):
//
//	       compatible   │       smaller
//	(larger │           │           │ refuted)
//	────────┼───────────┼───────────┼─────────> ratio
//	claim/(1+margin)  claim·(1+margin)  1/(1+margin)
//
// The verdicts in brackets say more, if the interval lies beyond their border as well. The margin
// shrinks to a third of the claimed effect, so that all zones exist. A claim that the ratio is
// above 1 has two zones: above 1+margin, and below. For a claim that it lies between bounds, an
// estimate within them is compatible, and any other one refutes the claim.
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
		// Alone, a claim may be this unlikely to be misjudged.
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

// A zone is the verdict where an estimate lies, and its distance to the border.
type zone struct {
	verdict  ClaimVerdict
	distance float64
	margin   float64 // a logarithm
	// The verdict that says more, and how far the estimate is beyond its border; 0: it is not beyond.
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

// zoneBetweenBounds has no margin, because the claim is the bounds themselves.
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

// twoZones has two zones. The claimed one is above 0.
func twoZones(inside, margin float64) zone {
	if inside >= 0 {
		return zone{verdict: Compatible, distance: inside, margin: margin}
	}
	return zone{verdict: Refuted, distance: -inside, margin: margin}
}

// probabilityBeyond returns the probability of an estimate this far from a border, if the truth is
// on it.
func (r LogRatio) probabilityBeyond(distance float64) float64 {
	return 2 * NewStudent(r.Freedom).CDF(-distance/r.StandardError)
}

// trialsToShow returns about how many trials show, in 80 of 100 experiments, a
// distance from a border with probability p, or 0.
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
