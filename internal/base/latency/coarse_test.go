package latency

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// spread returns n log-normal durations with a median of 200 µs and a width of 0.5.
func spread(n int, seed uint64) []int64 { return lognormal(n, seed, 0.5) }

func lognormal(n int, seed uint64, width float64) []int64 {
	random := rand.New(rand.NewPCG(seed, 0))
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(200e3 * math.Exp(width*random.NormFloat64()))
	}
	return all
}

// A coarse histogram is to any HdrHistogram what its own is.
func TestCoarseIsAnHdrHistogram(t *testing.T) {
	durations := append(spread(10_000, 1), 0, 1, 255, 256, 65_535, 65_536, 65_537, 1e9, coarseHighest)
	mine, other := NewCoarseHistogram(), hdrhistogram.New(coarseLowest, coarseHighest, coarseDigits)
	for _, ns := range durations {
		mine.Record(ns, 1)
		if err := other.RecordValue(ns); err != nil {
			t.Fatal(err)
		}
	}
	encoded, err := mine.Encode()
	if err != nil {
		t.Fatal(err)
	}
	decoded, err := hdrhistogram.Decode([]byte(encoded))
	if err != nil {
		t.Fatal(err)
	}
	if !decoded.Equals(other) {
		t.Error("another HdrHistogram of the same durations is not the same")
	}
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99, 0.999, 1} {
		if got, want := int64(mine.Quantile(q)), other.ValueAtQuantile(100*q); got != want {
			t.Errorf("quantile %v is %d, HdrHistogram's is %d", q, got, want)
		}
	}
	theirs, err := other.Encode(hdrhistogram.V2CompressedEncodingCookieBase)
	if err != nil {
		t.Fatal(err)
	}
	read, err := DecodeCoarse(string(theirs))
	if err != nil {
		t.Fatal(err)
	}
	if read.Count() != int64(len(durations)) || !slices.Equal(read.counts, mine.counts) {
		t.Errorf("%d of %d durations were read", read.Count(), len(durations))
	}
}

// Each duration is in one reading, and all readings together are all durations.
func TestReadingsAddUp(t *testing.T) {
	recorders := []*CoarseRecorder{NewCoarseRecorder(), NewCoarseRecorder()}
	reader := NewCoarseReader(recorders...)
	recorded := make(chan struct{}, len(recorders))
	want, got := NewCoarseHistogram(), NewCoarseHistogram()
	for i, r := range recorders {
		durations := append(spread(50_000, uint64(i)), -1, math.MaxInt64)
		for _, ns := range durations {
			want.Record(ns, 1)
		}
		go func() { // ends by itself
			for _, ns := range durations {
				r.Record(ns)
			}
			recorded <- struct{}{}
		}()
	}
	for ended := 0; ended < len(recorders); {
		select {
		case <-recorded:
			ended++
		default:
		}
		got.Add(reader.ReadNew())
	}
	got.Add(reader.ReadNew())
	if got.Count() != want.Count() || !slices.Equal(got.counts, want.counts) {
		t.Errorf("%d durations were read of %d", got.Count(), want.Count())
	}
	if again := reader.ReadNew(); again.Count() != 0 {
		t.Errorf("%d durations were read twice", again.Count())
	}
	for _, r := range recorders {
		r.Close()
		r.Close()
	}
}

func TestAnEmptyCoarseHistogram(t *testing.T) {
	encoded, err := NewCoarseHistogram().Encode()
	if err != nil {
		t.Fatal(err)
	}
	c, err := DecodeCoarse(encoded)
	if err != nil || c.Count() != 0 || c.Quantile(0.5) != 0 {
		t.Errorf("%v, %v", c, err)
	}
}

func TestCoarseRefusesOthers(t *testing.T) {
	fine, err := NewHistogram().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for name, encoded := range map[string]string{"three digits": fine, "nothing": "", "garbage": "HISTFAAAAA=="} {
		if _, err := DecodeCoarse(encoded); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func FuzzDecodeCoarse(f *testing.F) {
	for _, durations := range [][]int64{nil, {0}, {1e3, 1e6, 1e9}, spread(100, 1)} {
		c := NewCoarseHistogram()
		for _, ns := range durations {
			c.Record(ns, 1)
		}
		encoded, err := c.Encode()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded string) {
		c, err := DecodeCoarse(encoded)
		if err != nil {
			return
		}
		again, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		same, err := DecodeCoarse(again)
		if err != nil || !slices.Equal(same.counts, c.counts) || same.count != c.count {
			t.Errorf("%q is another one when it was encoded again: %v", encoded, err)
		}
	})
}

func BenchmarkCoarseRecord(b *testing.B) {
	r := NewCoarseRecorder()
	defer r.Close()
	durations := spread(1<<12, 1)
	for i := 0; b.Loop(); i++ {
		r.Record(durations[i%len(durations)])
	}
}

// BenchmarkCoarseEncode reports the size of an interval of 50,000 calls.
func BenchmarkCoarseEncode(b *testing.B) {
	for _, width := range []float64{0.25, 0.5, 1} {
		b.Run(fmt.Sprintf("width=%v", width), func(b *testing.B) {
			c := NewCoarseHistogram()
			for _, ns := range lognormal(50_000, 1, width) {
				c.Record(ns, 1)
			}
			b.ReportAllocs()
			encoder, size := &CoarseEncoder{}, 0
			for b.Loop() {
				encoded, err := encoder.Encode(c)
				if err != nil {
					b.Fatal(err)
				}
				size = len(encoded)
			}
			b.ReportMetric(float64(size), "base64-bytes")
		})
	}
}

// BenchmarkCoarseSince reads the recorders of fifty clients.
func BenchmarkCoarseSince(b *testing.B) {
	var all []*CoarseRecorder
	for i := range 50 {
		r := NewCoarseRecorder()
		defer r.Close()
		for _, ns := range spread(1000, uint64(i)) {
			r.Record(ns)
		}
		all = append(all, r)
	}
	reader := NewCoarseReader(all...)
	for b.Loop() {
		reader.ReadNew()
	}
}

func TestCoarseMean(t *testing.T) {
	c := NewCoarseHistogram()
	if c.Mean() != 0 {
		t.Errorf("of nothing: %v", c.Mean())
	}
	c.Record(int64(10*time.Millisecond), 3)
	c.Record(int64(50*time.Millisecond), 1)
	if mean := c.Mean(); mean < 19800*time.Microsecond || mean > 20200*time.Microsecond {
		t.Errorf("%v, want 20 ms within 1 %%", mean)
	}
}
