package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestMSER5(t *testing.T) {
	noise := rand.New(rand.NewPCG(1, 4))
	series := func(n int, truth func(i int) float64) []float64 {
		values := make([]float64, n)
		for i := range values {
			values[i] = truth(i) + noise.NormFloat64()
		}
		return values
	}
	for _, test := range []struct {
		name        string
		series      []float64
		least, most int
		settled     bool
	}{
		{"steady", series(400, func(int) float64 { return 100 }), 0, 60, true},
		{"step at 80", series(400, func(i int) float64 {
			if i < 80 {
				return 50
			}
			return 100
		}), 80, 120, true},
		{"decay within 60", series(400, func(i int) float64 { return 100 - 60*math.Exp(-float64(i)/20) }), 50, 160, true},
		{"trend to the end", series(400, func(i int) float64 { return float64(i) }), 201, 400, false},
		{"step in the last half", series(400, func(i int) float64 {
			if i < 300 {
				return 50
			}
			return 100
		}), 201, 400, false},
		{"constant", make([]float64, 100), 0, 0, true},
		{"too short", make([]float64, 49), 0, 0, false},
		{"empty", nil, 0, 0, false},
		{"not a number", append(make([]float64, 99), math.NaN()), 0, 0, false},
	} {
		cut, settled := MSER5(test.series)
		if cut < test.least || cut > test.most || settled != test.settled {
			t.Errorf("%s: cut %d settled %v, want %d to %d and %v", test.name, cut, settled, test.least, test.most, test.settled)
		}
	}
}

// The fast sums must choose the cut that the definition chooses.
func TestMSER5IsItsDefinition(t *testing.T) {
	random := rand.New(rand.NewPCG(2, 4))
	for range 50 {
		values := make([]float64, 100)
		for i := range values {
			values[i] = 1e6 + 30*math.Exp(-float64(i)/8) + random.NormFloat64()
		}
		want, least := 0, math.Inf(1)
		means := batchMeans(values, mserBatch)
		for first := range len(means) - mserLeastBatches + 1 {
			kept := means[first:]
			var mean, squares float64
			for _, v := range kept {
				mean += v / float64(len(kept))
			}
			for _, v := range kept {
				squares += (v - mean) * (v - mean)
			}
			if s := squares / float64(len(kept)*len(kept)); s < least {
				least, want = s, first*mserBatch
			}
		}
		if cut, _ := MSER5(values); cut != want {
			t.Fatalf("cut %d, by definition %d", cut, want)
		}
	}
}
