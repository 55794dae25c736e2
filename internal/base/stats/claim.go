package stats

import (
	"math"
	"slices"
	"sort"
)

// A ClaimVerdict is the verdict on a claimed effect.
type ClaimVerdict string

// The verdicts.
const (
	Compatible   ClaimVerdict = "compatible"   // the effect is as large as claimed, or larger
	Larger       ClaimVerdict = "larger"       // the effect is larger than claimed
	Smaller      ClaimVerdict = "smaller"      // there is an effect, and it is smaller than claimed
	NotSeen      ClaimVerdict = "not seen"     // the effect is smaller than claimed, and may be absent or reversed
	Refuted      ClaimVerdict = "refuted"      // there is no effect, or one within the margin; or the value is out of bounds
	Reversed     ClaimVerdict = "reversed"     // there is the opposite effect
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
	// Ratio holds the claim's interval. The intervals are corrected for the number of claims: each
	// verdict follows from its interval alone.
	Ratio   Interval
	Verdict ClaimVerdict
	// P is the probability of an estimate at least this far from the border of the claim if the
	// true ratio is on the border. It is corrected for the number of claims.
	P float64
	// Margin is the relative difference that counts as no effect. It is the rule's margin, or a
	// smaller one if the claimed effect is small.
	Margin float64
	// Trials estimates how many trials would decide an underpowered claim in 80 of 100
	// experiments, if the estimate is true. 0 means that 10,000 trials would not suffice.
	Trials int
}

// JudgeClaims compares the claims of a study with their estimates. It computes one interval per
// claim, at a common level, and reads every verdict off that interval, see [Claim.Verdict].
//
// The level is that of Bonferroni for the claims that are open, where a claim is open if its
// interval contains a border between two verdicts. The first step counts all claims as open. A
// claim whose interval contains no border cannot change its verdict, so the next step counts only
// the others, as Holm's method does. In at most 1 − confidence of the studies any verdict is false
// (TestClaimsAreCorrectedForTheirNumber).
func JudgeClaims(claims []Claim, rule Rule) []ClaimTest {
	open := max(1, len(claims))
	for {
		still := 0
		for _, c := range claims {
			if c.isOpen(c.Estimate.interval((1-rule.Confidence)/float64(open)), rule) {
				still++
			}
		}
		if still = max(1, still); still >= open {
			break
		}
		open = still
	}
	level := (1 - rule.Confidence) / float64(open)
	tests := make([]ClaimTest, len(claims))
	for i, c := range claims {
		ratio, distance := c.Estimate.interval(level), c.distance(rule)
		ratio.Confidence = rule.Confidence
		tests[i] = ClaimTest{
			Ratio: ratio, Verdict: c.Verdict(ratio, rule), Margin: math.Expm1(c.borders(rule).margin),
			P: min(1, float64(open)*c.Estimate.probabilityBeyond(distance)),
		}
		if tests[i].Verdict == Underpowered {
			tests[i].Trials = c.Estimate.trialsToShow(distance, level)
		}
	}
	return tests
}

// Verdict returns the verdict that an interval of the ratio supports. For a claimed ratio above 1
// (a ratio below 1 is mirrored) the interval must lie between these borders as a whole:
//
//	reversed │   refuted   │  smaller  │  compatible  │  larger
//	─────────┼──────1──────┼───────────┼──────────────┼─────────> ratio
//	  1/(1+margin)    1+margin  claim/(1+margin)  claim·(1+margin)
//
// An interval below the claim that reaches from above the margin to 1 or below is not seen. A
// stronger verdict includes the weaker one beside it: larger is compatible, too. The margin is at
// most a third of the claimed effect, so that all zones exist. A claim of a ratio above 1 is
// compatible above 1+margin. For a claim with bounds, intervals within the bounds are compatible,
// and intervals outside refute the claim.
func (c Claim) Verdict(ratio Interval, rule Rule) ClaimVerdict {
	b := c.borders(rule)
	low, high := math.Log(ratio.Low), math.Log(ratio.High)
	if b.bounded {
		switch {
		case low >= b.least && high <= b.most:
			return Compatible
		case high < b.least || low > b.most:
			return Refuted
		}
		return Underpowered
	}
	if b.mirrored {
		low, high = -high, -low
	}
	switch {
	case low > b.larger:
		return Larger
	case low > b.met:
		return Compatible
	case high >= b.met:
		return Underpowered
	case high < -b.margin:
		return Reversed
	case high < b.margin:
		return Refuted
	case low > 0:
		return Smaller
	}
	return NotSeen
}

// borders holds the borders between the verdicts of a claim, as logarithms.
type borders struct {
	margin float64
	// met and larger are effects in the claimed direction. mirrored is true if the claimed
	// direction is below 1.
	met, larger float64
	mirrored    bool
	// A claim with bounds has no other borders.
	bounded     bool
	least, most float64
}

func (c Claim) borders(rule Rule) borders {
	margin := math.Log1p(rule.Margin)
	switch {
	case c.Least > 0 || c.Most > 0:
		b := borders{bounded: true, least: math.Inf(-1), most: math.Inf(1)}
		if c.Least > 0 {
			b.least = math.Log(c.Least)
		}
		if c.Most > 0 {
			b.most = math.Log(c.Most)
		}
		return b
	case c.Ratio == 0:
		return borders{margin: margin, met: margin, larger: math.Inf(1)}
	}
	claimed := math.Abs(math.Log(c.Ratio))
	margin = min(margin, claimed/3)
	return borders{margin: margin, met: claimed - margin, larger: claimed + margin, mirrored: c.Ratio < 1}
}

// isOpen reports whether a narrower interval may have another verdict, because the interval contains
// a border.
func (c Claim) isOpen(ratio Interval, rule Rule) bool {
	b := c.borders(rule)
	low, high := math.Log(ratio.Low), math.Log(ratio.High)
	all := []float64{b.least, b.most}
	if !b.bounded {
		all = []float64{-b.margin, b.margin, b.met, b.larger}
	}
	if b.mirrored {
		low, high = -high, -low
	}
	if !b.bounded && high >= b.margin {
		all = append(all, 0) // smaller or not seen
	}
	return slices.ContainsFunc(all, func(border float64) bool { return low <= border && border <= high })
}

// distance returns the distance of the estimate from the border that decides the claim: between
// compatible and smaller, or the nearer bound.
func (c Claim) distance(rule Rule) float64 {
	b, mean := c.borders(rule), c.Estimate.Mean
	switch {
	case b.bounded:
		return math.Abs(min(mean-b.least, b.most-mean))
	case b.mirrored:
		mean = -mean
	}
	return math.Abs(mean - b.met)
}

// interval returns the interval of the ratio, at a level of two-sided errors.
func (r LogRatio) interval(level float64) Interval {
	half := r.StandardError * NewStudent(r.Freedom).Quantile(1-level/2)
	return Interval{Estimate: math.Exp(r.Mean), Low: math.Exp(r.Mean - half), High: math.Exp(r.Mean + half), Confidence: 1 - level}
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
