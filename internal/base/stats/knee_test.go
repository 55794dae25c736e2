package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// single makes a curve of one trial at each X.
func single(x, y []float64) Curve {
	curve := Curve{X: x}
	for _, value := range y {
		curve.Y = append(curve.Y, []float64{value})
	}
	return curve
}

// noisy makes a curve of trials around a truth.
func noisy(seed uint64, repeats int, noise float64, x []float64, truth func(x float64) float64) Curve {
	random := rand.New(rand.NewPCG(seed, 31))
	curve := Curve{X: x}
	for _, at := range x {
		trials := make([]float64, repeats)
		for i := range trials {
			trials[i] = truth(at) * math.Exp(noise*random.NormFloat64())
		}
		curve.Y = append(curve.Y, trials)
	}
	return curve
}

// doublings are 1, 2, 4 … up to the most.
func doublings(most float64) (x []float64) {
	for n := 1.0; n <= most; n *= 2 {
		x = append(x, n)
	}
	return x
}

func TestKneeIsRefused(t *testing.T) {
	x := doublings(64)
	thrice := func(y ...float64) Curve {
		curve := Curve{X: x[:len(y)]}
		for _, value := range y {
			curve.Y = append(curve.Y, []float64{value * 0.99, value, value * 1.01})
		}
		return curve
	}
	for name, test := range map[string]struct {
		curve Curve
		want  error
	}{
		"four points":      {thrice(1, 2, 3, 3), ErrTooFew},
		"no points":        {Curve{}, ErrTooFew},
		"one trial":        {single(x, []float64{1, 2, 4, 8, 8, 8, 8}), ErrTooFew},
		"proportional":     {thrice(10, 20, 40, 80, 160, 320, 640), ErrNoKnee},
		"flat":             {thrice(7, 7, 7, 7, 7, 7, 7), ErrNoKnee},
		"falling at once":  {thrice(9, 8, 4, 3, 2, 1), ErrNoKnee},
		"the other bend":   {thrice(1, 1, 1, 1, 2, 4, 8), ErrNoKnee},
		"a slight bend":    {thrice(1, 2, 4, 8, 14, 24, 42), ErrNoKnee},
		"bends at the end": {thrice(1, 2, 4, 8, 16, 32, 33), ErrNoKnee},
		"unsorted":         {single([]float64{1, 3, 2, 4, 5}, []float64{1, 2, 3, 4, 5}), ErrUnusable},
		"not a number":     {single(x[:6], []float64{1, 2, math.NaN(), 3, 4, 5}), ErrUnusable},
		"no logarithm":     {thrice(0, 2, 4, 8, 8, 8, 8), ErrUnusable},
		"no trials":        {Curve{X: x, Y: make([][]float64, 7)}, ErrTooFew},
		"uneven":           {Curve{X: x, Y: [][]float64{{1}}}, ErrUnusable},
	} {
		search := KneeSearch{Bend: Flattens, Resampling: Resampling{Confidence: 0.95}}
		if knee, err := FindKnee(test.curve, search); !errors.Is(err, test.want) {
			t.Errorf("%s: %+v %v, want %v", name, knee, err, test.want)
		}
	}
}

// experiments is the number of curves drawn of each kind.
const experiments = 100

// simulates leaves a simulation of seconds out of the fast tests. Its seeds are fixed, so
// that it comes out the same each time.
func simulates(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("draws thousands of curves; the full tests do")
	}
}

func TestCurvesWithoutKnee(t *testing.T) {
	simulates(t)
	for name, test := range map[string]struct {
		bend  Bend
		truth func(float64) float64
	}{
		"√x":              {Flattens, math.Sqrt},
		"proportional":    {Flattens, func(x float64) float64 { return 1000 * x }},
		"straight":        {Flattens, func(x float64) float64 { return 1000 + 300*x }},
		"flat":            {Flattens, func(float64) float64 { return 1000 }},
		"logarithm":       {Flattens, func(x float64) float64 { return 1 + math.Log(x) }},
		"tail √x":         {Steepens, math.Sqrt},
		"tail straight":   {Steepens, func(x float64) float64 { return 3 + x/5 }},
		"tail flat":       {Steepens, func(float64) float64 { return 3 }},
		"tail power of 2": {Steepens, func(x float64) float64 { return x * x }},
	} {
		for _, noise := range []float64{0.03, 0.15} {
			for _, most := range []float64{16, 128, 512} {
				found := 0
				for seed := range uint64(experiments) {
					curve := noisy(seed, 3+2*int(seed%2), noise, doublings(most), test.truth)
					_, err := FindKnee(curve, KneeSearch{Bend: test.bend, Resampling: Resampling{Seed: seed, Confidence: 0.95}})
					if err == nil {
						found++
					} else if !errors.Is(err, ErrNoKnee) {
						t.Fatal(err)
					}
				}
				t.Logf("%-15s noise %2.0f %% to %3.0f: a knee in %.1f %%", name, 100*noise, most, 100*float64(found)/experiments)
				if float64(found) > 0.05*experiments {
					t.Errorf("%s, noise %.2f, to %.0f: a knee in %d of %d", name, noise, most, found, experiments)
				}
			}
		}
	}
}

// A knee at 16 is found there however far beyond it was measured, and its interval
// holds it.
func TestKneeStaysWhereItIs(t *testing.T) {
	simulates(t)
	const truth = 16
	for name, test := range map[string]struct {
		bend    Bend
		of      func(float64) float64
		covered float64
	}{
		"saturates":          {Flattens, func(x float64) float64 { return min(x, truth) }, 0.9},
		"saturates slowly":   {Flattens, func(x float64) float64 { return x / (1 + x/truth) }, 0.85},
		"tail grows":         {Steepens, func(x float64) float64 { return max(1, x/truth) }, 0.9},
		"tail grows slowly":  {Steepens, func(x float64) float64 { return math.Hypot(1, x/truth) }, 0.85},
		"falls in the end":   {Flattens, func(x float64) float64 { return min(x, truth) / (1 + max(0, x-100)/200) }, 0.9},
		"from a high ground": {Steepens, func(x float64) float64 { return 5 * max(1, x*x/truth/truth) }, 0.9},
	} {
		for _, most := range []float64{64, 128, 256, 512} {
			var places []float64
			covered := 0
			for seed := range uint64(experiments / 2) {
				knee, err := FindKnee(noisy(seed, 5, 0.05, doublings(most), test.of), KneeSearch{Bend: test.bend, Resampling: Resampling{Seed: seed, Confidence: 0.95}})
				if err != nil {
					continue
				}
				places = append(places, knee.X.Estimate)
				if knee.X.Contains(truth) {
					covered++
				}
			}
			if len(places) < experiments*3/8 {
				t.Errorf("%s to %.0f: found in %d of %d", name, most, len(places), experiments/2)
				continue
			}
			slices.Sort(places)
			middle := places[len(places)/2]
			t.Logf("%-18s to %3.0f: at %4.1f, covered in %.0f %%", name, most, middle, 100*float64(covered)/float64(len(places)))
			if middle < 0.7*truth || middle > 1.25*truth || float64(covered) < test.covered*float64(len(places)) {
				t.Errorf("%s to %.0f: at %.1f, covered in %d of %d", name, most, middle, covered, len(places))
			}
		}
	}
}
