package compare

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A sample summarises the logarithms of the ratios of one comparison. Where trials lack a partner,
// pairs is the number of pairs that would tell as much, and need not be whole.
type sample struct {
	mean, variance float64 // variance of one pair's ratio
	pairs, freedom float64
	// floor is the least variance of figures that count few requests, see countVariance. 0 means none.
	floor float64
}

// newSample returns the sample of a difference of two logarithms.
func newSample(e stats.Contrast) sample {
	pairs := 2 / e.Unit
	return sample{mean: e.Mean, variance: max(e.StandardError*e.StandardError*pairs, leastVariance), pairs: pairs, freedom: e.Freedom}
}

func sampleOf(logs []float64) sample {
	mean, variance := stat.MeanVariance(logs, nil)
	return sample{mean: mean, variance: max(variance, leastVariance), pairs: float64(len(logs)), freedom: float64(len(logs) - 1)}
}

// leastVariance is the smallest variance of a sample. Smaller variances come from rounding, and
// their logarithms would outweigh other logarithms.
const leastVariance = 1e-10

const (
	// leastFamily is the least number of comparisons for estimating the usual noise.
	leastFamily = 10
	// priorWeight is the weight of the prior. The method assumes a certain distribution of the
	// variances. For other distributions, 6 % of runs show a false difference at half weight, but less
	// than 5 % at this one, which misses few real differences.
	priorWeight = 0.35
)

// isCount reports whether all repeats are equal, as for counts. Such samples do not show noise.
func (s sample) isCount() bool { return s.variance <= leastVariance }

// noisePrior holds the usual variance of a family of comparisons. It is the prior of Smyth, "Linear
// models and empirical Bayes methods" (2004).
//
// The variance of three trials alone is a poor estimate: with two degrees of freedom and Holm's
// correction for 36 comparisons, a real ratio would have to be 27 standard errors away from 1. But
// one machine measured all 36 within an hour, so together they show the usual variance. Each
// comparison is judged by a weighted mean of its own variance and the usual variance. The less the
// variances of the family differ, the larger is the weight of the usual variance.
type noisePrior struct {
	variance, degrees float64
	pooled            float64 // degrees of freedom in the family
}

// estimateNoise fits the prior by the moments of the logarithms of the variances.
func estimateNoise(family []sample) noisePrior {
	var n noisePrior
	family = slices.DeleteFunc(slices.Clone(family), sample.isCount)
	logs := make([]float64, len(family))
	expected := 0.0 // variance of the logarithms if all true variances are equal
	for i, s := range family {
		half := s.freedom / 2
		logs[i] = math.Log(s.variance) - mathext.Digamma(half) + math.Log(half)
		expected += trigamma(half) / float64(len(family))
		n.pooled += s.freedom
	}
	if len(family) < leastFamily {
		return n
	}
	mean, spread := stat.MeanVariance(logs, nil)
	if spread <= expected {
		n.degrees, n.variance = n.pooled*priorWeight, math.Exp(mean)
		return n
	}
	half := inverseTrigamma(spread - expected)
	n.degrees = 2 * half * priorWeight
	n.variance = math.Exp(mean + mathext.Digamma(half) - math.Log(half))
	return n
}

// isUsual reports whether the family was large enough to show the usual variance.
func (n noisePrior) isUsual() bool { return n.degrees > 0 }

// knownVariance is the number of degrees of freedom if the variance is not estimated, but known.
const knownVariance = 1e6

// pairVariance returns the variance of the logarithm of a single pair's ratio, a weighted mean of the
// sample's own variance and the usual variance, but at least the variance of counting. It also returns
// the degrees of freedom.
func (n noisePrior) pairVariance(s sample) (variance, freedom float64) {
	variance, freedom = s.variance, s.freedom
	if !s.isCount() {
		total := n.degrees + s.freedom
		// The family cannot add more degrees of freedom than its members have.
		variance, freedom = (n.degrees*n.variance+s.freedom*s.variance)/total, max(min(total, n.pooled), s.freedom)
	}
	if variance < s.floor {
		return s.floor, knownVariance
	}
	return variance, freedom
}

// estimate returns the sample's ratio with its error.
func (n noisePrior) estimate(s sample) stats.LogRatio {
	variance, freedom := n.pairVariance(s)
	return stats.LogRatio{Mean: s.mean, StandardError: math.Sqrt(variance / s.pairs), Trials: int(math.Round(s.pairs)), Freedom: freedom}
}

// judge returns the ratio's interval, and the probability of such a ratio for equal variants.
func (n noisePrior) judge(s sample, at matrix.Level) stats.Comparison {
	e := n.estimate(s)
	return stats.Comparison{
		Ratio: e.Interval(at.Confidence()),
		P:     at.Adjust(2 * stats.NewStudent(e.Freedom).CDF(-math.Abs(e.Mean)/e.StandardError)),
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
