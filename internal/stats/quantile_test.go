package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// Ranks by scipy 1.17: from `binom.cdf` at every count, the greatest low rank l
// with cdf(l-1) <= 2.5 % and the least high rank u with cdf(u-1) >= 97.5 %.
func TestQuantileRanksAreScipys(t *testing.T) {
	for _, test := range []struct {
		n         int64
		q         float64
		low, high int64
	}{
		{6, 0.5, 1, 6}, {10, 0.5, 2, 9}, {100, 0.5, 40, 61}, {1000, 0.99, 983, 997}, {100_000, 0.9999, 99_983, 99_997},
	} {
		low, high, err := QuantileRanks(test.n, test.q, 0.95)
		if err != nil || low != test.low || high != test.high {
			t.Errorf("ranks of the %v quantile of %d: %d to %d (%v), scipy says %d to %d", test.q, test.n, low, high, err, test.low, test.high)
		}
	}
}

func TestQuantileRanksRefuseWhatTheSampleCannotBound(t *testing.T) {
	for _, test := range []struct {
		n             int64
		q, confidence float64
		want          error
	}{
		{5, 0.5, 0.95, ErrTooFew},
		{1000, 0.999, 0.95, ErrTooFew},
		{0, 0.5, 0.95, ErrTooFew},
		{100, 0, 0.95, ErrUnusable},
		{100, 1, 0.95, ErrUnusable},
		{100, math.NaN(), 0.95, ErrUnusable},
		{100, 0.5, 0, ErrUnusable},
	} {
		if low, high, err := QuantileRanks(test.n, test.q, test.confidence); !errors.Is(err, test.want) {
			t.Errorf("%+v: ranks %d to %d, %v", test, low, high, err)
		}
	}
}

func TestQuantileIntervalCovers(t *testing.T) {
	const experiments, n = 2000, 500
	random := rand.New(rand.NewPCG(1, 3))
	values := make([]float64, n)
	for _, q := range []float64{0.5, 0.9, 0.99} {
		truth := -math.Log(1 - q) // of the exponential distribution
		covered := 0
		for range experiments {
			for i := range values {
				values[i] = random.ExpFloat64()
			}
			slices.Sort(values)
			interval, err := QuantileInterval(values, q, 0.95)
			if err != nil {
				t.Fatal(err)
			}
			if interval.Estimate < interval.Low || interval.Estimate > interval.High {
				t.Fatalf("estimate outside its interval: %+v", interval)
			}
			if interval.Contains(truth) {
				covered++
			}
		}
		if c := share(covered, experiments); c < 0.94 || c > 0.98 {
			t.Errorf("quantile %v is covered in %.3f, want 0.94 to 0.98", q, c)
		}
	}
	if _, err := QuantileInterval([]float64{2, 1, 3, 4, 5, 6, 7}, 0.5, 0.9); !errors.Is(err, ErrUnusable) {
		t.Errorf("unsorted values: %v", err)
	}
}

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
		means := batchMeans(values)
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

func ExampleQuantileRanks() {
	low, high, _ := QuantileRanks(10_000, 0.99, 0.95)
	fmt.Println(low, high)
	// Output: 9880 9920
}
