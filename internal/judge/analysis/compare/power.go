package compare

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Power holds what the repeats of a run can find of a metric, at the noise of its own trials,
// in four comparisons out of five.
type Power struct {
	Metric      string  `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`
	Comparisons int     `json:"comparisons"` // with enough pairs for a verdict
	Pairs       int     `json:"pairs"`       // of the comparison in the middle
	Noise       float64 `json:"noise"`       // by how much trials of one cell differ: a standard deviation of 0.07 is 7 %
	Findable    float64 `json:"findable"`    // the least difference of two variants that is found: 0.2 for 20 % more

	Difference          float64 `json:"difference"`                                  // the one whose pairs follow: 0.1 for 10 % more
	PairsForDifference  *int    `json:"pairs_for_difference" jsonschema:"nullable"`  // that find it, about; null if 10,000 are too few
	PairsForEquivalence *int    `json:"pairs_for_equivalence" jsonschema:"nullable"` // that find two equal variants equivalent, about; null likewise
}

// tenth is the difference for which Power gives the pairs.
const tenth = 0.1

// Power returns nil if nothing was compared.
func (f *Family) Power() *Power {
	if len(f.samples) == 0 {
		return nil
	}
	pairs := make([]int, len(f.samples))
	for i, s := range f.samples {
		pairs[i] = int(s.pairs)
	}
	slices.Sort(pairs)
	usual := estimateNoise(f.samples)
	variances := make([]float64, len(f.samples))
	for i, s := range f.samples {
		variances[i] = varianceOf(usual.estimate(s))
	}
	slices.Sort(variances)
	d := design{level: f.level, comparisons: len(f.samples), variances: variances[len(variances)/2 : len(variances)/2+1], lent: usual.degrees}
	return d.power(pairs[len(pairs)/2])
}

// A design is a number of comparisons that are judged together.
type design struct {
	level       matrix.Level
	comparisons int
	variances   []float64 // of the logarithm of one pair's ratio: each is as likely as the others
	lent        float64   // degrees of freedom that a comparison has from the others
}

func (d design) power(pairs int) *Power {
	return &Power{
		Comparisons: d.comparisons, Pairs: pairs,
		Noise: math.Sqrt(d.variances[len(d.variances)/2] / 2), Findable: math.Expm1(d.findable(pairs)), Difference: tenth,
		PairsForDifference:  leastPairs(func(pairs int) bool { return d.finds(math.Log1p(tenth), pairs) >= power }),
		PairsForEquivalence: leastPairs(func(pairs int) bool { return d.findsEquivalence(pairs) >= power }),
	}
}

// power is the share of the comparisons that should find an existing difference.
const power = 0.8

// student returns the distribution that judges a comparison with this number of pairs.
func (d design) student(pairs int) stats.Student {
	own := float64(pairs - 1)
	freedom := max(own, min(d.lent+own, own*float64(d.comparisons)))
	return stats.NewStudent(freedom)
}

// share returns the mean of a probability over the standard errors that this number of pairs
// may have.
func (d design) share(pairs int, of func(standardError float64) float64) float64 {
	sum := 0.0
	for _, variance := range d.variances {
		sum += of(math.Sqrt(variance / float64(pairs)))
	}
	return sum / float64(len(d.variances))
}

// finds returns the probability of finding a ratio, given by its logarithm: corrected for the
// number of comparisons as the first of Holm's is, and beyond the margin.
func (d design) finds(logRatio float64, pairs int) float64 {
	t := d.student(pairs)
	significant := t.Quantile(1 - (1-d.level.Confidence())/2/float64(d.comparisons))
	return d.share(pairs, func(standardError float64) float64 {
		return t.CDF(logRatio/standardError - max(significant, math.Log1p(matrix.Margin)/standardError))
	})
}

// findable returns the logarithm of the smallest ratio that is found.
func (d design) findable(pairs int) float64 {
	low, high := 0.0, 1.0
	for d.finds(high, pairs) < power {
		low, high = high, 2*high
	}
	for high-low > 1e-4*high {
		if middle := (low + high) / 2; d.finds(middle, pairs) < power {
			low = middle
		} else {
			high = middle
		}
	}
	return high
}

// findsEquivalence returns the probability that the interval of two equal variants lies within
// the margin. The estimate itself is off by part of it.
func (d design) findsEquivalence(pairs int) float64 {
	half := d.student(pairs).Quantile((1 + d.level.Confidence()) / 2)
	return d.share(pairs, func(standardError float64) float64 {
		return max(0, 2*distuv.UnitNormal.CDF(math.Log1p(matrix.Margin)/standardError-half)-1)
	})
}

// leastPairs returns the smallest number of pairs, from LeastTrials on, that is enough. It
// returns nil if none is.
func leastPairs(enough func(pairs int) bool) *int {
	const most = 10_000
	pairs := matrix.LeastTrials + sort.Search(most-matrix.LeastTrials+1, func(i int) bool { return enough(matrix.LeastTrials + i) })
	if pairs > most {
		return nil
	}
	return &pairs
}
