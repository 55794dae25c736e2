package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

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

func single(x, y []float64) Curve {
	curve := Curve{X: x}
	for _, value := range y {
		curve.Y = append(curve.Y, []float64{value})
	}
	return curve
}

func doubling(to float64) (x []float64) {
	for n := 1.0; n <= to; n *= 2 {
		x = append(x, n)
	}
	return x
}

func TestProto(t *testing.T) {
	type c struct {
		name  string
		bend  Bend
		truth func(float64) float64
	}
	for _, c := range []c{
		{"sqrt", Flattens, math.Sqrt},
		{"straight", Flattens, func(x float64) float64 { return 1000 * x }},
		{"affine", Flattens, func(x float64) float64 { return 1000 + 300*x }},
		{"flat", Flattens, func(x float64) float64 { return 1000 }},
		{"log", Flattens, func(x float64) float64 { return 1 + math.Log(x) }},
		{"tail flat", Steepens, func(x float64) float64 { return 3 }},
		{"tail sqrt", Steepens, math.Sqrt},
		{"tail affine", Steepens, func(x float64) float64 { return 3 + 0.2*x }},
		{"min 16", Flattens, func(x float64) float64 { return min(x, 16) }},
		{"hyper 16", Flattens, func(x float64) float64 { return x / (1 + x/16) }},
		{"usl 16", Flattens, func(x float64) float64 { return x / (1 + x/16 + x*x*1e-4) }},
		{"tail 16", Steepens, func(x float64) float64 { return max(1, x/16) }},
		{"tail smooth 16", Steepens, func(x float64) float64 { return math.Sqrt(1 + x*x/256) }},
	} {
		for _, noise := range []float64{0.03, 0.15} {
			for _, to := range []float64{16, 32, 64, 128, 256, 512} {
				for _, repeats := range []int{3, 5} {
					found := 0
					var place, covered float64
					const n = 40
					for seed := range uint64(n) {
						k, err := FindKnee(noisy(seed, repeats, noise, doubling(to), c.truth), KneeSearch{Bend: c.bend, Resampling: Resampling{seed, 0.95}})
						if err == nil {
							found++
							place += math.Log(k.X.Estimate)
							if k.X.Contains(16) {
								covered++
							}
						}
					}
					t.Logf("%-14s noise %.2f to %3.0f repeats %d: %3.0f %% at %.1f covered %.0f%%", c.name, noise, to, repeats, float64(found)*100/n, math.Exp(place/float64(found)), 100*covered/float64(found))
				}
			}
		}
	}
}
