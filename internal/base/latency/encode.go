package latency

import (
	"errors"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Encode returns the buckets in HdrHistogram's interchange form: version 2, compressed, in base64.
// The form leaves out the exact totals, which [Histogram.Distribution] keeps.
func (h *Histogram) Encode() (string, error) {
	// The library writes only this version.
	encoded, err := h.buckets.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		return "", fmt.Errorf("latency: encode a histogram: %w", err)
	}
	return string(encoded), nil
}

// Decode reads an encoded HdrHistogram with a lowest value of 1 ns and three digits. Sum, minimum
// and maximum are only as exact as the buckets.
func Decode(encoded string) (*Histogram, error) {
	decoded, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("latency: decode a histogram: %w", err)
	}
	if decoded.LowestTrackableValue() != lowestValue || decoded.SignificantFigures() != significantDigits {
		return nil, fmt.Errorf("latency: decode a histogram: found a range from %d ns with %d digits, want from %d ns with %d",
			decoded.LowestTrackableValue(), decoded.SignificantFigures(), lowestValue, significantDigits)
	}
	if decoded.HighestTrackableValue() != highestValue {
		same := hdrhistogram.New(lowestValue, highestValue, significantDigits)
		if dropped := same.Merge(decoded); dropped != 0 {
			return nil, fmt.Errorf("latency: decode a histogram: %d values are above 60 s", dropped)
		}
		decoded = same
	}
	// One pass computes all totals. The library would read all buckets for each total.
	h := &Histogram{buckets: decoded, totals: emptyTotals()}
	sum := 0.0
	for bucket, count := range decoded.Export().Counts {
		if count == 0 {
			continue
		}
		low, high := lowestValueIn(bucket, magnitude), lowestValueIn(bucket+1, magnitude)-1
		h.count += count
		h.min, h.max = min(h.min, low), high
		sum += float64(count) * float64(low+(high-low+1)/2)
	}
	if sum >= math.MaxInt64 {
		return nil, errors.New("latency: decode a histogram: the durations add up to more than 292 years")
	}
	h.sum = int64(sum)
	return h, nil
}

// Distribution is a histogram as records store it: exact totals, and buckets as Encode returns
// them. Durations are nanoseconds. Histogram is empty if only the totals are known, as for the
// calls of another program.
type Distribution struct {
	Count     int64  `json:"count"`
	Sum       int64  `json:"sum_ns"`
	Min       int64  `json:"min_ns"`
	Max       int64  `json:"max_ns"`
	Clamped   int64  `json:"clamped,omitempty"` // durations above 60 s, in the highest bucket
	Histogram string `json:"hdr"`
	// Percentiles holds the percentiles that another program computed, in ascending order. It is
	// absent if there are buckets.
	Percentiles []Percentile `json:"percentiles,omitempty"`
}

// Percentile holds the duration that a share of the samples does not exceed.
type Percentile struct {
	Quantile float64 `json:"quantile"` // the share: 0.99 for P99
	Duration int64   `json:"ns"`
}

// OnlyTotals reports whether there are samples but no buckets. Then no percentiles are known.
func (d Distribution) OnlyTotals() bool { return d.Count > 0 && d.Histogram == "" }

// Distribution returns the histogram in the form that records store.
func (h *Histogram) Distribution() (Distribution, error) {
	encoded, err := h.Encode()
	if err != nil {
		return Distribution{}, err
	}
	d := h.onlyTotals()
	d.Histogram = encoded
	return d, nil
}

func (h *Histogram) onlyTotals() Distribution {
	return Distribution{Count: h.count, Sum: h.sum, Min: int64(h.Min()), Max: int64(h.Max()), Clamped: h.clamped}
}

func (d Distribution) totals() totals {
	return totals{count: d.Count, sum: d.Sum, min: d.Min, max: d.Max, clamped: d.Clamped}
}

// Decode returns the histogram. It fails if the totals contradict the buckets.
func (d Distribution) Decode() (*Histogram, error) {
	h, err := Decode(d.Histogram)
	if err != nil {
		return nil, err
	}
	if h.count != d.Count {
		return nil, fmt.Errorf("latency: a distribution declares %d samples, but its histogram holds %d", d.Count, h.count)
	}
	if d.Count == 0 {
		return h, nil
	}
	mean := float64(d.Sum) / float64(d.Count)
	switch {
	case d.Clamped < 0 || d.Clamped > d.Count,
		d.Min < 0 || d.Min > d.Max,
		mean < float64(d.Min) || mean > float64(d.Max):
		return nil, fmt.Errorf("latency: a distribution contradicts itself: %d samples (%d clamped) from %d to %d ns with a sum of %d ns",
			d.Count, d.Clamped, d.Min, d.Max, d.Sum)
	case !sameBucket(h.min, d.Min), !sameBucket(h.max, d.Max):
		return nil, fmt.Errorf("latency: a distribution declares %d to %d ns, but its histogram holds %d to %d ns", d.Min, d.Max, h.min, h.max)
	}
	h.totals = d.totals()
	return h, nil
}

func sameBucket(a, b int64) bool {
	return fineBucket(min(a, highestValue)) == fineBucket(min(b, highestValue))
}

// Interval is one line of a histogram log: the durations recorded from Start until Start+Length.
// Tag distinguishes the series in one log; it may be empty.
type Interval struct {
	Tag    string
	Start  time.Time
	Length time.Duration
	*Histogram
}

// LogWriter writes a histogram log (.hlog, format 1.3), which every HdrHistogram port reads. Times
// are seconds since the log's start. Each interval's maximum is in milliseconds. The histogram's
// values are nanoseconds.
type LogWriter struct {
	to *hdrhistogram.HistogramLogWriter
}

// NewLogWriter writes the header of a log that starts at the given time, cut to whole seconds.
func NewLogWriter(w io.Writer, start time.Time) (*LogWriter, error) {
	l := &LogWriter{to: hdrhistogram.NewHistogramLogWriter(w)}
	base := start.Truncate(time.Second).UnixMilli()
	for _, write := range []func() error{
		func() error { return l.to.OutputComment("[Logged with wirelab; values are nanoseconds]") },
		l.to.OutputLogFormatVersion,
		func() error { return l.to.OutputStartTime(base) },
		func() error { return l.to.OutputBaseTime(base) },
		l.to.OutputLegend,
	} {
		if err := write(); err != nil {
			return nil, fmt.Errorf("latency: write the header of a histogram log: %w", err)
		}
	}
	l.to.SetBaseTime(base)
	return l, nil
}

// Write adds one interval. Call it in the order of the intervals' starts.
func (l *LogWriter) Write(interval Interval) error {
	if strings.ContainsAny(interval.Tag, ", \t\r\n") {
		return fmt.Errorf("latency: tag %q of a histogram log contains a comma or white space", interval.Tag)
	}
	line := interval.buckets.Clone()
	line.SetTag(interval.Tag)
	line.SetStartTimeMs(interval.Start.UnixMilli())
	line.SetEndTimeMs(interval.Start.Add(interval.Length).UnixMilli())
	if err := l.to.OutputIntervalHistogram(line); err != nil {
		return fmt.Errorf("latency: write a histogram log: %w", err)
	}
	return nil
}
