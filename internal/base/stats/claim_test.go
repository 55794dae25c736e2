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
		{name: "the reverse", claim: 0.54, truth: 1.3, noise: 0.10, right: Refuted},
		{name: "twice as much", claim: 2, truth: 2, noise: 0.10, right: Compatible},
		{name: "half more", claim: 2, truth: 1.5, noise: 0.10, right: Smaller},
		{name: "four times", claim: 2, truth: 4, noise: 0.10, right: Larger},
		{name: "more", truth: 1.25, noise: 0.10, right: Compatible},
		{name: "not more", truth: 1, noise: 0.05, right: Refuted},
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
			switch c.right { // what says less is right as well
			case Larger:
				counts[Larger] += counts[Compatible]
			case Refuted:
				counts[Refuted] += counts[Smaller]
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

// atLeast is the side of the claim that the verdict is on.
func atLeast(v ClaimVerdict) ClaimVerdict {
	switch v {
	case Larger:
		return Compatible
	case Refuted:
		return Smaller
	}
	return v
}

// As a study goes on, a verdict that was given stays.
func TestClaimVerdictsStay(t *testing.T) {
	simulates(t)
	const studies = 1000
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	random := rand.New(rand.NewPCG(3, 5))
	turned := 0
	for range studies {
		// Any truth, the borders between verdicts among them.
		truth := math.Exp(-random.Float64())
		logs := claimed(random, truth, 0.03+0.12*random.Float64(), 40)
		first := Underpowered
		for trials := 3; trials <= len(logs); trials = 2*trials - 1 {
			verdict := JudgeClaims([]Claim{{Ratio: 0.54, Estimate: estimate(logs[:trials])}}, rule)[0].Verdict
			if first != Underpowered && verdict != Underpowered && atLeast(verdict) != atLeast(first) {
				turned++
				break
			}
			if verdict != Underpowered {
				first = verdict
			}
		}
	}
	t.Logf("a verdict turned round in %.1f %% of the studies", 100*float64(turned)/studies)
	if turned > studies/20 {
		t.Errorf("%d of %d verdicts turned round", turned, studies)
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

// Of many claims without any effect beyond the border, hardly any study has one
// that is called otherwise.
func TestClaimsAreCorrectedForTheirNumber(t *testing.T) {
	simulates(t)
	const studies, claims = 400, 11
	rule := Rule{Margin: 0.1, Confidence: 0.95}
	random := rand.New(rand.NewPCG(17, 19))
	wrong := 0
	for range studies {
		var all []Claim
		for range claims {
			// The truth is on the border, just on the side of "smaller".
			all = append(all, Claim{Ratio: 0.54, Estimate: estimate(claimed(random, 0.54*1.1, 0.05, 5))})
		}
		for _, test := range JudgeClaims(all, rule) {
			if atLeast(test.Verdict) == Compatible {
				wrong++
				break
			}
		}
	}
	t.Logf("%.1f %% of studies hold a false verdict", 100*float64(wrong)/studies)
	if wrong > studies/20 {
		t.Errorf("%d of %d studies", wrong, studies)
	}
}
