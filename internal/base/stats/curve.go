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
	return lists.Map(c.Y, func(trials []float64) float64 { return stat.Mean(trials, nil) })
}

// WithTrials returns the part of the curve with at least this number of trials at each X.
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

// drawnMean returns the mean of len(trials) values, drawn from trials with replacement.
func drawnMean(trials []float64, random *rand.Rand) float64 {
	var sum float64
	for range trials {
		sum += trials[random.IntN(len(trials))]
	}
	return sum / float64(len(trials))
}

// beforeFall returns the curve up to the last X before the fall: from the greatest mean on, each
// mean up to that X is at least the given share of the greatest.
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

// A CrossoverKind says how two curves cross.
type CrossoverKind string

// The kinds.
const (
	// Sharp: within one step of X, and by a jump of the ratio.
	Sharp CrossoverKind = "sharp"
	// Gradual: the curves differ on both sides, and approach each other between.
	Gradual CrossoverKind = "gradual"
	// Indistinct: the estimates change sides, but the curves do not differ with
	// confidence on both sides, so there may be no crossover.
	Indistinct CrossoverKind = "indistinct"
)

// CrossoverRule holds the limits between the kinds.
type CrossoverRule struct {
	Confidence float64 // by which A and B must differ on both sides
	SharpStep  float64 // the widest step of X, as a ratio, that is sharp: 2
	SharpJump  float64 // the least change of the ratio of A to B, relative: 0.1
}

// A Crossover is the X at which A and B change sides.
type Crossover struct {
	// X holds the point at which the ratio of A to B is 1, by linear interpolation of
	// the ratio's logarithm over the logarithm of X.
	X float64 `json:"x"`
	// Low and High are the nearest X on either side at which A and B differ with
	// confidence: the crossover lies between them. If the crossover is indistinct, they
	// are the ends of the stretch in which A and B do not differ.
	Low  float64       `json:"low"`
	High float64       `json:"high"`
	Kind CrossoverKind `json:"kind"`
	// Beyond is Higher if A is above B after the crossover, otherwise Lower.
	Beyond Verdict `json:"beyond"`
}

// FindCrossovers returns where two positive curves over the same X cross, in order. At each X
// both need three trials; pairs and assumptions are those of [RatioInterval]. Differences are
// judged at each X alone: at 95 %, one of twenty X without a difference shows one, and could
// alone make a crossover on either side of itself.
func FindCrossovers(a, b Curve, rule CrossoverRule) ([]Crossover, error) {
	points, err := differences(a, b, rule)
	if err != nil {
		return nil, fmt.Errorf("stats: crossovers: %w", err)
	}
	var crossovers []Crossover
	// A crossover lies between two points that surely differ, on opposite sides; between two on
	// the same side none can be found; before the first sure point and after the last, a crossover
	// is indistinct.
	begin := 0
	for end, point := range points {
		if point.side == 0 && end < len(points)-1 {
			continue
		}
		stretch := points[begin : end+1]
		if c, crossed := crossing(stretch, rule); crossed {
			crossovers = append(crossovers, c)
		}
		begin = end
	}
	return crossovers, nil
}

// difference compares A with B at one X.
type difference struct {
	x        float64
	logRatio float64 // of A to B
	side     int     // 1 or -1 if logRatio differs from 0 with confidence, else 0
}

func differences(a, b Curve, rule CrossoverRule) ([]difference, error) {
	for _, curve := range []Curve{a, b} {
		if err := curve.check(); err != nil {
			return nil, err
		}
	}
	if !slices.Equal(a.X, b.X) {
		return nil, fmt.Errorf("%w: the curves have different X", ErrUnusable)
	}
	if len(a.X) < 2 {
		return nil, fmt.Errorf("%w: %d points, need 2", ErrTooFew, len(a.X))
	}
	points := make([]difference, len(a.X))
	for i, x := range a.X {
		ratio, err := RatioInterval(a.Y[i], b.Y[i], rule.Confidence)
		if err != nil {
			return nil, fmt.Errorf("at X = %v: %w", x, err)
		}
		points[i] = difference{x: x, logRatio: math.Log(ratio.Estimate)}
		switch {
		case ratio.Low > 1:
			points[i].side = 1
		case ratio.High < 1:
			points[i].side = -1
		}
	}
	return points, nil
}

// crossing returns the crossover in a stretch. A and B surely differ at most at its ends.
func crossing(stretch []difference, rule CrossoverRule) (Crossover, bool) {
	first, last := stretch[0], stretch[len(stretch)-1]
	if first.logRatio*last.logRatio >= 0 {
		return Crossover{}, false
	}
	before, after := signChange(stretch)
	c := Crossover{
		X:      zeroBetween(before, after),
		Low:    first.x,
		High:   last.x,
		Kind:   Gradual,
		Beyond: Lower,
	}
	if after.logRatio > before.logRatio {
		c.Beyond = Higher
	}
	jump := math.Abs(last.logRatio - first.logRatio)
	switch {
	case first.side*last.side == 0:
		c.Kind = Indistinct
	case len(stretch) == 2 && last.x/first.x <= rule.SharpStep && jump > math.Log1p(rule.SharpJump):
		c.Kind = Sharp
	}
	return c, true
}

// signChange returns the neighbours between which the estimates change sides for the last time.
func signChange(stretch []difference) (before, after difference) {
	i := len(stretch) - 1
	for stretch[i-1].logRatio*stretch[i].logRatio > 0 {
		i--
	}
	return stretch[i-1], stretch[i]
}

func zeroBetween(before, after difference) float64 {
	share := before.logRatio / (before.logRatio - after.logRatio)
	return math.Exp(math.Log(before.x) + share*(math.Log(after.x)-math.Log(before.x)))
}
