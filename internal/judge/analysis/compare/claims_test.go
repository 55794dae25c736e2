package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Later looks sharpen a verdict, and hardly ever turn it round. In the end, hardly any verdict is
// false.
func TestLaterLooksSharpenVerdicts(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of studies")
	}
	const studies = 4000
	const claimed = 2.0
	met := math.Log(claimed) - math.Log(1.1)
	isMet := func(o Outcome) bool { return o == Compatible || o == Larger }
	random := rand.New(rand.NewPCG(23, 29))
	turned, weaker, sharper, wrong := 0, 0, 0, 0
	for range studies {
		truth, noise := 1.4*random.Float64()-0.4, 0.03+0.25*random.Float64()
		var logs []float64
		var before Claim
		for i, look := range matrix.PlanLooks(3, 30) {
			for len(logs) < look.Repeats {
				logs = append(logs, truth+noise*random.NormFloat64())
			}
			now := Claim{statement: stats.Claim{Ratio: claimed}, P: 1}
			estimate := now.statement
			estimate.Estimate = estimateNoise(nil).estimate(sampleOf(logs))
			rule := claimRule
			rule.Confidence = matrix.Level(look.Level).Confidence()
			test := stats.JudgeClaims([]stats.Claim{estimate}, rule)[0]
			now.Ratio, now.Outcome = new(matrix.FigureOf(test.Ratio)), Outcome(test.Verdict)
			if i > 0 {
				now.narrow(&before)
				switch was, is := before.Outcome, now.Outcome; {
				case was != Underpowered && is == Underpowered:
					weaker++
				case was != Underpowered && isMet(was) != isMet(is):
					turned++
				case was != Underpowered && was != is:
					sharper++
				}
			}
			before = now
		}
		if o := before.Outcome; isMet(o) && truth < met || !isMet(o) && o != Underpowered && truth > met || o == Reversed && truth > 0 || o == Smaller && truth < 0 {
			wrong++
		}
	}
	share := func(n int) float64 { return 100 * float64(n) / studies }
	t.Logf("of the studies, %.2f %% turned a verdict round, %.2f %% lost it, %.1f %% sharpened it, and %.1f %% ended with a false one", share(turned), share(weaker), share(sharper), share(wrong))
	if turned > studies/1000 || weaker > studies/100 || sharper < studies/20 || wrong > studies/20 {
		t.Errorf("turned %d, weaker %d, sharper %d, wrong %d of %d", turned, weaker, sharper, wrong, studies)
	}
}
