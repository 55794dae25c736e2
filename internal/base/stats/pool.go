package stats

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"
)

// Counts is a histogram: distinct values in ascending order, each with its count.
type Counts []Count

// A Count is a value and the number of times that it occurred.
type Count struct {
	Value float64
	Count int64
}

// Total returns the number of values.
func (c Counts) Total() int64 { return c.countAbove(math.Inf(-1)) }

func (c Counts) countAbove(value float64) (total int64) {
	for _, one := range c {
		if one.Value > value {
			total += one.Count
		}
	}
	return total
}

// Quantile returns the value that a share q of all values does not exceed, or NaN without values.
func (c Counts) Quantile(q float64) float64 {
	rank := max(1, int64(q*float64(c.Total())+0.5))
	for _, one := range c {
		if rank -= one.Count; rank <= 0 {
			return one.Value
		}
	}
	return math.NaN()
}

// leastValuesBeyondQuantile is the number of values that must exceed a quantile. With one such
// value, the P99 of exponential times is on average 9 % too low, with a standard deviation of 19
// %. With ten such values, P99 is 1 % too low, with a standard deviation of 7 %.
const leastValuesBeyondQuantile = 10

// LeastCountForQuantile returns how many values a quantile needs: 1,000 for P99, 10,000 for P99.9.
func LeastCountForQuantile(q float64) int64 {
	return int64(math.Ceil(leastValuesBeyondQuantile/(1-q) - 1e-3))
}

// A Pool holds the distribution of all trials together and of each trial alone.
type Pool struct {
	All     Counts
	trials  []Counts
	without []Counts // element i holds all trials except trial i
}

// NewPool returns a pool of the trials.
func NewPool(trials ...Counts) *Pool {
	p := &Pool{All: MergeCounts(trials...), trials: trials}
	for _, t := range trials {
		p.without = append(p.without, p.All.minus(t))
	}
	return p
}

// MergeCounts returns the histogram of all values together.
func MergeCounts(trials ...Counts) Counts {
	all := slices.Concat(trials...)
	slices.SortFunc(all, func(a, b Count) int { return cmp.Compare(a.Value, b.Value) })
	merged := all[:0]
	for _, one := range all {
		if last := len(merged) - 1; last >= 0 && merged[last].Value == one.Value {
			merged[last].Count += one.Count
		} else {
			merged = append(merged, one)
		}
	}
	return merged
}

// minus returns the histogram c after the values of part are removed.
func (c Counts) minus(part Counts) Counts {
	rest := make(Counts, 0, len(c))
	for _, one := range c {
		if len(part) > 0 && part[0].Value == one.Value {
			one.Count -= part[0].Count
			part = part[1:]
		}
		if one.Count > 0 {
			rest = append(rest, one)
		}
	}
	return rest
}

// plus merges two sorted histograms. Merging is faster than sorting again for each added trial.
func (c Counts) plus(other Counts) Counts {
	merged := make(Counts, 0, len(c)+len(other))
	for len(c) > 0 && len(other) > 0 {
		switch {
		case c[0].Value < other[0].Value:
			merged, c = append(merged, c[0]), c[1:]
		case c[0].Value > other[0].Value:
			merged, other = append(merged, other[0]), other[1:]
		default:
			merged = append(merged, Count{c[0].Value, c[0].Count + other[0].Count})
			c, other = c[1:], other[1:]
		}
	}
	return append(append(merged, c...), other...)
}

// Interval returns the confidence interval of a figure of all trials together, such as a quantile.
// It computes two standard errors and uses the greater one. The error of the mean of the trials'
// figures is too small if few trials decide the figure. The jackknife's error is too small if
// leaving out one trial never changes the figure. Both errors use logarithms if all figures are
// positive.
func (p *Pool) Interval(figure func(Counts) float64, confidence float64) (Interval, error) {
	own, without := make([]float64, len(p.trials)), make([]float64, len(p.trials))
	for i := range p.trials {
		own[i], without[i] = figure(p.trials[i]), figure(p.without[i])
	}
	estimate := figure(p.All)
	figures := slices.Concat(own, without, []float64{estimate})
	if err := errors.Join(checkTrials(own, confidence), checkFinite(figures)); err != nil {
		return Interval{}, fmt.Errorf("stats: interval of a pooled figure: %w", err)
	}
	to, from := math.Log, math.Exp
	if slices.Min(figures) <= 0 {
		to = func(x float64) float64 { return x }
		from = to
	}
	for i := range own {
		own[i], without[i] = to(own[i]), to(without[i])
	}
	trials := float64(len(own))
	jackknife := stat.StdDev(without, nil) * (trials - 1) / math.Sqrt(trials)
	_, ofMean := meanAndError(own)
	half := max(jackknife, ofMean) * NewStudent(trials-1).Quantile((1+confidence)/2)
	return Interval{Estimate: estimate, Low: from(to(estimate) - half), High: from(to(estimate) + half), Confidence: confidence}, nil
}

// A Stall describes a minority of trials whose slowest requests, those beyond a quantile, took far
// longer than the slowest requests of the other trials.
type Stall struct {
	Trials  []int   // indices of the trials, ascending
	Longest float64 // greatest value of the stalled trials
	Without float64 // quantile of all other trials together
}

// stallFactor is the least ratio of a stalled trial's quantile to the other trials' quantile. At a
// ratio of 1.5 the interval still covers the true value in at least 89 % of experiments; at a
// ratio of 2 or more, in as few as 77 %. Noise of 15 % between trials does not double a quantile.
const stallFactor = 2

// Stall finds the trials that stalled at a quantile. It returns nil if no trial stalled. It also
// returns nil if at least half of the trials stalled, because then stalls are normal for the
// service. A trial with a high median did not stall. If a minority stalled, no confidence interval
// is right, because three or ten trials do not show how frequent stalls are.
func (p *Pool) Stall(q float64) *Stall {
	byTail := make([]int, len(p.trials))
	tails := make([]float64, len(p.trials))
	for i, t := range p.trials {
		byTail[i], tails[i] = i, t.Quantile(q)/t.Quantile(0.5)
	}
	slices.SortStableFunc(byTail, func(a, b int) int { return cmp.Compare(tails[b], tails[a]) })
	most := (len(p.trials) - 1) / 2
	others := p.All
	for _, i := range byTail[:max(0, most)] {
		others = others.minus(p.trials[i])
	}
	for ; most > 0; most-- {
		without, usual := others.Quantile(q), others.Quantile(0.5)
		stalled := !slices.ContainsFunc(byTail[:most], func(i int) bool {
			t := p.trials[i]
			limit := stallFactor * without * max(1, t.Quantile(0.5)/usual)
			least := max(leastValuesBeyondQuantile, int64((1-q)*float64(t.Total())))
			return !(limit > 0) || t.countAbove(limit) < least
		})
		if stalled {
			longest := 0.0
			for _, i := range byTail[:most] {
				longest = max(longest, p.trials[i][len(p.trials[i])-1].Value)
			}
			return &Stall{slices.Sorted(slices.Values(byTail[:most])), longest, without}
		}
		others = others.plus(p.trials[byTail[most-1]])
	}
	return nil
}
