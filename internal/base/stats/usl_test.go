package stats

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"
)

// lawful is a curve that the law made, with noise of that share.
func lawful(truth usl, loads []float64, repeats int, noise float64) Curve {
	random := rand.New(rand.NewPCG(1, 2))
	var c Curve
	for _, n := range loads {
		var trials []float64
		for range repeats {
			trials = append(trials, truth.at(n)*math.Exp(noise*random.NormFloat64()))
		}
		c.X, c.Y = append(c.X, n), append(c.Y, trials)
	}
	return c
}

func TestScalabilityIsRecovered(t *testing.T) {
	loads := []float64{1, 2, 4, 8, 16, 32, 48}
	for name, truth := range map[string]usl{
		"contended": {1000, 0.1, 1e-4},
		"falling":   {1000, 0.02, 0.002},
		"linear":    {1000, 1e-4, 1e-7},
	} {
		t.Run(name, func(t *testing.T) {
			fit, err := FitScalability(lawful(truth, loads, 5, 0.02), Resampling{Seed: 1, Confidence: 0.95})
			if err != nil {
				t.Fatal(err)
			}
			if !fit.Ideal.Contains(1000) && math.Abs(fit.Ideal.Estimate-1000) > 30 {
				t.Errorf("ideal %+v, want 1000", fit.Ideal)
			}
			for _, n := range loads {
				if off := fit.At(n)/truth.at(n) - 1; math.Abs(off) > 0.05 {
					t.Errorf("at %v the fit is off by %.1f %%", n, 100*off)
				}
			}
			if name == "linear" != (fit.Peak == nil) && truth.peak() > 96 {
				t.Errorf("a peak at %+v where none was seen", fit.Peak)
			}
			if name == "falling" && (fit.Peak == nil || math.Abs(fit.Peak.Estimate-truth.peak()) > 4 || fit.Peak.Low > fit.Peak.High) {
				t.Errorf("peak %+v, want %v", fit.Peak, truth.peak())
			}
			if fit.Contention.Low > fit.Contention.Estimate || fit.Contention.High < fit.Contention.Estimate {
				t.Errorf("contention %+v", fit.Contention)
			}
		})
	}
}

func TestScalabilityIsRefused(t *testing.T) {
	how := Resampling{Seed: 1, Confidence: 0.95}
	if _, err := FitScalability(lawful(usl{1, 0.1, 0.1}, []float64{1, 2, 3, 4}, 3, 0), how); !errors.Is(err, ErrTooFew) {
		t.Errorf("four loads: %v", err)
	}
	dead := lawful(usl{1, 0.1, 0.1}, []float64{1, 2, 3, 4, 5}, 3, 0)
	dead.Y[2] = []float64{0, 0, 0}
	if _, err := FitScalability(dead, how); !errors.Is(err, ErrUnusable) {
		t.Errorf("no throughput: %v", err)
	}
}
