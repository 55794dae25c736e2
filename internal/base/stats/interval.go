package stats

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"

	"gonum.org/v1/gonum/stat"
)

var (
	// ErrTooFew is wrapped by errors about fewer values than a method needs. A
	// figure without an interval is still useful; a guessed interval is not.
	ErrTooFew = errors.New("too few values")

	// ErrUnusable is wrapped by errors about a value that is not a finite number,
	// or not positive where the method takes its logarithm.
	ErrUnusable = errors.New("unusable value")
)

// leastTrials is the minimum for an interval: two trials leave one degree of freedom, and an
// interval thirteen deviations wide.
const leastTrials = 3

// An Interval is an estimate with its confidence interval.
type Interval struct {
	Estimate   float64 `json:"estimate"`
	Low        float64 `json:"low"`
	High       float64 `json:"high"`
	Confidence float64 `json:"confidence"` // of covering the truth, from 0 to 1
}

// Contains reports whether the value lies in the interval.
func (i Interval) Contains(value float64) bool { return i.Low <= value && value <= i.High }

// MeanInterval bounds the true mean of the trials' figures, by Student's t. It assumes
// independent trials with roughly normal noise: of a nominal 95 % it covers 95 % at 3,
// 5 and 10 trials, and 94 % where the noise is log-normal with sigma 0.3.
func MeanInterval(values []float64, confidence float64) (Interval, error) {
	if err := checkTrials(values, confidence); err != nil {
		return Interval{}, fmt.Errorf("stats: interval of a mean: %w", err)
	}
	return studentInterval(values, confidence), nil
}

// studentInterval computes MeanInterval for checked values.
func studentInterval(values []float64, confidence float64) Interval {
	mean, standardError := meanAndError(values)
	half := standardError * NewStudent(float64(len(values)-1)).Quantile((1+confidence)/2)
	return Interval{Estimate: mean, Low: mean - half, High: mean + half, Confidence: confidence}
}

func meanAndError(values []float64) (mean, standardError float64) {
	mean, deviation := stat.MeanStdDev(values, nil)
	return mean, deviation / math.Sqrt(float64(len(values)))
}

func checkTrials(values []float64, confidence float64) error {
	if len(values) < leastTrials {
		return fmt.Errorf("%w: %d, need %d", ErrTooFew, len(values), leastTrials)
	}
	if err := checkFinite(values); err != nil {
		return err
	}
	return checkConfidence(confidence)
}

func checkFinite(values []float64) error {
	for i, value := range values {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			return fmt.Errorf("%w: value %d is %v", ErrUnusable, i, value)
		}
	}
	return nil
}

func checkConfidence(confidence float64) error {
	if !(confidence > 0 && confidence < 1) {
		return fmt.Errorf("%w: a confidence of %v is not between 0 and 1", ErrUnusable, confidence)
	}
	return nil
}

// Resampling holds the settings of a bootstrap. Equal seeds give equal intervals.
type Resampling struct {
	Seed       uint64
	Confidence float64
}

// source returns the random numbers of the seed.
func (r Resampling) source() *rand.Rand {
	const stream = 0x77697265 // any constant: another one gives another sequence
	return rand.New(rand.NewPCG(r.Seed, stream))
}

// Median returns the median of values in any order. It returns NaN if there are none, or if
// one of them is NaN.
func Median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 || math.IsNaN(sorted[0]) { // which sorts first
		return math.NaN()
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}
