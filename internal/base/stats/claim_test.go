package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// claimed draws the logarithms of the paired ratios of a claim's trials. Both
// sides of a ratio have the noise.
func claimed(random *rand.Rand, truth, noise float64, trials int) []float64 {
	logs := make([]float64, trials)
	for i := range logs {
		logs[i] = math.Log(truth) + noise*math.Sqrt2*random.NormFloat64()
	}
	return logs
}

func estimate(logs []float64) LogRatio {
	mean, standardError := meanAndError(logs)
	return LogRatio{mean, standardError, float64(len(logs) - 1), len(logs)}
}

// Whatever the number of trials, a false verdict is rare; and the true one becomes
// more frequent with it.
func TestClaimVerdicts(t *testing.T) {
	simulates(t)
	const experiments = 1000
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	for _, c := range []struct {
		name                string
		claim, truth, noise float64
		right               ClaimVerdict
		least, most         float64
	}{
		{name: "as claimed", claim: 0.54, truth: 0.54, noise: 0.10, right: Compatible},
		{name: "more than claimed", claim: 0.54, truth: 0.40, noise: 0.10, right: Larger},
		{name: "less than claimed", claim: 0.54, truth: 0.65, noise: 0.10, right: Smaller},
		{name: "a small effect", claim: 0.875, truth: 0.95, noise: 0.03, right: Smaller},
		{name: "no effect", claim: 0.54, truth: 1, noise: 0.10, right: Refuted},
		{name: "the reverse", claim: 0.54, truth: 1.3, noise: 0.10, right: Reversed},
		{name: "twice as much", claim: 2, truth: 2, noise: 0.10, right: Compatible},
		{name: "half more", claim: 2, truth: 1.5, noise: 0.10, right: Smaller},
		{name: "four times", claim: 2, truth: 4, noise: 0.10, right: Larger},
		{name: "more", truth: 1.25, noise: 0.10, right: Compatible},
		{name: "not more", truth: 1, noise: 0.05, right: Refuted},
		{name: "less, not more", truth: 0.7, noise: 0.05, right: Reversed},
		{name: "between", least: 0.8, most: 1.25, truth: 1, noise: 0.05, right: Compatible},
		{name: "not between", least: 0.8, most: 1.25, truth: 1.5, noise: 0.05, right: Refuted},
		{name: "at least", least: 2, truth: 2.2, noise: 0.05, right: Compatible},
		{name: "not at most", most: 2, truth: 2.2, noise: 0.05, right: Refuted},
	} {
		before := 0.0
		for _, trials := range []int{3, 5, 10, 30} {
			counts := map[ClaimVerdict]int{}
			random := rand.New(rand.NewPCG(7, uint64(trials)))
			for range experiments {
				logs := claimed(random, c.truth, c.noise, trials)
				counts[JudgeClaims([]Claim{{Ratio: c.claim, Least: c.least, Most: c.most, Estimate: estimate(logs)}}, rule)[0].Verdict]++
			}
			switch c.right { // a verdict that says less is right, too
			case Larger:
				counts[Larger] += counts[Compatible]
			case Smaller:
				counts[Smaller] += counts[NotSeen]
			case Refuted:
				counts[Refuted] += counts[NotSeen]
			case Reversed:
				counts[Reversed] += counts[NotSeen] + counts[Refuted]
			}
			share := func(v ClaimVerdict) float64 { return float64(counts[v]) / experiments }
			t.Logf("%-17s %2d trials: %3.0f %% %s, %3.0f %% underpowered", c.name, trials, 100*share(c.right), c.right, 100*share(Underpowered))
			if wrong := 1 - share(c.right) - share(Underpowered); wrong > 0.05 {
				t.Errorf("%s: %d trials give a false verdict in %.1f %%: %v", c.name, trials, 100*wrong, counts)
			}
			if share(c.right) < before-0.05 {
				t.Errorf("%s: %d trials find the truth in %.0f %%, and fewer in %.0f %%", c.name, trials, 100*share(c.right), 100*before)
			}
			before = share(c.right)
		}
	}
}

// contradicts reports whether two verdicts on one claim cannot both be true, except on the border
// between them.
func contradicts(a, b ClaimVerdict) bool {
	met := func(v ClaimVerdict) bool { return v == Compatible || v == Larger }
	switch {
	case a == Underpowered || b == Underpowered:
		return false
	case met(a) != met(b):
		return true
	}
	return a == Smaller && b == Reversed || a == Reversed && b == Smaller
}

// A verdict of few trials is not turned round by more trials.
func TestClaimVerdictsStay(t *testing.T) {
	simulates(t)
	const studies = 4000
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	random := rand.New(rand.NewPCG(3, 5))
	turned := 0
	for range studies {
		// Any truth, also near the borders between verdicts and on the other side of 1.
		truth := math.Exp(0.4 - 1.4*random.Float64())
		logs := claimed(random, truth, 0.03+0.12*random.Float64(), 40)
		first := Underpowered
		for trials := 3; trials <= len(logs); trials = 2*trials - 1 {
			verdict := JudgeClaims([]Claim{{Ratio: 0.54, Estimate: estimate(logs[:trials])}}, rule)[0].Verdict
			if contradicts(first, verdict) {
				turned++
				break
			}
			if verdict != Underpowered {
				first = verdict
			}
		}
	}
	t.Logf("a verdict turned round in %.2f %% of the studies", 100*float64(turned)/studies)
	if turned > studies/100 {
		t.Errorf("%d of %d verdicts turned round", turned, studies)
	}
}

