package matrix

import (
	"math"
	"slices"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
)

// times holds the distribution of one trial's times, in microseconds.
type times struct {
	count     int64
	mean, max float64
	// counts keeps what occurred, not the histogram: decoded that is 216 KiB. It is
	// empty if another program's client reported the totals alone.
	counts stats.Counts
	// reported holds the percentiles that another program computed, where there are no counts.
	reported []latency.Percentile
}

func readTimes(from *latency.Distribution) (times, error) {
	if from == nil || from.Count == 0 {
		return times{}, nil
	}
	t := times{count: from.Count, mean: float64(from.Sum) / float64(from.Count) / 1e3, max: float64(from.Max) / 1e3}
	if from.OnlyTotals() {
		t.reported = from.Percentiles
		return t, nil
	}
	histogram, err := from.Decode()
	if err != nil {
		return times{}, err
	}
	for duration, count := range histogram.Counts() {
		t.counts = append(t.counts, stats.Count{Value: float64(duration) / 1e3, Count: count})
	}
	return t, nil
}

// quantile returns NaN if too few requests lie beyond it.
func (t times) quantile(q float64) float64 {
	if len(t.reported) > 0 {
		return t.reportedQuantile(q)
	}
	return knownQuantile(t.counts, q)
}

// tail returns how many times longer the slowest hundredth takes than the median.
func (t times) tail() float64 {
	if len(t.reported) > 0 {
		return t.quantile(0.99) / t.quantile(0.5)
	}
	return tailOf(t.counts)
}

func knownQuantile(counts stats.Counts, q float64) float64 {
	if counts.Total() < stats.LeastCount(q) {
		return math.NaN()
	}
	return counts.Quantile(q)
}

func tailOf(counts stats.Counts) float64 {
	return knownQuantile(counts, 0.99) / counts.Quantile(0.5)
}

// reportedQuantile returns NaN if the program has not computed it, or if too few requests lie
// beyond it.
func (t times) reportedQuantile(q float64) float64 {
	i := slices.IndexFunc(t.reported, func(p latency.Percentile) bool { return math.Abs(p.Quantile-q) < sameQuantile })
	if i < 0 || t.count < stats.LeastCount(q) {
		return math.NaN()
	}
	return float64(t.reported[i].Duration) / 1e3
}

// sameQuantile is the distance within which quantiles are equal: 99.9 / 100 is not quite
// 0.999.
const sameQuantile = 1e-9
