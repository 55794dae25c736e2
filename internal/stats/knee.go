package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"
)

// ErrNoKnee is returned for a curve without a knee, or with none that the trials agree
// on.
var ErrNoKnee = errors.New("the curve has no knee")

// kneeLeastPoints is the minimum of points: with four, any bend is as wide as the curve.
const kneeLeastPoints = 5

// kneeLeastRise is the least height of a curve with a knee, in standard errors of
// its points. The means of a dozen points of mere noise span less than five in
// 95 of 100 curves, and any such span scaled to the unit square bends somewhere.
const kneeLeastRise = 6

// Bend is the shape of a rising curve at its knee.
type Bend int

// The bends.
const (
	Flattens Bend = iota // throughput over load: it rises, then hardly
	Steepens             // latency over load: it hardly rises, then does
)

// KneeSearch holds the settings of a search.
type KneeSearch struct {
	Bend Bend
	// LogX measures the distance between loads by their ratio, for loads such as
	// 1, 10, 50, 100, 500 that were chosen so.
	LogX bool
	Resampling
}

// Knee is where a curve bends.
type Knee struct {
	// X is one of the curve's; Low and High are the neighbours of the outermost
	// X that resampled trials gave, since between two X nothing was measured.
	X    float64 `json:"x"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
	// Confidence is that of Low and High, or 0 where some X has fewer than three
	// trials, so that no interval can be told and both equal X.
	Confidence float64 `json:"confidence"`
	// Strength is how far the curve stands off the straight line between its
	// ends, as a share of its height: from 0 to 1.
	Strength float64 `json:"strength"`
}

// FindKnee finds the knee of a rising curve, by Kneedle (Satopää, Albrecht,
// Irwin, Raghavan 2011) with sensitivity 1: where the curve, scaled to the unit
// square, is farthest from the diagonal, provided that from there it comes back
// towards it by more than the mean step of X.
//
// It refuses with ErrTooFew below five points, and with ErrNoKnee where that
// proviso fails, as it does for a straight line; where it fails for so many of
// the resampled curves that the confidence is not reached; and where the curve
// hardly rises above the noise of its trials. It assumes that what was
// measured reaches past the knee: Kneedle finds the bend of what it is shown,
// and a wider range of X may show another.
func FindKnee(curve Curve, search KneeSearch) (Knee, error) {
	knee, err := findKnee(curve, search)
	if err != nil {
		return Knee{}, fmt.Errorf("stats: knee: %w", err)
	}
	return knee, nil
}

func findKnee(curve Curve, search KneeSearch) (Knee, error) {
	if err := curve.check(); err != nil {
		return Knee{}, err
	}
	if len(curve.X) < kneeLeastPoints {
		return Knee{}, fmt.Errorf("%w: %d points, need %d", ErrTooFew, len(curve.X), kneeLeastPoints)
	}
	position := slices.Clone(curve.X)
	if search.LogX {
		for i, x := range position {
			position[i] = math.Log(x)
		}
	}
	toUnit(position)
	at, strength, found := kneedle(position, curve.means(), search.Bend)
	if !found {
		return Knee{}, ErrNoKnee
	}
	knee := Knee{X: curve.X[at], Low: curve.X[at], High: curve.X[at], Strength: strength}
	if curve.leastRepeats() < leastTrials {
		return knee, nil
	}
	if err := checkConfidence(search.Confidence); err != nil {
		return Knee{}, err
	}
	if rise, noise := curve.rise(), curve.noise(); rise < kneeLeastRise*noise {
		return Knee{}, fmt.Errorf("%w: it rises by %.3g where the noise of a point is %.3g", ErrNoKnee, rise, noise)
	}
	first, last, err := resampleKnee(curve, position, search)
	if err != nil {
		return Knee{}, err
	}
	knee.Low = curve.X[max(min(first, at)-1, 0)]
	knee.High = curve.X[min(max(last, at)+1, len(curve.X)-1)]
	knee.Confidence = search.Confidence
	return knee, nil
}

// resampleKnee returns the outermost points, within the confidence, at which
// curves of trials drawn anew have their knee.
func resampleKnee(curve Curve, position []float64, search KneeSearch) (first, last int, err error) {
	const draws = bootstrapDraws / 10 // the answer is one of a few points
	random := search.source()
	knees := make([]float64, 0, draws)
	means := make([]float64, len(curve.Y))
	for range draws {
		for i, trials := range curve.Y {
			means[i] = drawnMean(trials, random)
		}
		if at, _, found := kneedle(position, means, search.Bend); found {
			knees = append(knees, float64(at))
		}
	}
	if share := float64(len(knees)) / draws; share < search.Confidence {
		return 0, 0, fmt.Errorf("%w in %.0f %% of the curves that its trials could have given", ErrNoKnee, 100*(1-share))
	}
	slices.Sort(knees)
	tail := (1 - search.Confidence) / 2
	first = int(stat.Quantile(tail, stat.Empirical, knees, nil))
	last = int(stat.Quantile(1-tail, stat.Empirical, knees, nil))
	return first, last, nil
}

func drawnMean(trials []float64, random *rand.Rand) float64 {
	var sum float64
	for range trials {
		sum += trials[random.IntN(len(trials))]
	}
	return sum / float64(len(trials))
}

// kneedle returns the index of the knee; position is already scaled.
func kneedle(position, figures []float64, bend Bend) (at int, strength float64, found bool) {
	distance := slices.Clone(figures)
	if figures[len(figures)-1] <= figures[0] {
		return 0, 0, false
	}
	toUnit(distance)
	floats.Sub(distance, position)
	if bend == Steepens {
		floats.Scale(-1, distance)
	}
	at = floats.MaxIdx(distance)
	strength = distance[at]
	meanStep := 1 / float64(len(position)-1)
	inside := 0 < at && at < len(position)-1
	return at, strength, inside && strength-slices.Min(distance[at:]) > meanStep
}

// toUnit scales values to span 0 to 1.
func toUnit(values []float64) {
	least, most := slices.Min(values), slices.Max(values)
	for i, value := range values {
		values[i] = (value - least) / (most - least)
	}
}
