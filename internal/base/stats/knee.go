package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrNoKnee means that the curve has no knee, or that the trials do not show its place.
var ErrNoKnee = errors.New("the curve has no knee")

const (
	// bendParameters is the number of parameters of the fitted formula. kneeLeastPoints is the
	// least number of points that can show a knee.
	bendParameters  = 5
	kneeLeastPoints = 5

	// kneeDraws is the number of random curves for the test, and again for the interval.
	kneeDraws = 200

	// falseKneeShare is the accepted share of curves without a knee in which FindKnee finds one.
	falseKneeShare = 0.01

	// leastKneeChange is the least change of slope at a knee, on double logarithmic axes. Slope 1
	// means proportional growth, slope 0 a flat curve.
	leastKneeChange = 0.4

	// kneeFallShare is the share of its greatest figure below which a flattening curve counts as
	// falling. FindKnee leaves out the fall, because a fall is a second bend.
	kneeFallShare = 0.9
)

// A Bend says how a rising curve bends at its knee.
type Bend int

// The bends.
const (
	Flattens Bend = iota // the curve rises, then hardly rises: throughput over load
	Steepens             // the curve hardly rises, then rises: latency over load
)

// A KneeSearch holds the settings of a search for a knee.
type KneeSearch struct {
	Bend Bend
	// LeastTrials is the least number of trials per point. It is at least two; 0 means three.
	LeastTrials int
	Resampling
}

// A Knee is the point at which a curve bends.
type Knee struct {
	// X is the point where two straight lines meet. On double logarithmic axes the curve follows
	// one line before the bend and the other line after the bend.
	X Interval
	// Before and After are the slopes of the lines before and after the bend.
	Before, After float64
}

// FindKnee finds the knee of a rising curve. It fits
//
//	ln y = a + b·ln x + c·ln(1 + (x/X)^p)/p
//
// The curve is a power of x before X and another power of x after X; p is the sharpness of the
// bend. Queues have this shape: throughput is proportional to the load and then constant, latency
// is constant and then proportional. X does not depend on how far the curve was measured.
//
// Three conditions apply. The fit is better than the best power of x, straight line or logarithm,
// by more than in 99 % of random curves without a knee. The slope changes by 0.4 or more, and the
// flatter slope is less than half of the steeper one. The curve has two points on each side of X.
//
// Otherwise FindKnee returns ErrNoKnee, or ErrTooFew for less than five points or too few trials
// at a point. The interval of X comes from random curves around the fit. FindKnee assumes
// log-normal noise, equal at all points.
func FindKnee(curve Curve, search KneeSearch) (knee Knee, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("stats: knee: %w", err)
		}
	}()
	if err := curve.check(); err != nil {
		return Knee{}, err
	}
	switch n, repeats := len(curve.X), curve.fewestTrials(); {
	case n < kneeLeastPoints:
		return Knee{}, fmt.Errorf("%w: %d points, need %d", ErrTooFew, n, kneeLeastPoints)
	case repeats < max(2, cmp.Or(search.LeastTrials, leastTrials)):
		return Knee{}, fmt.Errorf("%w: one point has only %d trials", ErrTooFew, repeats)
	}
	if search.Bend == Flattens {
		if curve = curve.beforeFall(kneeFallShare); len(curve.X) < kneeLeastPoints {
			return Knee{}, fmt.Errorf("%w before its fall", ErrNoKnee)
		}
	}
	if err := checkConfidence(search.Confidence); err != nil {
		return Knee{}, err
	}
	sample, err := newLogSample(curve)
	if err != nil {
		return Knee{}, err
	}
	fits := newBendFitter(sample, search.Bend)
	bent := fits.fitWithBend(sample.means)
	if !bent.matters(search.Bend) || !fits.isInside(bent.place) {
		return Knee{}, ErrNoKnee
	}
	random := search.newRandom()
	plain := fits.fitWithoutBend(sample.means)
	gain, atLeast := (plain.miss-bent.miss)/sample.variance, 0
	for range kneeDraws {
		drawn := sample.drawAround(plain.curve, random)
		if fits.fitWithoutBend(drawn.means).miss-fits.fitWithBend(drawn.means).miss >= gain*drawn.variance {
			atLeast++
		}
		if float64(atLeast) > falseKneeShare*kneeDraws {
			return Knee{}, fmt.Errorf("%w: the bend may be noise", ErrNoKnee)
		}
	}
	// If the curve has another shape, its misfit counts as noise too.
	sample.variance = max(sample.variance, bent.miss/float64(max(1, len(curve.X)-bendParameters)))
	places := make([]float64, kneeDraws)
	for i := range places {
		places[i] = fits.fitWithBend(sample.drawAround(bent.curve, random).means).place
	}
	x := search.interval(bent.place, places)
	x.Estimate, x.Low, x.High = math.Exp(x.Estimate), math.Exp(x.Low), math.Exp(x.High)
	return Knee{X: x, Before: bent.before, After: bent.after}, nil
}
