package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

// ramp is a course of intervals of 5 ms that begins at 70 % and approaches 100 %, with
// noise from interval to interval.
type ramp struct {
	amplitude, seconds float64 // the time constant
	noise              float64
	correlation        float64 // of the noise of neighbouring intervals
}

func (r ramp) course(random *rand.Rand, seconds float64) []float64 {
	values := make([]float64, int(seconds/0.005))
	noise := 0.0
	for i := range values {
		noise = r.correlation*noise + math.Sqrt(1-r.correlation*r.correlation)*random.NormFloat64()
		values[i] = (1 - r.amplitude*math.Exp(-float64(i)*0.005/r.seconds)) * (1 + r.noise*noise)
	}
	return values
}

// bias is the true one of a window.
func (r ramp) bias(from, to float64) float64 {
	return -r.amplitude * r.seconds * (math.Exp(-from/r.seconds) - math.Exp(-to/r.seconds)) / (to - from)
}

// Windows of 1 s that open after 250 ms of the ramps of the review: what is not called
// drifting by 3 % or more is off by less, and the bias is about the true one.
func TestDriftIsSeen(t *testing.T) {
	for _, noise := range []float64{0.02, 0.05, 0.1} {
		for _, seconds := range []float64{0.1, 0.25, 0.5, 1, 2} {
			r := ramp{amplitude: 0.3, seconds: seconds, noise: noise}
			random := rand.New(rand.NewPCG(7, math.Float64bits(noise*seconds)))
			seen, said := 0, 0.0
			const draws = 100
			for range draws {
				if d := FindDrift(r.course(random, 1.25)[50:]); d.Evidence > CertainDrift && math.Abs(d.Bias) > 0.03 {
					seen++
					said += d.Bias
				}
			}
			truth := r.bias(0.25, 1.25)
			t.Logf("noise %2.0f %%, time constant %4.2f s: off by %5.1f %%; seen in %3d of 100, said to be %5.1f %%",
				100*noise, seconds, 100*truth, seen, 100*said/float64(seen))
			if math.Abs(truth) > 0.04 && seen < 90 {
				t.Errorf("a bias of %.3f is seen in %d of 100", truth, seen)
			}
			if seen > 95 && math.Abs(said/float64(seen)-truth) > 0.4*math.Abs(truth) {
				t.Errorf("a bias of %.3f is said to be %.3f", truth, said/float64(seen))
			}
		}
	}
}

func TestASteadySeriesDoesNotDrift(t *testing.T) {
	for _, correlation := range []float64{0, 0.5, 0.9} {
		for _, seconds := range []float64{0.25, 1, 5} {
			if correlation == 0.9 && seconds < 1 {
				continue // what lasts for 50 ms is no noise of 250 ms
			}
			r := ramp{seconds: 1, noise: 0.1, correlation: correlation}
			random := rand.New(rand.NewPCG(8, uint64(1000*seconds*(1+correlation))))
			const draws = 1000
			drifts := 0
			for range draws {
				if FindDrift(r.course(random, seconds)).Evidence > CertainDrift {
					drifts++
				}
			}
			t.Logf("%.2f s, correlation %.1f: %.1f %%", seconds, correlation, 100*float64(drifts)/draws)
			if drifts > 35 {
				t.Errorf("%v s of steady noise, correlation %v: %d of 1,000 are called drifting", seconds, correlation, drifts)
			}
		}
	}
}

func TestSeriesWithoutDrift(t *testing.T) {
	step := make([]float64, 100)
	for i := range step {
		step[i] = 1
	}
	for name, series := range map[string][]float64{
		"none": nil, "short": {1, 2, 3, 4, 5, 6, 7, 8, 9}, "not a number": append(step[:50:50], math.NaN()), "constant": step, "zero": make([]float64, 100),
	} {
		if d := FindDrift(series); d != (Drift{}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}
