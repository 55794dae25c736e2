package latency

import (
	"iter"
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
	if h.count == 0 {
		return 0
	}
	switch {
	case q <= 0:
		return time.Duration(h.min)
	case q >= 1:
		return time.Duration(h.max)
	}
	return h.within(h.buckets.ValueAtPercentile(q * 100))
}

// within limits a bucket's upper end to the exact minimum and maximum.
func (h *Histogram) within(ns int64) time.Duration {
	return time.Duration(min(max(ns, h.min), h.max))
}

// Counts yields each bucket's duration, as Quantile gives it, in ascending order, with
// how many durations fell into it.
func (h *Histogram) Counts() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		for bucket, count := range h.buckets.Export().Counts {
			if count > 0 && !yield(h.within(lowestIn(bucket+1)-1), count) {
				return
			}
		}
	}
}
