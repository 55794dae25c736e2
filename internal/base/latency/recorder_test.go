package latency

import (
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The recorder's own layout must be the library's, bucket for bucket.
func TestLayoutIsHdrHistograms(t *testing.T) {
	library := hdrhistogram.New(lowestValue, highestValue, significantDigits)
	if want := len(library.Export().Counts); bucketCount != want {
		t.Fatalf("%d buckets, the library has %d", bucketCount, want)
	}
	for bucket := range bucketCount {
		low := lowestValueIn(bucket, magnitude)
		if got := fineBucket(low); got != bucket {
			t.Fatalf("bucket %d begins at %d, which falls into bucket %d", bucket, low, got)
		}
		if low > 0 {
			if got := fineBucket(low - 1); got != bucket-1 {
				t.Fatalf("%d, just below bucket %d, falls into bucket %d", low-1, bucket, got)
			}
		}
	}
	// Asking the library takes a copy of all its buckets, so it is asked for one
	// in 97, which is odd and so meets other positions in each power of two.
	for bucket := 0; lowestValueIn(bucket, magnitude) <= highestValue; bucket += 97 {
		library.Reset()
		if err := library.RecordValue(lowestValueIn(bucket, magnitude)); err != nil {
			t.Fatal(err)
		}
		if got := slices.Index(library.Export().Counts, 1); got != bucket {
			t.Fatalf("%d falls into bucket %d, in the library into %d", lowestValueIn(bucket, magnitude), bucket, got)
		}
	}
}

func TestRecorderKeepsExactTotals(t *testing.T) {
	r := NewRecorder()
	defer r.Close()
	for _, ns := range []int64{1_234_567, 89, 4_000_001, 3_600_000_000_000, -5} {
		r.Record(ns)
	}
	h := NewHistogram(r)
	if h.Count() != 5 || h.Clamped() != 1 {
		t.Errorf("count %d clamped %d, want 5 and 1", h.Count(), h.Clamped())
	}
	if h.Min() != 0 || h.Max() != time.Hour {
		t.Errorf("from %v to %v, want 0 to 1h", h.Min(), h.Max())
	}
	if want := time.Duration(1_234_567 + 89 + 4_000_001 + 3_600_000_000_000); h.Sum() != want || h.Mean() != (want+2)/5 {
		t.Errorf("sum %v mean %v, want %v and %v", h.Sum(), h.Mean(), want, (want+2)/5)
	}
	if h.Quantile(1) != time.Hour || h.Quantile(0) != 0 {
		t.Errorf("ends are %v and %v, want the exact 0 and 1h", h.Quantile(0), h.Quantile(1))
	}
}

// The truth here is the sorted samples themselves.
func TestQuantilesAreTrueToThreeDigits(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	const workers, each = 7, 30_000
	var all []int64
	histogram := NewHistogram()
	for range workers {
		r := NewRecorder()
		for range each {
			ns := int64(math.Exp(12 + 1.5*random.NormFloat64()))
			r.Record(ns)
			all = append(all, ns)
		}
		histogram.Add(r)
		r.Close()
	}
	slices.Sort(all)
	for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 0.9999, 1} {
		rank := max(int(q*float64(len(all))+0.5), 1)
		truth := float64(all[rank-1])
		if got := float64(histogram.Quantile(q)); math.Abs(got-truth) > truth/1000+1 {
			t.Errorf("quantile %v is %v, truth %v", q, got, truth)
		}
	}
}

func TestRecordersLieOutsideTheHeap(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("recorders lie outside the heap on Linux only, this is " + runtime.GOOS)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var recorders []*Recorder
	for range 200 {
		recorders = append(recorders, NewRecorder())
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 1<<20 {
		t.Errorf("200 recorders took %d bytes of the heap", grown)
	}
	for _, r := range recorders {
		r.Close()
		r.Close()
	}
}

func TestRecordAllocatesNothing(t *testing.T) {
	r := NewRecorder()
	defer r.Close()
	ns := int64(1)
	if allocs := testing.AllocsPerRun(1000, func() { r.Record(ns); ns += 997 }); allocs != 0 {
		t.Errorf("Record allocates %v times", allocs)
	}
}

func BenchmarkRecord(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	durations := make([]int64, 1<<12)
	for i := range durations {
		durations[i] = int64(math.Exp(12 + random.NormFloat64()))
	}
	r := NewRecorder()
	defer r.Close()
	i := 0
	for b.Loop() {
		r.Record(durations[i&(len(durations)-1)])
		i++
	}
}

func BenchmarkMerge500Recorders(b *testing.B) {
	random := rand.New(rand.NewPCG(1, 2))
	var recorders []*Recorder
	for range 500 {
		r := NewRecorder()
		defer r.Close()
		for range 1000 {
			r.Record(int64(math.Exp(12 + random.NormFloat64())))
		}
		recorders = append(recorders, r)
	}
	for b.Loop() {
		NewHistogram(recorders...)
	}
}
