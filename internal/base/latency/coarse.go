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

// The layout of coarse histograms is HdrHistogram's for 256 ns to 69 s with two significant
// digits: buckets of 256 ns up to 66 µs, and 128 in each power of two above.
const (
	coarseUnitBits = 8 // a power of two
	coarseLowest   = 1 << coarseUnitBits
	coarseHighest  = 1<<36 - 1
	coarseDigits   = 2

	coarseMagnitude = 7
)

// coarseCount is the number of buckets.
var coarseCount = coarseBucket(coarseHighest) + 1

// coarseBucket returns the bucket of a duration. Durations above the highest are in the last one.
func coarseBucket(ns int64) int {
	return bucketOf(min(max(ns, 0), coarseHighest)>>coarseUnitBits, coarseMagnitude)
}

// highestCoarseValueIn returns the highest duration of a bucket.
func highestCoarseValueIn(bucket int) int64 {
	return lowestValueIn(bucket+1, coarseMagnitude)<<coarseUnitBits - 1
}

// A CoarseHistogram is a histogram with two digits, to be sent often and merged. It has no exact
// totals. The histograms of all recorders have the same buckets, so merging loses nothing.
type CoarseHistogram struct {
	counts []int64
	count  int64
}

// NewCoarseHistogram returns an empty histogram.
func NewCoarseHistogram() *CoarseHistogram {
	return &CoarseHistogram{counts: make([]int64, coarseCount)}
}

// Record counts a duration count times.
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

// Count returns how many durations it holds.
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

// Encode encodes the histogram, as a new [CoarseEncoder] does.
func (c *CoarseHistogram) Encode() (string, error) { return new(CoarseEncoder).Encode(c) }

// A CoarseEncoder encodes one histogram after another. It keeps its compressor, which has almost a
// megabyte: one compressor per second would keep the garbage collector busy.
type CoarseEncoder struct {
	packed     bytes.Buffer
	compressor *zlib.Writer
}

// Cookies of the form, as HdrHistogram writes them.
const (
	plainCookie  = uint32(hdrhistogram.V2EncodingCookieBase) | 0x10
	packedCookie = uint32(hdrhistogram.V2CompressedEncodingCookieBase) | 0x10
)

// Encode returns the interchange form of HdrHistogram: version 2, compressed, base64.
func (e *CoarseEncoder) Encode(c *CoarseHistogram) (string, error) {
	counts := c.appendCounts(nil)
	head := binary.BigEndian.AppendUint32(nil, plainCookie)
	head = binary.BigEndian.AppendUint32(head, uint32(len(counts)))
	head = binary.BigEndian.AppendUint32(head, 0) // the offset of the indices
	head = binary.BigEndian.AppendUint32(head, coarseDigits)
	head = binary.BigEndian.AppendUint64(head, coarseLowest)
	head = binary.BigEndian.AppendUint64(head, coarseHighest)
	head = binary.BigEndian.AppendUint64(head, math.Float64bits(1)) // the ratio of values to whole numbers

	e.packed.Reset()
	e.packed.Write(make([]byte, 8)) // filled in below
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

// appendCounts appends the counts up to the last that is not 0, each as a zigzag LEB128. Several
// zeros become their number, as a negative value.
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

// AddEncoded adds an encoded histogram. An empty text adds nothing.
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

// CoarseRecorder counts durations in one goroutine while another reads them: Record takes no
// lock and allocates nothing. Its counts may overflow; differences of counts stay right.
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

// A CoarseReader reads some recorders many times.
type CoarseReader struct {
	recorders    []*CoarseRecorder
	before, sums []uint32
}

// NewCoarseReader returns a reader of new recorders.
func NewCoarseReader(recorders ...*CoarseRecorder) *CoarseReader {
	return &CoarseReader{recorders: recorders, before: make([]uint32, coarseCount), sums: make([]uint32, coarseCount)}
}

// ReadNew returns the durations recorded since the last call of ReadNew.
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
