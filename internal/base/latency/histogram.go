// Package latency records how long requests took, and keeps the recorded durations.
//
// Data passes in one direction:
//
//  1. Each client of a trial records durations into a [Recorder] of its own until
//     the window ends; if the scenario asks for it, it also keeps every single
//     sample in a [SampleLog].
//  2. The recorders are merged into a [Histogram], which gives quantiles.
//  3. [Histogram.Distribution] encodes it for a record: the exact totals, and an
//     HdrHistogram V2 string, which tools in any language read.
//  4. [WriteParquet] writes the sample logs of a trial to one file.
//
// A [CoarseHistogram] has only two digits. Another goroutine reads it from a [CoarseRecorder] that
// is still recording. Processes send their coarse histograms often, and the receiver merges them.
//
// Buckets span 1 ns to 60 s with three significant digits, as in HdrHistogram;
// count, sum, minimum and maximum are exact.
//
// Recorders use memory outside the Go heap. Hundreds of recorders of 216 KiB would enlarge the
// heap. The client's garbage collector would then run far less often than in users' programs.
//
// The package must not know stacks, workloads or rates. It does not interpret differences between
// distributions.
package latency

import (
	"fmt"
	"iter"
	"math"
	"math/bits"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Histogram is the distribution of the durations of any number of recorders. Concurrent reading is
// safe unless a goroutine adds durations. Quantiles and the encoded form equal those of the
// HdrHistogram libraries in other languages.
type Histogram struct {
	buckets *hdrhistogram.Histogram
	totals
}

// NewHistogram returns a histogram of the recorders' durations.
func NewHistogram(recorders ...*Recorder) *Histogram {
	h := &Histogram{
		buckets: hdrhistogram.New(lowestValue, highestValue, significantDigits),
		totals:  emptyTotals(),
	}
	for _, r := range recorders {
		h.Add(r)
	}
	return h
}

// Add adds the durations of a recorder.
func (h *Histogram) Add(r *Recorder) {
	for bucket, count := range r.counts {
		if count == 0 {
			continue
		}
		if err := h.buckets.RecordValues(lowestValueIn(bucket, magnitude), count); err != nil {
			panic("latency: recorder and histogram differ in layout: " + err.Error())
		}
	}
	h.add(r.totals)
}

// Count returns the number of recorded durations.
func (h *Histogram) Count() int64 { return h.count }

// Clamped returns the number of durations above 60 s, where the buckets end. Quantiles above 60 s
// are too low, but Mean and Max are exact.
func (h *Histogram) Clamped() int64 { return h.clamped }

// Sum returns the sum of all durations. It is exact unless the histogram was decoded from a string
// alone, which does not contain the sum.
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

// Quantile returns the duration that a share q of all durations does not exceed, to three
// significant digits. It is the upper end of a bucket, as in HdrHistogram. For q = 0 and q = 1 it
// returns the exact minimum and maximum. An empty histogram returns 0.
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
	return h.limitToRange(h.buckets.ValueAtPercentile(q * 100))
}

// limitToRange limits a bucket's upper end to the exact minimum and maximum.
func (h *Histogram) limitToRange(ns int64) time.Duration {
	return time.Duration(min(max(ns, h.min), h.max))
}

// Counts yields each bucket's upper end and its count, in ascending order.
func (h *Histogram) Counts() iter.Seq2[time.Duration, int64] {
	return func(yield func(time.Duration, int64) bool) {
		for bucket, count := range h.buckets.Export().Counts {
			if count > 0 && !yield(h.limitToRange(lowestValueIn(bucket+1, magnitude)-1), count) {
				return
			}
		}
	}
}

// Merge adds the durations of another histogram, which does not change.
func (h *Histogram) Merge(other *Histogram) {
	if dropped := h.buckets.Merge(other.buckets); dropped != 0 {
		panic(fmt.Sprintf("latency: two histograms differ in layout: %d durations found no bucket", dropped))
	}
	h.add(other.totals)
}

// MergeDistributions returns the distribution of all parts' durations. Its buckets and totals are
// the same as those of one recorder. If one part has only totals, the result has only totals.
func MergeDistributions(parts ...Distribution) (Distribution, error) {
	all := NewHistogram()
	onlyTotals := false
	for i, part := range parts {
		if part.Count == 0 && part.Histogram == "" {
			continue
		}
		if part.OnlyTotals() {
			onlyTotals = true
			all.add(part.totals())
			continue
		}
		h, err := part.Decode()
		if err != nil {
			return Distribution{}, fmt.Errorf("distribution %d of %d: %w", i+1, len(parts), err)
		}
		all.Merge(h)
	}
	if onlyTotals {
		return all.onlyTotals(), nil
	}
	return all.Distribution()
}

// Recorder counts durations in one goroutine: Record takes no lock, allocates nothing and shares
// no cache line with other recorders. [Histogram.Add] must wait until that goroutine is done.
type Recorder struct {
	memory[int64] // indexed by fineBucket
	totals

	_ [56]byte // fills 128 bytes, so that two recorders never share a cache line
}

// totals holds the exact figures of a recorder or histogram.
type totals struct {
	count   int64
	sum     int64
	min     int64 // MaxInt64 while count is 0
	max     int64 // -1 while count is 0
	clamped int64
}

func emptyTotals() totals { return totals{min: math.MaxInt64, max: -1} }

func (t *totals) add(other totals) {
	t.count += other.count
	t.sum += other.sum
	t.min = min(t.min, other.min)
	t.max = max(t.max, other.max)
	t.clamped += other.clamped
}

// NewRecorder returns an empty recorder. Its 216 KiB stay outside the Go heap until Close. The
// kernel provides each page at its first use.
func NewRecorder() *Recorder {
	return &Recorder{memory: allocateOffHeap[int64](bucketCount, false), totals: emptyTotals()}
}

// Record counts a duration in nanoseconds. A duration above 60 s goes into the highest bucket and
// counts as clamped, but sum and maximum include its true value. A negative duration counts as 0.
func (r *Recorder) Record(ns int64) {
	ns = max(ns, 0)
	r.count++
	r.sum += ns
	r.min = min(r.min, ns)
	r.max = max(r.max, ns)
	if ns > highestValue {
		ns = highestValue
		r.clamped++
	}
	r.counts[fineBucket(ns)]++
}

// Count returns how many durations were recorded.
func (r *Recorder) Count() int64 { return r.count }

// The bucket layout is HdrHistogram's for 1 ns to 60 s with three significant digits. Each value
// below 2,048 has its own bucket. Above, each power of two has 1,024 buckets.
const (
	lowestValue       = 1
	highestValue      = int64(60 * time.Second)
	significantDigits = 3

	magnitude = 10 // each power of two has 1<<10 buckets
)

// bucketCount is the number of buckets. It includes the whole power of two of the highest value.
var bucketCount = (fineBucket(highestValue)>>magnitude + 1) << magnitude

func fineBucket(value int64) int { return bucketOf(value, magnitude) }

// bucketOf returns the index of the bucket that counts a value of 0 or more. The layout has
// 1<<magnitude buckets in each power of two.
func bucketOf(value int64, magnitude int) int {
	shift := bits.Len64(uint64(value)|(2<<magnitude-1)) - (magnitude + 1)
	return shift<<magnitude + int(value>>shift)
}

func lowestValueIn(bucket, magnitude int) int64 {
	shift := max(0, bucket>>magnitude-1)
	return int64(bucket-shift<<magnitude) << shift
}
