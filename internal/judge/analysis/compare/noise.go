package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A sample summarises the logarithms of the paired ratios of one comparison.
type sample struct {
	mean, variance float64
	pairs          float64
}

func newSample(a, b []float64) sample {
	logs := make([]float64, len(a))
	for i := range a {
		logs[i] = math.Log(a[i] / b[i])
	}
	return sampleOf(logs)
}

func sampleOf(logs []float64) sample {
	mean, variance := stat.MeanVariance(logs, nil)
	return sample{mean: mean, variance: max(variance, leastVariance), pairs: float64(len(logs))}
}

// leastVariance is the variance of trials that differ by a thousandth of a percent. Less is
// rounding, and its logarithm would outweigh the others.
const leastVariance = 1e-10

const (
	// leastFamily is the fewest comparisons from which the usual noise is estimated.
	leastFamily = 10
	// trust is the weight of the prior. The method assumes one distribution of the variances.
	// Where they are distributed otherwise, 7 % of runs without a difference had one at full
	// weight and 4 % at half of it, at the cost of few differences found.
	trust = 0.5
)

func (s sample) degrees() float64 { return s.pairs - 1 }

// isCount reports whether all repeats agree, as counts do. They say nothing about noise.
func (s sample) isCount() bool { return s.variance <= leastVariance }

// noise estimates from a family of comparisons how much trials differ. It is the
// prior of Smyth, "Linear models and empirical Bayes methods" (2004).
//
// Three trials hardly know their own variance: with two degrees of freedom a ratio
// must be 27 standard errors away from 1 to survive Holm among 36 comparisons. No
// difference in practice is that large. But the same machine made all 36 in the same
// hour. Each of their variances is uncertain, but together they show the usual
// variance, and how far single ones stray from it. Each comparison is judged by its
// own variance, drawn towards the usual one: the less variances stray, the further.
// If variances differ greatly, the prior has few degrees of freedom and draws little.
type noise struct {
	variance, degrees float64
	pooled            float64 // degrees of freedom in the family
}

// estimateNoise fits the prior by the moments of the logarithms of the variances.
func estimateNoise(family []sample) noise {
	var n noise
	family = slices.DeleteFunc(slices.Clone(family), sample.isCount)
	logs := make([]float64, len(family))
	expected := 0.0 // variance of those logarithms if all variances were equal
	for i, s := range family {
		half := s.degrees() / 2
		logs[i] = math.Log(s.variance) - mathext.Digamma(half) + math.Log(half)
		expected += trigamma(half) / float64(len(family))
		n.pooled += s.degrees()
	}
	if len(family) < leastFamily {
		return n
	}
	mean, spread := stat.MeanVariance(logs, nil)
	if spread <= expected {
		n.degrees, n.variance = n.pooled*trust, math.Exp(mean)
		return n
	}
	half := inverseTrigamma(spread - expected)
	n.degrees = 2 * half * trust
	n.variance = math.Exp(mean + mathext.Digamma(half) - math.Log(half))
	return n
}

// estimate returns the sample's ratio, with its noise drawn towards the family's noise.
func (n noise) estimate(s sample) stats.LogRatio {
	if s.isCount() {
		return stats.LogRatio{Mean: s.mean, StandardError: math.Sqrt(s.variance / s.pairs), Trials: int(s.pairs), Freedom: s.degrees()}
	}
	total := n.degrees + s.degrees()
	variance := (n.degrees*n.variance + s.degrees()*s.variance) / total
	return stats.LogRatio{
		Mean: s.mean, StandardError: math.Sqrt(variance / s.pairs), Trials: int(s.pairs),
		// The family cannot lend more than its members have.
		Freedom: max(min(total, n.pooled), s.degrees()),
	}
}

// varianceOf returns the variance of one pair's logarithm.
func varianceOf(e stats.LogRatio) float64 {
	return e.StandardError * e.StandardError * float64(e.Trials)
}

// judge returns the interval of the ratio, and the chance of it if there is no difference.
func (n noise) judge(s sample, at matrix.Level) stats.Comparison {
	e := n.estimate(s)
	student := stats.NewStudent(e.Freedom)
	half := e.StandardError * student.Quantile((1+at.Confidence())/2)
	return stats.Comparison{
		Ratio: stats.Interval{
			Estimate: math.Exp(s.mean), Low: math.Exp(s.mean - half), High: math.Exp(s.mean + half), Confidence: matrix.Confidence,
		},
		P: at.Adjust(2 * student.CDF(-math.Abs(s.mean)/e.StandardError)),
	}
}

func trigamma(x float64) float64 { return mathext.Zeta(2, x) }

// inverseTrigamma uses Newton's method on 1/trigamma, which is nearly a straight line. It
// converges from below for every value (Smyth 2004, appendix).
func inverseTrigamma(value float64) float64 {
	x := 0.5 + 1/value
	for range 50 {
		t := trigamma(x)
		tetragamma := -2 * mathext.Zeta(3, x)
		step := t * (1 - t/value) / tetragamma
		x += step
		if -step/x < 1e-8 {
			break
		}
	}
	return x
}

// newUnpaired returns a sample with as many pairs as the smaller side has trials, and with the
// variance that gives the difference of the means its error. It never has more degrees of
// freedom than Welch's t.
func newUnpaired(a, b []float64) sample {
	meanA, varianceA := stat.MeanVariance(logarithmsOf(a), nil)
	meanB, varianceB := stat.MeanVariance(logarithmsOf(b), nil)
	pairs := float64(min(len(a), len(b)))
	return sample{
		mean: meanA - meanB, pairs: pairs,
		variance: max(pairs*(varianceA/float64(len(a))+varianceB/float64(len(b))), leastVariance),
	}
}

func logarithmsOf(values []float64) []float64 {
	logs := make([]float64, len(values))
	for i, v := range values {
		logs[i] = math.Log(v)
	}
	return logs
}
