package latency

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// Coarse histograms use HdrHistogram's layout for 256 ns to 69 s with two significant digits.
// Buckets are 256 ns wide up to 66 µs. Above, each power of two has 128 buckets.
const (
	coarseUnitBits = 8 // buckets below 66 µs are 1<<8 ns wide
	coarseLowest   = 1 << coarseUnitBits
	coarseHighest  = 1<<36 - 1
	coarseDigits   = 2

	coarseMagnitude = 7
)

// coarseCount is the number of buckets.
var coarseCount = coarseBucket(coarseHighest) + 1

// coarseBucket returns the bucket of a duration. The last bucket includes all longer durations.
func coarseBucket(ns int64) int {
	return bucketOf(min(max(ns, 0), coarseHighest)>>coarseUnitBits, coarseMagnitude)
}

func highestCoarseValueIn(bucket int) int64 {
	return lowestValueIn(bucket+1, coarseMagnitude)<<coarseUnitBits - 1
}

// A CoarseHistogram is a small histogram with two significant digits, for frequent sending. It has
// no exact totals. All coarse histograms have the same buckets, so merging loses nothing.
type CoarseHistogram struct {
	counts []int64
	count  int64
}

// NewCoarseHistogram returns an empty histogram.
func NewCoarseHistogram() *CoarseHistogram {
	return &CoarseHistogram{counts: make([]int64, coarseCount)}
}

// Record counts a duration in nanoseconds the given number of times.
func (c *CoarseHistogram) Record(ns, times int64) {
	c.counts[coarseBucket(ns)] += times
	c.count += times
}

// Add adds the durations of another histogram.
func (c *CoarseHistogram) Add(other *CoarseHistogram) {
	for bucket, count := range other.counts {
		c.counts[bucket] += count
	}
	c.count += other.count
}

// Count returns the number of recorded durations.
func (c *CoarseHistogram) Count() int64 { return c.count }

// Quantile returns the upper end of a quantile's bucket, or 0 for an empty histogram.
func (c *CoarseHistogram) Quantile(q float64) time.Duration {
	left := max(1, int64(q*float64(c.count)+0.5))
	for bucket, count := range c.counts {
		if left -= count; left <= 0 && count > 0 {
			return time.Duration(highestCoarseValueIn(bucket))
		}
	}
	return 0
}

// Mean returns the mean of the durations, each taken for the middle of its bucket, or 0 for none.
func (c *CoarseHistogram) Mean() time.Duration {
	sum := 0.0
	for bucket, count := range c.counts {
		sum += float64(count) * float64(lowestValueIn(bucket, coarseMagnitude)<<coarseUnitBits+highestCoarseValueIn(bucket)) / 2
	}
	return time.Duration(sum / float64(max(1, c.count)))
}

// Encode encodes the histogram with a new [CoarseEncoder].
func (c *CoarseHistogram) Encode() (string, error) { return new(CoarseEncoder).Encode(c) }

// A CoarseEncoder encodes one histogram after another. It reuses its compressor of almost 1 MB,
// because a new compressor per second would cause many garbage collections.
type CoarseEncoder struct {
	packed     bytes.Buffer
	compressor *zlib.Writer
}

// The cookies (format identifiers) of HdrHistogram's interchange form.
const (
	plainCookie  = uint32(hdrhistogram.V2EncodingCookieBase) | 0x10
	packedCookie = uint32(hdrhistogram.V2CompressedEncodingCookieBase) | 0x10
)

// Encode returns the interchange form of HdrHistogram: version 2, compressed, in base64.
func (e *CoarseEncoder) Encode(c *CoarseHistogram) (string, error) {
	counts := c.appendCounts(nil)
	head := binary.BigEndian.AppendUint32(nil, plainCookie)
	head = binary.BigEndian.AppendUint32(head, uint32(len(counts)))
	head = binary.BigEndian.AppendUint32(head, 0) // normalizing index offset
	head = binary.BigEndian.AppendUint32(head, coarseDigits)
	head = binary.BigEndian.AppendUint64(head, coarseLowest)
	head = binary.BigEndian.AppendUint64(head, coarseHighest)
	head = binary.BigEndian.AppendUint64(head, math.Float64bits(1)) // ratio of integers to doubles

	e.packed.Reset()
	e.packed.Write(make([]byte, 8)) // the header is written below
	if e.compressor == nil {
		e.compressor = zlib.NewWriter(&e.packed)
	} else {
		e.compressor.Reset(&e.packed)
	}
	for _, part := range [][]byte{head, counts} {
		if _, err := e.compressor.Write(part); err != nil {
			return "", fmt.Errorf("latency: encode a histogram: %w", err)
		}
	}
	if err := e.compressor.Close(); err != nil {
		return "", fmt.Errorf("latency: encode a histogram: %w", err)
	}
	packed := e.packed.Bytes()
	binary.BigEndian.PutUint32(packed, packedCookie)
	binary.BigEndian.PutUint32(packed[4:], uint32(len(packed)-8))
	return base64.StdEncoding.EncodeToString(packed), nil
}

