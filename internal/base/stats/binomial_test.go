package stats

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestBinomialP(t *testing.T) {
	for _, c := range []struct{ n, did, p, least, most float64 }{
		{10_000, 100, 0.01, 0.9, 1},
		{10_000, 130, 0.01, 0.001, 0.01}, // three standard deviations
		{10_000, 200, 0.01, 0, 1e-12},
		{10_000, 40, 0.01, 0, 1e-9},
		{100, 0, 0.001, 0.9, 1},
		{100, 1, 0, 0, 0},
		{100, 0, 0, 1, 1},
		{10, 10, 1, 1, 1},
		{10, 9, 1, 0, 0},
	} {
		if got := BinomialP(c.n, c.did, c.p); !(got >= c.least && got <= c.most) {
			t.Errorf("%v of %v at %v: %g, want %g to %g", c.did, c.n, c.p, got, c.least, c.most)
		}
	}
}

// Of honest counts, no more than the level are refused.
func TestBinomialPKeepsItsLevel(t *testing.T) {
	const rounds, n, p, level = 20_000, 400, 0.01, 0.01
	random := rand.New(rand.NewPCG(1, 1))
	refused := 0
	for range rounds {
		lost := 0.0
		for range n {
			if random.Float64() < p {
				lost++
			}
		}
		if BinomialP(n, lost, p) < level {
			refused++
		}
	}
	if most := rounds*level + 4*math.Sqrt(rounds*level); float64(refused) > most {
		t.Errorf("%d of %d honest counts are refused at a level of %g", refused, rounds, level)
	}
}
