package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// Tries at levels around a threshold of 1000, on both sides.
func TestThresholdIsRecovered(t *testing.T) {
	simulates(t)
	for _, noise := range []float64{0.02, 0.05, 0.1} {
		random := rand.New(rand.NewPCG(3, math.Float64bits(noise)))
		covered, draws, sum := 0, 500, 0.0
		for range draws {
			var tries []Try
			for range 25 {
				level := 1000 * math.Exp(noise*(6*random.Float64()-3))
				tries = append(tries, Try{level, level < 1000*math.Exp(noise*random.NormFloat64())})
			}
			found, err := FindThreshold(tries, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			sum += math.Log(found.Estimate / 1000)
			if found.Contains(1000) {
				covered++
			}
		}
		if share := float64(covered) / float64(draws); share < 0.89 {
			t.Errorf("noise %v: the interval holds the threshold in %.3f", noise, share)
		}
		if off := sum / float64(draws); math.Abs(off) > noise/8 {
			t.Errorf("noise %v: the threshold is off by %.4f in the mean", noise, off)
		}
	}
}

// One failure far below what the others bear moves the threshold little.
func TestOneStrayFailureMovesTheThresholdLittle(t *testing.T) {
	var tries []Try
	for i := range 10 {
		level := 950 + 10*float64(i)
		tries = append(tries, Try{level, level < 1000}, Try{level, level < 1000})
	}
	before, _ := FindThreshold(tries, 0.95)
	after, err := FindThreshold(append(tries, Try{700, false}), 0.95)
	if err != nil || math.Abs(after.Estimate/before.Estimate-1) > 0.01 || after.High/after.Low > 1.1 {
		t.Errorf("before %+v, after %+v, %v", before, after, err)
	}
}

func TestThresholdNeedsBothOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		tries []Try
		want  error
	}{
		"none":     {nil, ErrTooFew},
		"passed":   {[]Try{{1, true}, {2, true}}, ErrTooFew},
		"failed":   {[]Try{{1, false}}, ErrTooFew},
		"zero":     {[]Try{{0, true}, {1, false}}, ErrUnusable},
		"infinite": {[]Try{{1, true}, {math.Inf(1), false}}, ErrUnusable},
		"NaN":      {[]Try{{math.NaN(), true}, {1, false}}, ErrUnusable},
	} {
		if _, err := FindThreshold(c.tries, 0.95); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A single level, where half passed, tells where the threshold is and not how exactly.
func TestThresholdOfOneLevel(t *testing.T) {
	found, err := FindThreshold([]Try{{50, true}, {50, false}}, 0.95)
	if err != nil || math.Abs(found.Estimate/50-1) > 0.03 || !found.Contains(50) || found.High/found.Low < 1.2 {
		t.Errorf("%+v, %v", found, err)
	}
}