// appendCounts appends the counts up to the last nonzero count, each as a zigzag LEB128. A
// negative value −n stands for n zeros.
func (c *CoarseHistogram) appendCounts(to []byte) []byte {
	zeros := int64(0)
	for _, count := range c.counts {
		if count == 0 {
			zeros++
			continue
		}
		switch {
		case zeros == 1:
			to = append(to, 0)
		case zeros > 1:
			to = binary.AppendVarint(to, -zeros)
		}
		zeros = 0
		to = binary.AppendVarint(to, count)
	}
	return to
}

// DecodeCoarse reads the output of Encode.
func DecodeCoarse(encoded string) (*CoarseHistogram, error) {
	decoded, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		return nil, fmt.Errorf("latency: decode a histogram: %w", err)
	}
	lowest, highest, digits := decoded.LowestTrackableValue(), decoded.HighestTrackableValue(), decoded.SignificantFigures()
	if lowest != coarseLowest || highest != coarseHighest || digits != coarseDigits {
		return nil, fmt.Errorf("latency: decode a histogram: found a range of %d to %d ns with %d digits, want %d to %d ns with %d",
			lowest, highest, digits, coarseLowest, int64(coarseHighest), coarseDigits)
	}
	c := &CoarseHistogram{counts: decoded.Export().Counts, count: decoded.TotalCount()}
	for _, count := range c.counts {
		if count < 0 {
			return nil, fmt.Errorf("latency: decode a histogram: a bucket has the negative count %d", count)
		}
	}
	return c, nil
}

// AddEncoded adds an encoded histogram. It ignores an empty text.
func (c *CoarseHistogram) AddEncoded(encoded string) error {
	if encoded == "" {
		return nil
	}
	other, err := DecodeCoarse(encoded)
	if err != nil {
		return err
	}
	c.Add(other)
	return nil
}

// CoarseRecorder counts durations in one goroutine while another goroutine reads the counts.
// Record takes no lock and allocates nothing. Counts may overflow; their differences stay right.
type CoarseRecorder struct {
	memory[atomic.Uint32]
}

// NewCoarseRecorder returns an empty recorder. Its 11 KiB are outside the Go heap until Close.
func NewCoarseRecorder() *CoarseRecorder {
	return &CoarseRecorder{allocateOffHeap[atomic.Uint32](coarseCount, false)}
}

// Record counts a duration in nanoseconds.
func (r *CoarseRecorder) Record(ns int64) {
	count := &r.counts[coarseBucket(ns)]
	count.Store(count.Load() + 1) // only this goroutine writes the count
}

// A CoarseReader reads the same recorders repeatedly.
type CoarseReader struct {
	recorders    []*CoarseRecorder
	before, sums []uint32
}

// NewCoarseReader returns a reader of recorders that are still empty.
func NewCoarseReader(recorders ...*CoarseRecorder) *CoarseReader {
	return &CoarseReader{recorders: recorders, before: make([]uint32, coarseCount), sums: make([]uint32, coarseCount)}
}

// ReadNew returns the durations that were recorded since the previous call of ReadNew.
func (r *CoarseReader) ReadNew() *CoarseHistogram {
	clear(r.sums)
	for _, one := range r.recorders {
		for bucket := range one.counts {
			r.sums[bucket] += one.counts[bucket].Load()
		}
	}
	c := NewCoarseHistogram()
	for bucket, sum := range r.sums {
		count := int64(sum - r.before[bucket])
		c.counts[bucket] = count
		c.count += count
	}
	r.before, r.sums = r.sums, r.before
	return c
}
