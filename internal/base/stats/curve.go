package stats

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// A Curve is a figure as a function of X, such as throughput over the number of clients.
type Curve struct {
	X []float64   // ascending and positive
	Y [][]float64 // the trials' figures at each X, at least one
}

func (c Curve) check() error {
	if len(c.X) != len(c.Y) {
		return fmt.Errorf("%w: %d X and %d Y", ErrUnusable, len(c.X), len(c.Y))
	}
	if err := checkFinite(c.X); err != nil {
		return fmt.Errorf("of X: %w", err)
	}
	for i, x := range c.X {
		if x <= 0 || i > 0 && x <= c.X[i-1] {
			return fmt.Errorf("%w: X is not positive and ascending at %v", ErrUnusable, x)
		}
		if len(c.Y[i]) == 0 {
			return fmt.Errorf("%w: no trial at X = %v", ErrTooFew, x)
		}
		if err := checkFinite(c.Y[i]); err != nil {
			return fmt.Errorf("at X = %v: %w", x, err)
		}
	}
	return nil
}

// means returns the mean of the trials at each X.
func (c Curve) means() []float64 {
	means := make([]float64, len(c.Y))
	for i, trials := range c.Y {
		means[i] = stat.Mean(trials, nil)
	}
	return means
}

// WithTrials returns the part of the curve that has at least the given number of trials at
// each X.
func (c Curve) WithTrials(least int) Curve {
	var kept Curve
	for i, trials := range c.Y {
		if len(trials) >= least {
			kept.X, kept.Y = append(kept.X, c.X[i]), append(kept.Y, trials)
		}
	}
	return kept
}

// leastRepeats returns the smallest number of trials at any X.
func (c Curve) leastRepeats() int {
	least := math.MaxInt
	for _, trials := range c.Y {
		least = min(least, len(trials))
	}
	return least
}

// drawnMean returns the mean of as many values, drawn from the given ones with replacement.
func drawnMean(trials []float64, random *rand.Rand) float64 {
	var sum float64
	for range trials {
		sum += trials[random.IntN(len(trials))]
	}
	return sum / float64(len(trials))
}

// beforeFall returns the curve up to the last X whose mean, and all before it
// from the greatest on, is at least that share of the greatest.
func (c Curve) beforeFall(share float64) Curve {
	means := c.means()
	if len(means) == 0 {
		return c
	}
	end := floats.MaxIdx(means) + 1
	for end < len(means) && means[end] >= share*means[floats.MaxIdx(means)] {
		end++
	}
	return Curve{X: c.X[:end], Y: c.Y[:end]}
}
