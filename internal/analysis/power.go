package analysis

import (
	"math"
	"slices"
	"sort"

	"gonum.org/v1/gonum/stat/distuv"
)

// Power is what the repeats of a run could tell of a metric, at the noise of its own
// trials. Findings are those of four comparisons in five.
type Power struct {
	Metric      string  `json:"metric" jsonschema:"enum=mean,enum=p99,enum=throughput,enum=cpu"`
	Comparisons int     `json:"comparisons"` // with enough pairs for a verdict
	Pairs       int     `json:"pairs"`       // of the comparison in the middle
	Noise       float64 `json:"noise"`       // by how much trials of one cell differ: a standard deviation of 0.07 is 7 %
	Findable    float64 `json:"findable"`    // the least difference of two variants that is found: 0.2 for 20 % more

	Difference          float64 `json:"difference"`                                  // of which the pairs are told: 0.1 for 10 % more
	PairsForDifference  *int    `json:"pairs_for_difference" jsonschema:"nullable"`  // about so many find it; null where 10,000 are too few
	PairsForEquivalence *int    `json:"pairs_for_equivalence" jsonschema:"nullable"` // about so many find two equal variants equivalent; null likewise
}

// tenth is the difference of which Power tells the pairs.
const tenth = 0.1

// power is nil where nothing was compared.
func (f *family) power() *Power {
	if len(f.samples) == 0 {
		return nil
	}
	usual := estimateNoise(f.samples)
	variances := make([]float64, len(f.samples))
	pairs := make([]int, len(f.samples))
	for i, s := range f.samples {
		e := usual.estimate(s)
		variances[i], pairs[i] = e.StandardError*e.StandardError*s.pairs, int(s.pairs)
	}
	slices.Sort(variances)
	slices.Sort(pairs)
	d := design{comparisons: len(f.samples), variance: variances[len(variances)/2], lent: usual.degrees}
	typical := pairs[len(pairs)/2]
	return &Power{
		Comparisons: d.comparisons, Pairs: typical,
		Noise: math.Sqrt(d.variance / 2), Findable: math.Expm1(d.findable(typical)), Difference: tenth,
		PairsForDifference:  leastPairs(func(pairs int) bool { return d.findable(pairs) <= math.Log1p(tenth) }),
		PairsForEquivalence: leastPairs(d.findsEquivalence),
	}
}

// design is a number of comparisons that are judged together.
type design struct {
	comparisons int
	variance    float64 // of the logarithm of one pair's ratio
	lent        float64 // degrees of freedom that a comparison has from the others
}

// power is the share of the comparisons that is to find what there is.
const power = 0.8

// student is the standard error of a comparison of so many pairs, and the distribution
// that it is judged by.
func (d design) student(pairs int) (standardError float64, t distuv.StudentsT) {
	own := float64(pairs - 1)
	freedom := max(own, min(d.lent+own, own*float64(d.comparisons)))
	return math.Sqrt(d.variance / float64(pairs)), distuv.StudentsT{Sigma: 1, Nu: freedom}
}

// findable is the logarithm of the least ratio that is found: corrected for the number of
// comparisons as the first of Holm's is, and beyond the margin.
func (d design) findable(pairs int) float64 {
	standardError, t := d.student(pairs)
	reach := t.Quantile(power)
	significant := t.Quantile(1-(1-confidence)/2/float64(d.comparisons)) + reach
	return max(significant*standardError, math.Log1p(margin)+reach*standardError)
}

// findsEquivalence reports whether the interval of two equal variants lies within the
// margin: the estimate is off by some of it already.
func (d design) findsEquivalence(pairs int) bool {
	standardError, t := d.student(pairs)
	off := distuv.UnitNormal.Quantile((1 + power) / 2)
	return (t.Quantile((1+confidence)/2)+off)*standardError <= math.Log1p(margin)
}

// leastPairs is the least number from leastTrials on that is enough, or nil.
func leastPairs(enough func(pairs int) bool) *int {
	const most = 10_000
	pairs := leastTrials + sort.Search(most-leastTrials+1, func(i int) bool { return enough(leastTrials + i) })
	if pairs > most {
		return nil
	}
	return &pairs
}
