package compare

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// oneDiffers draws comparisons of two equal variants each, but for one whose variants have
// a ratio.
type oneDiffers struct {
	comparisons, repeats int
	noise, ratio         float64 // of the trials; of those variants
}

// pairedRatio returns the ratio of complete pairs of trials, as a fit does.
func pairedRatio(a, b []float64) matrix.Ratio {
	logs := make([]float64, len(a))
	for i := range a {
		logs[i] = math.Log(a[i] / b[i])
	}
	n := float64(len(a))
	mean, variance := stat.MeanVariance(logs, nil)
	return matrix.Ratio{
		Value: math.Exp(mean), Enough: len(a) >= matrix.LeastTrials,
		Estimate: stats.Contrast{LogRatio: stats.LogRatio{Mean: mean, StandardError: math.Sqrt(variance / n), Freedom: n - 1}, Unit: 2 / n},
	}
}

// isEqual reports whether a comparison shows that variants are equal within 5 %.
func isEqual(c stats.Comparison) bool {
	return c.Verdict == stats.Equivalent && c.Margin <= matrix.Margin
}

// run returns the verdict on the one that differs.
func (e oneDiffers) run(seed uint64) (verdict stats.Verdict, of *Family) {
	random := rand.New(rand.NewPCG(seed, 7))
	of = &Family{}
	trials := func(median float64) []float64 {
		figures := make([]float64, e.repeats)
		for i := range figures {
			figures[i] = median * math.Exp(e.noise*random.NormFloat64())
		}
		return figures
	}
	for n := range e.comparisons {
		ratio, accept := 1.0, func(stats.Comparison) {}
		if n == 0 {
			ratio, accept = e.ratio, func(c stats.Comparison) {
				if verdict = c.Verdict; verdict == stats.Equivalent && !isEqual(c) {
					verdict = stats.Undecided
				}
			}
		}
		of.Add(pairedRatio(trials(ratio), trials(1)), accept)
	}
	of.Judge()
	return verdict, of
}

// share returns the share of the runs with the verdict.
func (e oneDiffers) share(verdict stats.Verdict) float64 {
	const runs = 500
	with := 0
	for seed := range uint64(runs) {
		if got, _ := e.run(seed); got == verdict {
			with++
		}
	}
	return float64(with) / runs
}

// usualPower is the middle one that runs report.
func (e oneDiffers) usualPower() Power {
	powers := make([]Power, 101)
	for seed := range powers {
		_, of := e.run(uint64(seed))
		powers[seed] = *of.Power()
	}
	slices.SortFunc(powers, func(a, b Power) int { return cmp.Compare(a.Findable, b.Findable) })
	return powers[len(powers)/2]
}

// What a run says that it could find is found in four runs of five, and the pairs that it
// asks for are enough and not many more than that.
func TestPowerIsWhatItSays(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	for _, e := range []oneDiffers{
		{36, 3, 0.08, 1}, {36, 5, 0.08, 1}, {12, 3, 0.02, 1}, {12, 10, 0.15, 1}, {1, 5, 0.05, 1}, {1, 10, 0.10, 1},
	} {
		p := e.usualPower()
		if math.Abs(p.Noise/e.noise-1) > 0.15 {
			t.Errorf("%+v: the noise is said to be %.3f", e, p.Noise)
		}
		check := func(e oneDiffers, want stats.Verdict) {
			got := e.share(want)
			t.Logf("%+v: %s in %.0f %%", e, want, 100*got)
			if got < 0.60 || got > 0.93 {
				t.Errorf("%+v: %s in %.0f %% of the runs, want about 80", e, want, 100*got)
			}
		}
		e.ratio = 1 + p.Findable
		check(e, stats.Higher)
		// Where few pairs are enough, one more or less is much.
		if n := *p.PairsForDifference; n > 6 && n < 500 {
			check(oneDiffers{e.comparisons, n, e.noise, 1 + p.Difference}, stats.Higher)
		}
	}
}

// The table of docs/statistics.md.
func TestPowerOfOneComparison(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates thousands of runs")
	}
	differences := []float64{1.05, 1.1, 1.2, 1.5}
	for _, noise := range []float64{0.02, 0.05, 0.10, 0.15} {
		for _, repeats := range []int{3, 5, 10, 20, 40} {
			found := make([]float64, len(differences))
			for i, ratio := range differences {
				found[i] = oneDiffers{1, repeats, noise, ratio}.share(stats.Higher)
			}
			equal := oneDiffers{1, repeats, noise, 1}.share(stats.Equivalent)
			t.Logf("| %.0f %% | %d | %.0f %% | %.0f %% | %.0f %% | %.0f %% | %.0f %% |",
				100*noise, repeats, 100*found[0], 100*found[1], 100*found[2], 100*found[3], 100*equal)
			if !slices.IsSorted(found) {
				t.Errorf("a greater difference is found less often: %v", found)
			}
		}
	}
}
