package stats

import (
	"math"
	"slices"
	"testing"
)

var (
	sweep = []float64{512, 1024, 2048, 4096, 8192, 16384, 32768, 65536}
	rule  = CrossoverRule{SharpStep: 2, SharpJump: 0.1}
)

// pairedRatio returns the ratio of two samples of trials that form pairs.
func pairedRatio(a, b []float64) Interval {
	logs := make([]float64, len(a))
	for i := range a {
		logs[i] = math.Log(a[i] / b[i])
	}
	mean, standardError := meanAndError(logs)
	return LogRatio{Mean: mean, StandardError: standardError, Freedom: float64(len(logs) - 1)}.Interval(0.95)
}

func pairedRatios(a, b Curve) (all []Interval) {
	for i := range a.Y {
		all = append(all, pairedRatio(a.Y[i], b.Y[i]))
	}
	return all
}

// cross finds the crossovers of two curves whose ratio is known.
func cross(t *testing.T, seed uint64, noise float64, ratio func(x float64) float64) []Crossover {
	t.Helper()
	a := noisy(seed, 5, noise, sweep, func(x float64) float64 { return 1e5 * ratio(x) })
	b := noisy(seed+1000, 5, noise, sweep, func(float64) float64 { return 1e5 })
	return FindCrossovers(sweep, pairedRatios(a, b), rule)
}

func TestGradualCrossoverOfKnownTruth(t *testing.T) {
	const experiments, truth = 200, 5000.0
	right := 0
	for seed := range uint64(experiments) {
		found := cross(t, seed, 0.02, func(x float64) float64 { return math.Pow(x/truth, 0.1) })
		if len(found) == 1 && found[0].Kind == Gradual && found[0].Beyond == Higher &&
			found[0].Low <= truth && truth <= found[0].High && math.Abs(math.Log2(found[0].X/truth)) < 0.5 {
			right++
		}
	}
	t.Logf("%d of %d", right, experiments)
	if right < experiments*90/100 {
		t.Errorf("found in %d of %d", right, experiments)
	}
}

func TestSharpCrossoverOfKnownTruth(t *testing.T) {
	const experiments = 200
	right := 0
	for seed := range uint64(experiments) {
		found := cross(t, seed, 0.02, func(x float64) float64 {
			if x < 30_000 {
				return 1.2
			}
			return 0.8
		})
		if len(found) == 1 && found[0].Kind == Sharp && found[0].Beyond == Lower && found[0].Low == 16384 && found[0].High == 32768 {
			right++
		}
	}
	if right < experiments*98/100 {
		t.Errorf("found in %d of %d", right, experiments)
	}
}

func TestEqualCurvesDoNotCross(t *testing.T) {
	const experiments = 200
	crossed := 0
	for seed := range uint64(experiments) {
		if slices.ContainsFunc(cross(t, seed, 0.02, func(float64) float64 { return 1 }), func(c Crossover) bool { return c.Kind != Indistinct }) {
			crossed++
		}
	}
	t.Logf("%d of %d", crossed, experiments)
	if crossed > experiments/20 {
		t.Errorf("equal curves cross in %d of %d", crossed, experiments)
	}
}

// exact makes curves without noise, so that every rule shows by itself: a ratio
// of 1 plus a little that its trials disagree on is never sure.
func exact(ratios ...float64) (a, b Curve) {
	for i, ratio := range ratios {
		a.X = append(a.X, float64(int(100)<<i))
		trials := []float64{ratio, ratio, ratio}
		if math.Abs(ratio-1) < 0.05 {
			trials = []float64{ratio * 0.8, ratio, ratio / 0.8}
		}
		a.Y = append(a.Y, trials)
		b.Y = append(b.Y, []float64{1, 1, 1})
	}
	b.X = a.X
	return a, b
}

func TestKindsOfCrossover(t *testing.T) {
	for name, test := range map[string]struct {
		ratios []float64
		want   []Crossover
	}{
		"none":              {[]float64{1.5, 1.4, 1.3}, nil},
		"sharp":             {[]float64{1.5, 0.5, 0.5}, []Crossover{{Low: 100, High: 200, Kind: Sharp, Beyond: Lower}}},
		"too small a jump":  {[]float64{1.05, 0.96, 0.9}, []Crossover{{Low: 100, High: 400, Kind: Gradual, Beyond: Lower}}},
		"unsure in between": {[]float64{0.5, 1.01, 1.01, 2}, []Crossover{{Low: 100, High: 800, Kind: Gradual, Beyond: Higher}}},
		"back and forth": {[]float64{0.5, 2, 0.5}, []Crossover{
			{Low: 100, High: 200, Kind: Sharp, Beyond: Higher}, {Low: 200, High: 400, Kind: Sharp, Beyond: Lower},
		}},
		"unsure dip":      {[]float64{2, 0.99, 2}, nil},
		"unsure at last":  {[]float64{2, 2, 0.99}, []Crossover{{Low: 200, High: 400, Kind: Indistinct, Beyond: Lower}}},
		"unsure at first": {[]float64{0.99, 2, 2}, []Crossover{{Low: 100, High: 200, Kind: Indistinct, Beyond: Higher}}},
		"never sure":      {[]float64{0.99, 1.01, 1.01}, []Crossover{{Low: 100, High: 400, Kind: Indistinct, Beyond: Higher}}},
	} {
		a, b := exact(test.ratios...)
		found := FindCrossovers(a.X, pairedRatios(a, b), rule)
		for i := range found {
			if found[i].X < found[i].Low || found[i].X > found[i].High {
				t.Errorf("%s: X outside Low and High: %+v", name, found[i])
			}
			found[i].X = 0
		}
		if !slices.Equal(found, test.want) {
			t.Errorf("%s: %+v, want %+v", name, found, test.want)
		}
	}
}

func TestCrossoverIsInterpolatedOverLogX(t *testing.T) {
	a, b := exact(0.5, 2)
	found := FindCrossovers(a.X, pairedRatios(a, b), rule)
	if len(found) != 1 || !near(found[0].X, 100*math.Sqrt2) {
		t.Errorf("%+v, want the geometric middle", found)
	}
}
