package stats

import (
	"math"
	"sort"
)

// ClaimVerdict is what trials say to a claimed effect.
type ClaimVerdict string

// The verdicts.
const (
	Compatible   ClaimVerdict = "compatible"   // the effect is as large as is claimed, or larger
	Smaller      ClaimVerdict = "smaller"      // there is an effect in that direction, and it is smaller
	Refuted      ClaimVerdict = "refuted"      // there is no effect, or the reverse
	Underpowered ClaimVerdict = "underpowered" // these trials cannot tell
)

// LogRatio is an estimate of the logarithm of a ratio, from trials whose noise is
// Student's with that many degrees of freedom.
type LogRatio struct {
	Mean, StandardError, Freedom float64
	Trials                       int
}

// Claim is an effect that somebody claims, beside its estimate.
type Claim struct {
	// Ratio is what the ratio is claimed to be at most, where it is below 1, or at
	// least, where it is above. 0 claims that it is below 1.
	Ratio    float64
	Estimate LogRatio
}

// ClaimTest is what trials say to a claim.
type ClaimTest struct {
	Verdict ClaimVerdict
	// P is the probability of an estimate that speaks for the verdict this clearly
	// if the truth is on the border to another one.
	P float64
	// Margin is the relative difference that was taken for none: the rule's, or
	// less where the claimed effect is small.
	Margin float64
	// Trials, of an underpowered claim, is about how many would tell in 80 of 100
	// experiments, if the truth is what they estimate. 0: no number under 10,000.
	Trials int
}

// JudgeClaims holds the claims of a study against their estimates. The ratios
// between the claimed one and 1 are divided into three zones, for a claimed ratio
// below 1 as follows; one above 1 is seen from the other side.
//
//	compatible │ smaller │ refuted
//	───────────┼─────────┼─────────> ratio
//	claim·(1+margin)   1/(1+margin)
//
// The zone of the estimate is the verdict if the interval lies in it as a whole,
// with the confidence corrected by [Holm] for the number of claims. So a wider
// interval decides less, and for nobody; and where trials are added, a verdict
// turns into another one in at most 1 − confidence of the studies.
//
// The margin shrinks to a third of the claimed effect, so that all zones exist. A
// claim that the ratio is below 1 has two zones: below 1/(1+margin), and above.
func JudgeClaims(claims []Claim, rule Rule) []ClaimTest {
	tests := make([]ClaimTest, len(claims))
	p := make([]float64, len(claims))
	distances := make([]float64, len(claims))
	for i, c := range claims {
		tests[i], distances[i] = c.judge(rule)
		p[i] = tests[i].P
	}
	for i, corrected := range Holm(p) {
		if corrected < 1-rule.Confidence {
			tests[i].P = corrected
			continue
		}
		// Alone, a claim may be this unlikely to be misjudged.
		alone := (1 - rule.Confidence) * p[i] / corrected
		tests[i] = ClaimTest{
			Verdict: Underpowered, P: corrected, Margin: tests[i].Margin,
			Trials: claims[i].Estimate.trialsFor(distances[i], alone),
		}
	}
	return tests
}

// judge gives the verdict of the zone in which the estimate is, and its distance
// to the nearest border of the zone.
func (c Claim) judge(rule Rule) (ClaimTest, float64) {
	mean, margin := c.Estimate.Mean, math.Log1p(rule.Margin)
	border := -margin
	if c.Ratio != 0 {
		claimed := math.Log(c.Ratio)
		if c.Ratio > 1 {
			mean, claimed = -mean, -claimed
		}
		margin = min(margin, -claimed/3)
		border = claimed + margin
	}
	none := -margin
	t := ClaimTest{Margin: math.Expm1(margin)}
	var distance float64
	switch {
	case mean <= border:
		t.Verdict, distance = Compatible, border-mean
	case mean >= none:
		t.Verdict, distance = Refuted, mean-none
	default:
		t.Verdict, distance = Smaller, min(mean-border, none-mean)
	}
	t.P = 2 * NewStudent(c.Estimate.Freedom).CDF(-distance/c.Estimate.StandardError)
	return t, distance
}

// trialsFor returns about how many trials show, in 80 of 100 experiments, a
// distance from a border with probability p, or 0.
func (r LogRatio) trialsFor(distance, p float64) int {
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
