package matrix

import "testing"

// A vote may end after one try of a rate. The rates with two show the knee.
func TestARateTriedOnceDoesNotCount(t *testing.T) {
	tries := func(rates ...float64) (steps []SearchStep) {
		for _, rate := range rates {
			us := 1000 * max(1, rate/400)
			steps = append(steps, SearchStep{Offered: rate, Microseconds: new(0.99 * us)}, SearchStep{Offered: rate, Microseconds: new(1.01 * us)})
		}
		return append(steps, SearchStep{Offered: 20_000, Microseconds: new(900.0)})
	}
	if k := rateKnee(tries(50, 100, 200, 400, 800, 1600, 3200), 1); !k.Found || *k.Low > 400 || *k.High < 400 {
		t.Errorf("the percentile grows from 400/s on, and the knee is %+v", k)
	}
	if k, want := rateKnee(tries(50, 100, 200, 400), 1), "a knee needs 5 rates with 2 tries each; the search has 4 such rates"; k.Found || k.Reason != want {
		t.Errorf("four rates give %+v, want the reason %q", k, want)
	}
}
