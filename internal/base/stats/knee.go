package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
)

// ErrNoKnee is returned for a curve without a knee, or without one whose place the trials show.
var ErrNoKnee = errors.New("the curve has no knee")

const (
	// bendParameters is the number of parameters of the law with a knee, and kneeLeastPoints the
	// fewest points that can show a knee.
	bendParameters  = 5
	kneeLeastPoints = 5

	// kneeDraws is the number of curves that are drawn for the test, and for the interval.
	kneeDraws = 200

	// falseKneeShare is the share of curves without a knee in which one may be found.
	falseKneeShare = 0.01

	// leastKneeChange is the least change of the slope over double logarithmic axes. A slope of 1
	// is proportional, a slope of 0 is flat.
	leastKneeChange = 0.4

	// kneeFallShare is the share of its greatest figure below which a flattening curve counts as
	// falling. A fall is a second bend, and is left out.
	kneeFallShare = 0.9
)

// A Bend says how a rising curve bends at its knee.
type Bend int

// The bends.
const (
	Flattens Bend = iota // throughput over load: it rises, then hardly
	Steepens             // latency over load: it hardly rises, then does
)

// A KneeSearch holds the settings of a search for a knee.
type KneeSearch struct {
	Bend Bend
	// LeastTrials is the smallest number of trials at a point: at least two; 0: three.
	LeastTrials int
	Resampling
}

// A Knee is the point at which a curve bends.
type Knee struct {
	// X holds the point at which two straight lines meet: over double logarithmic axes
	// the curve follows one of them before the bend and the other after it.
	X Interval
	// Before and After are the slopes of those lines.
	Before, After float64
}

// FindKnee finds the knee of a rising curve. It fits
//
//	ln y = a + b·ln x + c·ln(1 + (x/X)^p)/p
//
// which is a power of x before X and another one after it, with a bend of sharpness p between
// them. Queues have that shape: throughput is proportional to the load and then constant,
// latency is constant and then proportional. X does not depend on how far beyond it the curve
// was measured.
//
// A knee must be needed: the fit is better than the best power of x, straight line or logarithm,
// by more than in 99 % of the curves drawn from the best of those and the trials' noise. It must
// matter: the slope changes by 0.4 or more, and the flatter slope is less than half of the
// steeper one. And the curve has two points on either side of X.
//
// Otherwise FindKnee fails with ErrNoKnee, or with ErrTooFew for less than five points or too few
// trials at a point. The interval of X comes from curves drawn around the fit. Noise is assumed to
// be log-normal and the same at every point.
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
	// Where the curve has another shape, its misfit is noise too.
	sample.variance = max(sample.variance, bent.miss/float64(max(1, len(curve.X)-bendParameters)))
	places := make([]float64, kneeDraws)
	for i := range places {
		places[i] = fits.fitWithBend(sample.drawAround(bent.curve, random).means).place
	}
	x := search.interval(bent.place, places)
	x.Estimate, x.Low, x.High = math.Exp(x.Estimate), math.Exp(x.Low), math.Exp(x.High)
	return Knee{X: x, Before: bent.before, After: bent.after}, nil
}
