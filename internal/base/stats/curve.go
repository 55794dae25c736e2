package stats

import (
	"fmt"
	"math"
	"math/rand/v2"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/lists"
)

// A Curve is a figure as a function of X, such as throughput over the number of clients.
type Curve struct {
	X []float64   // ascending and positive
	Y [][]float64 // the trials' figures at each X; each X has at least one
}

func (c Curve) check() error {
	if len(c.X) != len(c.Y) {
		return fmt.Errorf("%w: the curve has %d X values, but %d Y values: want equal numbers", ErrUnusable, len(c.X), len(c.Y))
	}
	if err := checkFinite(c.X); err != nil {
		return fmt.Errorf("the X values of the curve: %w", err)
	}
	for i, x := range c.X {
		if x <= 0 || i > 0 && x <= c.X[i-1] {
			return fmt.Errorf("%w: X = %v: want positive X values in ascending order", ErrUnusable, x)
		}
		if len(c.Y[i]) == 0 {
			return fmt.Errorf("%w: the curve has no trial at X = %v", ErrTooFew, x)
		}
		if err := checkFinite(c.Y[i]); err != nil {
			return fmt.Errorf("at X = %v: %w", x, err)
		}
	}
	return nil
}

func (c Curve) means() []float64 {
	return lists.Map(c.Y, func(trials []float64) float64 { return stat.Mean(trials, nil) })
}

// WithTrials returns the points of the curve that have at least this number of trials.
func (c Curve) WithTrials(least int) Curve {
	var kept Curve
	for i, trials := range c.Y {
		if len(trials) >= least {
			kept.X, kept.Y = append(kept.X, c.X[i]), append(kept.Y, trials)
		}
	}
	return kept
}

func (c Curve) fewestTrials() int {
	least := math.MaxInt
	for _, trials := range c.Y {
		least = min(least, len(trials))
	}
	return least
}

// resampledMean draws len(trials) values from trials with replacement and returns their mean.
func resampledMean(trials []float64, random *rand.Rand) float64 {
	var sum float64
	for range trials {
		sum += trials[random.IntN(len(trials))]
	}
	return sum / float64(len(trials))
}

// beforeFall returns the part of the curve before its fall. The fall begins at the first X after
// the greatest mean whose mean is below the given share of the greatest mean.
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

// The kinds of crossovers.
const (
	// Sharp means that the curves cross within one step of X, and their ratio jumps.
	Sharp CrossoverKind = "sharp"
	// Gradual means that the curves are equal in a range of X, and differ before and after this
	// range.
	Gradual CrossoverKind = "gradual"
	// Indistinct means that the estimates cross, but that the curves do not differ with confidence
	// on both sides. Possibly there is no crossover.
	Indistinct CrossoverKind = "indistinct"
)

// CrossoverRule holds the limits that decide the kind of a crossover.
type CrossoverRule struct {
	SharpStep float64 // greatest ratio of neighbouring X for a sharp crossover, such as 2
	SharpJump float64 // least relative change of A/B at a sharp crossover, such as 0.1
}

// A Crossover describes the X at which the curves A and B cross.
type Crossover struct {
	// X is the point at which the ratio of A to B is 1. It is interpolated on logarithmic axes.
	X float64 `json:"x"`
	// Low and High are the nearest X below and above the crossover at which A and B differ with
	// confidence. For an indistinct crossover they are the ends of the range without a difference.
	Low  float64       `json:"low"`
	High float64       `json:"high"`
	Kind CrossoverKind `json:"kind"`
	// Beyond is Higher if A is above B after the crossover, otherwise Lower.
	Beyond Verdict `json:"beyond"`
}

// FindCrossovers returns the crossovers of two curves, in ascending order, from the ratio of A to B at each
// X. A and B differ with confidence at X if the ratio's interval excludes 1. Each X is judged alone: at
// 95 %, one of twenty X shows a false difference. Each false difference can add two false crossovers.
func FindCrossovers(x []float64, ratios []Interval, rule CrossoverRule) []Crossover {
	points := make([]difference, len(x))
	for i, ratio := range ratios {
		points[i] = difference{x: x[i], logRatio: math.Log(ratio.Estimate)}
		switch {
		case ratio.Low > 1:
			points[i].side = 1
		case ratio.High < 1:
			points[i].side = -1
		}
	}
	var crossovers []Crossover
	// Each stretch ends at a point where A and B differ with confidence, or at the last point. A
	// crossover before the first such point, or after the last such point, is indistinct.
	begin := 0
	for end, point := range points {
		if point.side == 0 && end < len(points)-1 {
			continue
		}
		stretch := points[begin : end+1]
		if c, crossed := crossoverIn(stretch, rule); crossed {
			crossovers = append(crossovers, c)
		}
		begin = end
	}
	return crossovers
}

// difference compares A with B at one X.
type difference struct {
	x        float64
	logRatio float64 // the logarithm of A divided by B
	side     int     // with confidence: 1 if logRatio is above 0, -1 if below; else 0
}

// crossoverIn returns the crossover in a stretch. Inside the stretch A and B do not differ with
// confidence; at its ends they may.
func crossoverIn(stretch []difference, rule CrossoverRule) (Crossover, bool) {
	first, last := stretch[0], stretch[len(stretch)-1]
	if first.logRatio*last.logRatio >= 0 {
		return Crossover{}, false
	}
	before, after := lastSignChange(stretch)
	c := Crossover{
		X:      interpolateZero(before, after),
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

// lastSignChange returns the last neighbours whose logRatio have opposite signs.
func lastSignChange(stretch []difference) (before, after difference) {
	i := len(stretch) - 1
	for stretch[i-1].logRatio*stretch[i].logRatio > 0 {
		i--
	}
	return stretch[i-1], stretch[i]
}

func interpolateZero(before, after difference) float64 {
	share := before.logRatio / (before.logRatio - after.logRatio)
	return math.Exp(math.Log(before.x) + share*(math.Log(after.x)-math.Log(before.x)))
}