// A verdict follows from the printed interval: the clearer an effect, the stronger the word. The
// first case is a real one (page faults, 0.361 where 47 was claimed), which was called smaller.
func TestClaimVerdictFollowsFromItsInterval(t *testing.T) {
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	for _, test := range []struct {
		claim     Claim
		low, high float64
		want      ClaimVerdict
	}{
		{Claim{Ratio: 47}, 0.184, 0.707, Reversed},
		{Claim{Ratio: 47}, 0.184, 0.95, Refuted}, // less than 1, but perhaps within the margin
		{Claim{Ratio: 47}, 0.184, 1.05, Refuted},
		{Claim{Ratio: 47}, 0.184, 1.5, NotSeen},
		{Claim{Ratio: 47}, 1.02, 1.08, Refuted},
		{Claim{Ratio: 47}, 1.02, 1.5, Smaller},
		{Claim{Ratio: 47}, 1.02, 47, Underpowered},
		{Claim{Ratio: 47}, 44, 60, Compatible},
		{Claim{Ratio: 47}, 55, 60, Larger},
		{Claim{Ratio: 0.5}, 0.3, 0.4, Larger},
		{Claim{Ratio: 0.5}, 0.8, 1.2, NotSeen},
		{Claim{Ratio: 0.5}, 1.2, 9, Reversed},
		{Claim{}, 1.2, 9, Compatible},
		{Claim{}, 0.9, 1.05, Refuted},
		{Claim{}, 0.5, 0.8, Reversed},
		{Claim{}, 0.9, 1.2, Underpowered},
		{Claim{Least: 1, Most: 2}, 1, 2, Compatible},
		{Claim{Least: 1, Most: 2}, 2.1, 3, Refuted},
		{Claim{Least: 1, Most: 2}, 1.9, 3, Underpowered},
	} {
		if got := test.claim.Verdict(Interval{Low: test.low, High: test.high}, rule); got != test.want {
			t.Errorf("%+v with %v to %v: %s, want %s", test.claim, test.low, test.high, got, test.want)
		}
	}
}

// The number of trials that an underpowered claim is told would tell, does.
func TestClaimTrialsTell(t *testing.T) {
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	known := LogRatio{Mean: math.Log(0.65), StandardError: 0.1, Freedom: 1e6, Trials: 2}
	test := JudgeClaims([]Claim{{Ratio: 0.54, Estimate: known}}, rule)[0]
	if test.Verdict != Underpowered || test.Trials < 3 {
		t.Fatalf("%+v", test)
	}
	random := rand.New(rand.NewPCG(11, 13))
	const experiments = 1000
	found := 0
	for range experiments {
		logs := claimed(random, 0.65, 0.1, test.Trials)
		if JudgeClaims([]Claim{{Ratio: 0.54, Estimate: estimate(logs)}}, rule)[0].Verdict == Smaller {
			found++
		}
	}
	t.Logf("%d trials tell in %.0f %%", test.Trials, 100*float64(found)/experiments)
	if share := float64(found) / experiments; share < 0.7 || share > 0.95 {
		t.Errorf("%d trials tell in %.0f %%, want about 80", test.Trials, 100*share)
	}
}

// isTrue reports whether a verdict is true of a true effect. All numbers are logarithms in the claimed
// direction. A truth on a border makes both verdicts true.
func isTrue(v ClaimVerdict, truth, claimed, margin float64) bool {
	const rounding = 1e-9
	atLeast := func(border float64) bool { return truth >= border-rounding }
	atMost := func(border float64) bool { return truth <= border+rounding }
	switch v {
	case Larger:
		return atLeast(claimed + margin)
	case Compatible:
		return atLeast(claimed - margin)
	case Smaller:
		return atMost(claimed-margin) && atLeast(0)
	case NotSeen:
		return atMost(claimed - margin)
	case Refuted:
		return atMost(margin)
	case Reversed:
		return atMost(-margin)
	}
	return true
}

// Of many claims whose truth lies just beside a border, hardly any study calls one otherwise, whichever
// border it is: a claim that is clear at one border must not spend the level of another.
func TestClaimsAreCorrectedForTheirNumber(t *testing.T) {
	simulates(t)
	const studies = 1000
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	random := rand.New(rand.NewPCG(17, 19))
	const beside = 1e-6
	margin, ratio := math.Log(1.1), math.Log(3)
	for _, c := range []struct {
		name   string
		claims int
		truths []float64
	}{
		{"the claim", 11, []float64{ratio - margin - beside, ratio - margin + beside}},
		{"larger", 11, []float64{ratio + margin - beside}},
		{"no effect", 11, []float64{-beside, beside}},
		{"the margin", 28, []float64{margin + beside}},
		{"the reverse", 28, []float64{-margin + beside}},
		{"all", 28, []float64{ratio - margin - beside, ratio + margin - beside, -beside, beside, margin + beside, -margin + beside}},
		{"all, and clear claims", 28, []float64{ratio - margin - beside, 2, 0.6, -0.6, ratio + margin - beside, 2.5, -beside, beside, -0.7, margin + beside, 3}},
	} {
		wrong := 0
		for range studies {
			all, truths := make([]Claim, c.claims), make([]float64, c.claims)
			for i := range all {
				truths[i] = c.truths[i%len(c.truths)]
				all[i] = Claim{Ratio: 3, Estimate: estimate(claimed(random, math.Exp(truths[i]), 0.02, 5))}
			}
			for i, test := range JudgeClaims(all, rule) {
				if !isTrue(test.Verdict, truths[i], ratio, margin) {
					wrong++
					break
				}
			}
		}
		t.Logf("%-22s %.1f %% of studies hold a false verdict", c.name, 100*float64(wrong)/studies)
		if wrong > studies*5/100+15 { // 2 standard errors of 5 %
			t.Errorf("%s: %d of %d studies hold a false verdict", c.name, wrong, studies)
		}
	}
}
