package stats

import (
	"errors"
	"math"
	"math/rand/v2"
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

// By the Python package kneed 0.9.0, KneeLocator with S=1, direction increasing,
// curve concave, convex and concave; the last is the example of the Kneedle
// paper's figure 2, moved right by 0.1 so that X is positive.
func TestKneeIsKneeds(t *testing.T) {
	var figure2x, figure2y []float64
	for i := range 10 {
		x := float64(i)/9 + 0.1
		figure2x, figure2y = append(figure2x, x), append(figure2y, 5-1/x)
	}
	oneToTen := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for name, test := range map[string]struct {
		curve Curve
		bend  Bend
		want  float64
	}{
		"flattens": {single(oneToTen, []float64{1, 60, 80, 85, 90, 95, 96, 97, 98, 99}), Flattens, 3},
		"steepens": {single(oneToTen, []float64{1, 2, 3, 4, 5, 10, 15, 20, 40, 100}), Steepens, 8},
		"figure 2": {single(figure2x, figure2y), Flattens, 0.3222222222222222},
	} {
		knee, err := FindKnee(test.curve, KneeSearch{Bend: test.bend})
		if err != nil || !near(knee.X, test.want) {
			t.Errorf("%s: knee %+v %v, kneed says %v", name, knee, err, test.want)
		}
		if knee.Confidence != 0 {
			t.Errorf("%s: one trial a point gave an interval: %+v", name, knee)
		}
	}
}

func TestKneeIsRefused(t *testing.T) {
	x := []float64{1, 2, 3, 4, 5, 6}
	for name, test := range map[string]struct {
		curve Curve
		want  error
	}{
		"four points":   {single(x[:4], []float64{1, 5, 6, 6.1}), ErrTooFew},
		"no points":     {Curve{}, ErrTooFew},
		"straight line": {single(x, []float64{10, 20, 30, 40, 50, 60}), ErrNoKnee},
		"flat":          {single(x, []float64{7, 7, 7, 7, 7, 7}), ErrNoKnee},
		"falling":       {single(x, []float64{9, 8, 4, 3, 2, 1}), ErrNoKnee},
		"other bend":    {single(x, []float64{1, 2, 3, 5, 20, 90}), ErrNoKnee},
		"unsorted":      {single([]float64{1, 3, 2, 4, 5}, []float64{1, 2, 3, 4, 5}), ErrUnusable},
		"not a number":  {single(x, []float64{1, 2, math.NaN(), 3, 4, 5}), ErrUnusable},
		"no trials":     {Curve{X: x, Y: make([][]float64, 6)}, ErrTooFew},
		"uneven":        {Curve{X: x, Y: [][]float64{{1}}}, ErrUnusable},
	} {
		if knee, err := FindKnee(test.curve, KneeSearch{Bend: Flattens}); !errors.Is(err, test.want) {
			t.Errorf("%s: %+v %v, want %v", name, knee, err, test.want)
		}
	}
}

// A server that saturates at a known load, measured with noise.
func TestKneeOfKnownTruthIsCovered(t *testing.T) {
	const experiments = 60
	loads := []float64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512}
	covered, narrow := 0, 0
	for seed := range uint64(experiments) {
		truth := math.Exp2(3 + 2*rand.New(rand.NewPCG(seed, 32)).Float64()) // 8 to 32
		curve := noisy(seed, 5, 0.03, loads, func(load float64) float64 { return 10_000 * min(load, truth) })
		// Over the ratio of loads a server below saturation is no straight line;
		// the latency of a closed loop, load over throughput, steepens.
		for i, load := range loads {
			for j := range curve.Y[i] {
				curve.Y[i][j] = math.Log(load / curve.Y[i][j])
			}
		}
		knee, err := FindKnee(curve, KneeSearch{Bend: Steepens, LogX: true, Resampling: Resampling{Seed: seed, Confidence: 0.95}})
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
			continue
		}
		if knee.Low <= truth && truth <= knee.High {
			covered++
		}
		if knee.High <= 4*knee.Low {
			narrow++
		}
	}
	if covered < experiments*95/100 {
		t.Errorf("the knee is covered in %d of %d", covered, experiments)
	}
	if narrow < experiments*95/100 {
		t.Errorf("the interval is the knee and its neighbours in only %d of %d", narrow, experiments)
	}
}

func TestNoiseHasNoKnee(t *testing.T) {
	const experiments = 400
	loads := []float64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13}
	for name, truth := range map[string]func(float64) float64{
		"flat":     func(float64) float64 { return 1000 },
		"straight": func(load float64) float64 { return 1000 * load },
	} {
		found := 0
		for seed := range uint64(experiments) {
			curve := noisy(seed, 5, 0.02, loads, truth)
			_, err := FindKnee(curve, KneeSearch{Bend: Flattens, Resampling: Resampling{Seed: seed, Confidence: 0.95}})
			if err == nil {
				found++
			} else if !errors.Is(err, ErrNoKnee) {
				t.Fatal(err)
			}
		}
		t.Logf("%s: %d of %d", name, found, experiments)
		if found > experiments/100 {
			t.Errorf("%s: noise shows a knee in %d of %d", name, found, experiments)
		}
	}
}
