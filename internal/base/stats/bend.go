package stats

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/lists"
)

// A logSample is a curve with logarithms of X and Y.
type logSample struct {
	x, means []float64
	repeats  []float64 // number of trials at each X, which is the weight of the mean at that X
	variance float64   // variance of a trial's Y around the mean at its X
	freedom  int       // degrees of freedom of variance
}

func newLogSample(curve Curve) (logSample, error) {
	var s logSample
	var squares float64
	for i, trials := range curve.Y {
		logs := make([]float64, len(trials))
		for j, y := range trials {
			if y <= 0 {
				return logSample{}, fmt.Errorf("%w: %v at X = %v has no logarithm", ErrUnusable, y, curve.X[i])
			}
			logs[j] = math.Log(y)
		}
		mean, variance := stat.MeanVariance(logs, nil)
		s.x, s.means = append(s.x, math.Log(curve.X[i])), append(s.means, mean)
		s.repeats = append(s.repeats, float64(len(trials)))
		s.freedom += len(trials) - 1
		squares += variance * float64(len(trials)-1)
	}
	// If all trials are equal, a variance of 0 would make every misfit infinitely unlikely.
	const least = 1e-12
	s.variance = max(squares/float64(s.freedom), least)
	return s, nil
}

// drawAround draws random means, like those of trials with this noise around the given curve.
func (s logSample) drawAround(curve []float64, random *rand.Rand) logSample {
	drawn := s
	drawn.means = make([]float64, len(curve))
	deviation := math.Sqrt(s.variance)
	for i, y := range curve {
		drawn.means[i] = y + deviation/math.Sqrt(s.repeats[i])*random.NormFloat64()
	}
	var squares float64
	for range s.freedom {
		d := random.NormFloat64()
		squares += d * d
	}
	drawn.variance = s.variance * squares / float64(s.freedom)
	return drawn
}

// A fittedCurve is a curve and its misfit: the weighted sum of squared distances from the means.
type fittedCurve struct {
	curve []float64
	miss  float64
}

// A bentCurve is a fitted curve with a bend.
type bentCurve struct {
	fittedCurve
	place, sharpness float64
	before, after    float64 // slopes before and after the bend
}

func (b bentCurve) matters(bend Bend) bool {
	steep, flat := b.after, b.before
	if bend == Flattens {
		steep, flat = b.before, b.after
	}
	return steep-flat >= leastKneeChange && flat < steep/2
}

// bendFitter fits curves to many sets of means at the same X. A first search tries a prepared grid
// of shapes; a second search refines the best one.
type bendFitter struct {
	x, weights []float64
	sign       float64 // 1 or -1: the sign of the slope's change at the bend
	bends      []bendShape
	curves     []curveShape
	step       float64 // distance between neighbouring places of the grid
}

const (
	bendPlaceCount  = 33 // number of bend places tried
	curveSlopeCount = 33 // number of slopes tried for each curve without a knee
	// Over the measured X, the steepest curve grows e⁸ times faster than its constant, and the
	// flattest e⁸ times slower.
	steepestExponent = 8.0
)

var bendSharpness = []float64{1, 2, 4, 32}

func newBendFitter(s logSample, bend Bend) *bendFitter {
	f := &bendFitter{x: s.x, weights: s.repeats, sign: 1}
	if bend == Flattens {
		f.sign = -1
	}
	first, last := f.firstAndLastX()
	f.step = (last - first) / (bendPlaceCount + 1)
	for i := range bendPlaceCount {
		for _, sharpness := range bendSharpness {
			f.bends = append(f.bends, f.newBendShape(first+float64(i+1)*f.step, sharpness))
		}
	}
	for _, slope := range floats.Span(make([]float64, curveSlopeCount), -steepestExponent, steepestExponent) {
		f.curves = append(f.curves, f.lineShape(slope), f.logarithmShape(slope))
	}
	return f
}

func (f *bendFitter) firstAndLastX() (first, last float64) { return f.x[0], f.x[len(f.x)-1] }

// isInside reports whether a place has two X on each side. A single point off the line is no bend.
func (f *bendFitter) isInside(place float64) bool {
	const rounding = 1e-3
	return f.x[1]-rounding <= place && place <= f.x[len(f.x)-2]+rounding
}

// A bendShape holds the value of ln(1 + (x/X)^p)/p at each x.
type bendShape struct {
	place, sharpness float64
	shape            []float64
	// across is the shape minus its best-fitting straight line, scaled to length 1. A straight
	// line cannot explain this part of the curve.
	across []float64
	length float64
}

