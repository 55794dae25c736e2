package compare

import (
	"math"
	"math/rand/v2"
	"testing"

	"wirelab.dev/internal/base/stats"
)

// experiment draws a matrix of comparisons between three stacks: what share of
// the true differences is found, and whether one is found that does not exist.
type experiment struct {
	points, repeats int
	ratio           float64                  // the truth
	noise           func(*rand.Rand) float64 // of the trials at one point
	slow            slowProcesses
}

// slowProcesses are slow for life, as some are by chance.
type slowProcesses struct{ share, by float64 }

func (s slowProcesses) draw(random *rand.Rand) float64 {
	if s.share == 0 || random.Float64() >= s.share {
		return 0
	}
	return math.Log1p(s.by)
}

func (e experiment) run(seed uint64) (found float64) {
	random := rand.New(rand.NewPCG(seed, 2))
	var family Family
	count := func(verdict stats.Comparison) {
		if verdict.Verdict == stats.Higher || verdict.Verdict == stats.Lower {
			found++
		}
	}
	for range e.points {
		noise := e.noise(random)
		figures := [3][]float64{}
		for stack := range figures {
			for range e.repeats {
				figures[stack] = append(figures[stack], math.Pow(e.ratio, float64(stack))*math.Exp(noise*random.NormFloat64()+e.slow.draw(random)))
			}
		}
		for stack := range figures {
			next := figures[(stack+1)%3]
			family.Add(pairedRatio(figures[stack], next), count)
		}
	}
	family.Judge()
	return found / float64(len(family.samples))
}

func even(deviation float64) func(*rand.Rand) float64 {
	return func(*rand.Rand) float64 { return deviation }
}

// uneven noise differs between points by a factor of up to ten.
func uneven(random *rand.Rand) float64 { return 0.015 * math.Pow(10, random.Float64()) }

func TestNoDifferenceIsFoundWhereThereIsNone(t *testing.T) {
	if testing.Short() {
		t.Skip("short: thousands of experiments, for a share of a few in a hundred")
	}
	const experiments = 1000
	for _, c := range []struct {
		name string
		experiment
	}{
		{"even noise, 3 repeats", experiment{12, 3, 1, even(0.08), slowProcesses{}}},
		{"even noise, 5 repeats", experiment{12, 5, 1, even(0.08), slowProcesses{}}},
		{"uneven noise, 3 repeats", experiment{12, 3, 1, uneven, slowProcesses{}}},
		{"uneven noise, 5 repeats", experiment{12, 5, 1, uneven, slowProcesses{}}},
		{"four points", experiment{4, 3, 1, uneven, slowProcesses{}}},
		{"one point", experiment{1, 3, 1, even(0.08), slowProcesses{}}},
		{"one process in ten 10 % slow, one point, 5 repeats", experiment{1, 5, 1, even(0.02), slowProcesses{0.1, 0.1}}},
		{"one process in ten 10 % slow, one point, 20 repeats", experiment{1, 20, 1, even(0.02), slowProcesses{0.1, 0.1}}},
		{"one process in ten 10 % slow, 12 points, 3 repeats", experiment{12, 3, 1, even(0.02), slowProcesses{0.1, 0.1}}},
		{"one process in ten 10 % slow, 12 points, 5 repeats", experiment{12, 5, 1, even(0.02), slowProcesses{0.1, 0.1}}},
		{"one trial in ten twice as slow, one point, 10 repeats", experiment{1, 10, 1, even(0.02), slowProcesses{0.1, 1}}},
		{"one trial in ten twice as slow, 12 points, 3 repeats", experiment{12, 3, 1, even(0.02), slowProcesses{0.1, 1}}},
		{"one trial in ten twice as slow, 12 points, 5 repeats", experiment{12, 5, 1, even(0.02), slowProcesses{0.1, 1}}},
	} {
		with := 0
		for seed := range uint64(experiments) {
			if c.run(seed) > 0 {
				with++
			}
		}
		t.Logf("| %s | %.1f %% |", c.name, 100*float64(with)/experiments)
		if with > experiments*6/100 {
			t.Errorf("%s: some difference in %d of %d runs without one", c.name, with, experiments)
		}
	}
}

func TestDifferencesAreFound(t *testing.T) {
	for _, c := range []struct {
		name string
		experiment
		atLeast float64
	}{
		{"10 % at 2 % noise, 5 repeats", experiment{12, 5, 1.1, even(0.02), slowProcesses{}}, 0.99},
		{"50 % at 5 % noise, 3 repeats", experiment{12, 3, 1.5, even(0.05), slowProcesses{}}, 0.99},
		{"50 % at uneven noise, 3 repeats", experiment{12, 3, 1.5, uneven, slowProcesses{}}, 0.8},
		{"50 % at uneven noise, 5 repeats", experiment{12, 5, 1.5, uneven, slowProcesses{}}, 0.95},
	} {
		const experiments = 100
		share := 0.0
		for seed := range uint64(experiments) {
			share += c.run(seed) / experiments
		}
		t.Logf("%s: %.1f %% found", c.name, 100*share)
		if share < c.atLeast {
			t.Errorf("%s: %.1f %% found, want %.0f %%", c.name, 100*share, 100*c.atLeast)
		}
	}
}

func TestInverseTrigamma(t *testing.T) {
	for _, x := range []float64{0.05, 0.5, 1, 3, 40, 1e4} {
		within(t, "trigamma's inverse", inverseTrigamma(trigamma(x)), x, 1e-6)
	}
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s is %.5g, want %.5g within %.2g %%", what, got, want, 100*share)
	}
}
