package latency

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is the distribution of the durations of any number of recorders.
// Reading it concurrently is safe while nobody adds to it.
//
// hdrhistogram-go computes quantiles and the encoded form, so that they equal those
// of the HdrHistogram libraries in other languages.
type Histogram struct {
	buckets *hdrhistogram.Histogram
	totals
}

// NewHistogram returns a histogram of the recorders' durations.
func NewHistogram(recorders ...*Recorder) *Histogram {
	h := &Histogram{
		buckets: hdrhistogram.New(lowestValue, highestValue, significantDigits),
		totals:  noTotals(),
	}
	for _, r := range recorders {
		h.Add(r)
	}
	return h
}

// Add adds the durations of a recorder, which does not change.
func (h *Histogram) Add(r *Recorder) {
	for bucket, count := range r.counts {
		if count == 0 {
			continue
		}
		if err := h.buckets.RecordValues(lowestIn(bucket), count); err != nil {
			panic("latency: recorder and histogram differ in layout: " + err.Error())
		}
	}
	h.add(r.totals)
}

// Merge adds the durations of another histogram, which does not change.
func (h *Histogram) Merge(other *Histogram) {
	if dropped := h.buckets.Merge(other.buckets); dropped != 0 {
		panic("latency: histograms of one layout do not fit")
	}
	h.add(other.totals)
}

// Count returns how many durations it holds.
func (h *Histogram) Count() int64 { return h.count }

// Clamped returns how many of them were above 60 s, where the buckets end.
// Quantiles among these are too low; Mean and Max are not.
func (h *Histogram) Clamped() int64 { return h.clamped }

// Sum returns the sum of all durations: exact, unless the histogram was decoded
// from a string alone, which does not contain it.
func (h *Histogram) Sum() time.Duration { return time.Duration(h.sum) }

// Mean returns the sum divided by the count, or 0 for an empty histogram.
func (h *Histogram) Mean() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(math.Round(float64(h.sum) / float64(h.count)))
}

// Min returns the exact minimum, or 0 for an empty histogram.
func (h *Histogram) Min() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.min)
}

// Max returns the exact maximum, or 0 for an empty histogram.
func (h *Histogram) Max() time.Duration {
	if h.count == 0 {
		return 0
	}
	return time.Duration(h.max)
}

// Quantile returns the duration that a share q of all durations does not exceed,
// to three significant digits: the upper end of its bucket, as in HdrHistogram. At
// q = 0 and q = 1 it is the exact minimum and maximum. An empty histogram gives 0.
func (h *Histogram) Quantile(q float64) time.Duration {
	return h.quantiles([]float64{q})[0]
}

// quantiles returns several quantiles; ascending ones take one pass.
func (h *Histogram) quantiles(qs []float64) []time.Duration {
	durations := make([]time.Duration, len(qs))
	if h.count == 0 {
		return durations
	}
	percentiles := make([]float64, len(qs))
	for i, q := range qs {
		percentiles[i] = q * 100
	}
	for i, value := range h.buckets.ValueAtPercentilesSlice(percentiles) {
		switch {
		case qs[i] <= 0:
			value = h.min
		case qs[i] >= 1:
			value = h.max
		}
		durations[i] = time.Duration(min(max(value, h.min), h.max))
	}
	return durations
}

// Point is one point of a curve of latency by percentile.
type Point struct {
	Quantile float64       `json:"q"`
	Value    time.Duration `json:"value_ns"`
}

// curveNines limits the curve: no trial has samples beyond 99.999999 %.
const curveNines = 8

// Percentiles returns the curve at 0, 10, … 90, 91, … 99, 99.1 % and so on: nine
// points a decade of the usual logarithmic axis. It goes as far as there are samples
// and ends with the exact maximum; it has at most 74 points. An empty histogram has
// none.
func (h *Histogram) Percentiles() []Point {
	if h.count == 0 {
		return nil
	}
	var qs []float64
	for nines := range curveNines {
		for tenths := range 9 {
			beyond := float64(10-tenths) / math.Pow10(nines+1)
			if beyond*float64(h.count) >= 1 {
				qs = append(qs, 1-beyond)
			}
		}
	}
	qs = append(qs, 1)
	points := make([]Point, len(qs))
	for i, value := range h.quantiles(qs) {
		points[i] = Point{Quantile: qs[i], Value: value}
	}
	return points
}
