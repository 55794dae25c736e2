package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// These trials, and what scipy 1.17 says of them, run through all tests of
// intervals here: `ttest_rel` of the logarithms, `ttest_1samp`.
var (
	trialsA = []float64{10.3, 11.2, 9.8, 10.9, 10.4}
	trialsB = []float64{9.1, 9.6, 9.9, 8.7, 9.3}
)

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*max(1, math.Abs(want)) }

func checkInterval(t *testing.T, got Interval, estimate, low, high float64) {
	t.Helper()
	if !near(got.Estimate, estimate) || !near(got.Low, low) || !near(got.High, high) {
		t.Errorf("interval %v [%v, %v], scipy says %v [%v, %v]", got.Estimate, got.Low, got.High, estimate, low, high)
	}
}

func TestMeanIntervalIsScipys(t *testing.T) {
	got, err := MeanInterval(trialsA, 0.99)
	if err != nil {
		t.Fatal(err)
	}
	checkInterval(t, got, 10.52, 9.397884693396957, 11.642115306603042)
}

func TestIntervalsAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		values     []float64
		confidence float64
		want       error
	}{
		"two trials":     {[]float64{1, 2}, 0.95, ErrTooFew},
		"not a number":   {[]float64{1, 2, math.NaN()}, 0.95, ErrUnusable},
		"infinite":       {[]float64{1, 2, math.Inf(1)}, 0.95, ErrUnusable},
		"confidence 1":   {[]float64{1, 2, 3}, 1, ErrUnusable},
		"confidence NaN": {[]float64{1, 2, 3}, math.NaN(), ErrUnusable},
	} {
		if _, err := MeanInterval(test.values, test.confidence); !errors.Is(err, test.want) {
			t.Errorf("%s: mean: %v, want %v", name, err, test.want)
		}
	}
}

// The table of the package comment, in part: noise of known truth is drawn many
// times, and the intervals must contain it as often as they say.
func TestCoverage(t *testing.T) {
	const experiments = 2000
	normal := func(random *rand.Rand) float64 { return 1 + 0.02*random.NormFloat64() }
	logNormal := func(random *rand.Rand) float64 { return math.Exp(0.3*random.NormFloat64() - 0.045) }
	for _, test := range []struct {
		name   string
		trials int
		draw   func(*rand.Rand) float64
		centre float64 // the mean logarithm
		least  float64
	}{
		{"normal", 3, normal, -0.0002, 0.94},
		{"normal", 5, normal, -0.0002, 0.94},
		{"normal", 10, normal, -0.0002, 0.94},
		{"log-normal", 3, logNormal, -0.045, 0.92},
		{"log-normal", 10, logNormal, -0.045, 0.92},
	} {
		random := rand.New(rand.NewPCG(uint64(test.trials), 11))
		means, ratios := 0, 0
		a, b := make([]float64, test.trials), make([]float64, test.trials)
		for range experiments {
			for i := range a {
				a[i] = test.draw(random)
			}
			mean, err := MeanInterval(a, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if mean.Contains(1) {
				means++
			}
			for i := range a {
				b[i] = math.Exp(0.1 * random.NormFloat64()) // the machine's, shared by a pair
				a[i] = 1.25 * b[i] * test.draw(random)
			}
			if pairedRatio(a, b).Contains(1.25 * math.Exp(test.centre)) {
				ratios++
			}
		}
		t.Logf("%s, %d trials: mean %.3f ratio %.3f", test.name, test.trials, share(means, experiments), share(ratios, experiments))
		if c := share(means, experiments); c < test.least || c > 0.97 {
			t.Errorf("%s noise, %d trials: the mean's interval covers %.3f, want %v to 0.97", test.name, test.trials, c, test.least)
		}
		if c := share(ratios, experiments); c < 0.93 || c > 0.97 {
			t.Errorf("%s noise, %d trials: the ratio's interval covers %.3f, want 0.93 to 0.97", test.name, test.trials, c)
		}
	}
}

func share(count, of int) float64 { return float64(count) / float64(of) }

func TestMedian(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   float64
	}{{[]float64{3}, 3}, {[]float64{9, 1}, 5}, {[]float64{3, 1, 2}, 2}} {
		if got := Median(test.values); got != test.want {
			t.Errorf("median of %v is %v", test.values, got)
		}
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("no values have a median")
	}
}
