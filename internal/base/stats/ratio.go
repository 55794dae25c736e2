package stats

import (
	"fmt"
	"math"
)

// RatioInterval bounds the ratio of A to B, by Student's t over the logarithms
// of the trials' figures, which must be positive.
//
// If A and B have equally many trials, they count as pairs in the given order: the i-th
// of both ran next to each other, which cancels what the machine did at the time. Trials
// that were not pairs only lose some power by it. Otherwise the two are independent
// samples, whose variances may differ (Welch). Either way it assumes roughly log-normal
// noise: of a nominal 95 % it covers 95 % at 3, 5 and 10 trials.
func RatioInterval(a, b []float64, confidence float64) (Interval, error) {
	difference, err := logDifference(a, b, confidence)
	if err != nil {
		return Interval{}, fmt.Errorf("stats: interval of a ratio: %w", err)
	}
	return difference.ratio(confidence), nil
}

// An estimatedDifference holds the mean of log(A) less the mean of log(B), with its error.
type estimatedDifference struct {
	mean, standardError float64
	degreesOfFreedom    float64
}

func logDifference(a, b []float64, confidence float64) (estimatedDifference, error) {
	logA, err := logarithms(a, confidence)
	if err != nil {
		return estimatedDifference{}, fmt.Errorf("of A: %w", err)
	}
	logB, err := logarithms(b, confidence)
	if err != nil {
		return estimatedDifference{}, fmt.Errorf("of B: %w", err)
	}
	if len(logA) == len(logB) {
		for i := range logA {
			logA[i] -= logB[i]
		}
		mean, standardError := meanAndError(logA)
		return estimatedDifference{mean, standardError, float64(len(logA) - 1)}, nil
	}
	return welch(logA, logB), nil
}

// welch returns the difference of two independent samples of unequal variance, with the
// degrees of freedom of Welch and Satterthwaite.
func welch(a, b []float64) estimatedDifference {
	meanA, errorA := meanAndError(a)
	meanB, errorB := meanAndError(b)
	squareA, squareB := errorA*errorA, errorB*errorB
	d := estimatedDifference{
		mean:             meanA - meanB,
		standardError:    math.Sqrt(squareA + squareB),
		degreesOfFreedom: float64(min(len(a), len(b)) - 1),
	}
	if d.standardError > 0 {
		d.degreesOfFreedom = (squareA + squareB) * (squareA + squareB) /
			(squareA*squareA/float64(len(a)-1) + squareB*squareB/float64(len(b)-1))
	}
	return d
}

func logarithms(values []float64, confidence float64) ([]float64, error) {
	if err := checkTrials(values, confidence); err != nil {
		return nil, err
	}
	logs := make([]float64, len(values))
	for i, value := range values {
		if value <= 0 {
			return nil, fmt.Errorf("%w: value %d is %v, and only positive ones have a ratio", ErrUnusable, i, value)
		}
		logs[i] = math.Log(value)
	}
	return logs, nil
}

func (d estimatedDifference) ratio(confidence float64) Interval {
	half := d.standardError * NewStudent(d.degreesOfFreedom).Quantile((1+confidence)/2)
	return Interval{
		Estimate:   math.Exp(d.mean),
		Low:        math.Exp(d.mean - half),
		High:       math.Exp(d.mean + half),
		Confidence: confidence,
	}
}