func (f *bendFitter) newBendShape(place, sharpness float64) bendShape {
	b := bendShape{place: place, sharpness: sharpness}
	b.shape = lists.Map(f.x, func(x float64) float64 {
		d := sharpness * (x - place)
		if d < 30 {
			return math.Log1p(math.Exp(d)) / sharpness
		}
		return x - place // here ln(1+e^d) equals d
	})
	a, slope := stat.LinearRegression(f.x, b.shape, f.weights, false)
	b.across = make([]float64, len(f.x))
	for i, x := range f.x {
		b.across[i] = b.shape[i] - a - slope*x
	}
	b.length = math.Sqrt(f.dot(b.across, b.across))
	floats.Scale(1/b.length, b.across)
	return b
}

// A curveShape is a curve without a knee, up to a constant factor.
type curveShape struct {
	shape   []float64
	refined func(slope float64) curveShape
	slope   float64
}

// lineShape computes 1 + r·x, where x is X divided by the geometric middle of the measured X.
func (f *bendFitter) lineShape(slope float64) curveShape {
	first, last := f.firstAndLastX()
	shape := lists.Map(f.x, func(x float64) float64 { return math.Log1p(math.Exp(slope + x - (first+last)/2)) })
	return curveShape{f.centred(shape), f.lineShape, slope}
}

// logarithmShape computes 1 + r·ln x, where x is X divided by the smallest measured X.
func (f *bendFitter) logarithmShape(slope float64) curveShape {
	shape := lists.Map(f.x, func(x float64) float64 { return math.Log1p(math.Exp(slope) * (x - f.x[0])) })
	return curveShape{f.centred(shape), f.logarithmShape, slope}
}

func (f *bendFitter) fitWithoutBend(means []float64) fittedCurve {
	a, slope := stat.LinearRegression(f.x, means, f.weights, false)
	best := fittedCurve{curve: lists.Map(f.x, func(x float64) float64 { return a + slope*x })}
	best.miss = f.distance(means, best.curve)

	centred := f.centred(means)
	miss := func(c curveShape) float64 { return f.distance(centred, c.shape) }
	closest := f.curves[0]
	least := math.Inf(1)
	for _, c := range f.curves {
		if m := miss(c); m < least {
			closest, least = c, m
		}
	}
	const step = 2 * steepestExponent / (curveSlopeCount - 1)
	slope = findMinimum(closest.slope-step, closest.slope+step, func(slope float64) float64 { return miss(closest.refined(slope)) })
	closest = closest.refined(slope)
	if m := miss(closest); m < best.miss {
		best = fittedCurve{curve: closest.shape, miss: m}
		floats.AddConst(stat.Mean(means, f.weights), best.curve)
	}
	return best
}

func (f *bendFitter) fitWithBend(means []float64) bentCurve {
	// gain returns by how much a bend reduces the sum of squares of a straight line.
	gain := func(b bendShape) float64 {
		along := f.sign * f.dot(b.across, means)
		return max(along, 0) * along
	}
	best, most := f.bends[0], -1.0
	for _, b := range f.bends {
		if g := gain(b); g > most {
			best, most = b, g
		}
	}
	place := findMinimum(best.place-f.step, best.place+f.step, func(place float64) float64 { return -gain(f.newBendShape(place, best.sharpness)) })
	best = f.newBendShape(place, best.sharpness)

	change := f.sign * max(0, f.sign*f.dot(best.across, means)) / best.length
	rest := make([]float64, len(means))
	floats.AddScaledTo(rest, means, -change, best.shape)
	a, slope := stat.LinearRegression(f.x, rest, f.weights, false)
	curve := make([]float64, len(means))
	for i, x := range f.x {
		curve[i] = a + slope*x + change*best.shape[i]
	}
	return bentCurve{
		fittedCurve: fittedCurve{curve, f.distance(means, curve)},
		place:       best.place, sharpness: best.sharpness, before: slope, after: slope + change,
	}
}

func (f *bendFitter) dot(a, b []float64) float64 {
	var sum float64
	for i, w := range f.weights {
		sum += w * a[i] * b[i]
	}
	return sum
}

func (f *bendFitter) distance(a, b []float64) float64 {
	var sum float64
	for i, w := range f.weights {
		sum += w * (a[i] - b[i]) * (a[i] - b[i])
	}
	return sum
}

func (f *bendFitter) centred(y []float64) []float64 {
	centred := slices.Clone(y)
	floats.AddConst(-stat.Mean(y, f.weights), centred)
	return centred
}

// findMinimum finds the only minimum of a function by golden section, to within a thousandth.
func findMinimum(low, high float64, of func(float64) float64) float64 {
	ratio := (math.Sqrt(5) - 1) / 2
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	atA, atB := of(a), of(b)
	for end := (high - low) / 1000; high-low > end; {
		if atA < atB {
			high, b, atB = b, a, atA
			a = high - ratio*(high-low)
			atA = of(a)
		} else {
			low, a, atA = a, b, atB
			b = low + ratio*(high-low)
			atB = of(b)
		}
	}
	return (low + high) / 2
}
