package latency

import (
	"bytes"
	"fmt"
	"io/fs"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go"
)

func sampleLog(worker int32, samples, expected int) (*SampleLog, []Sample) {
	random := rand.New(rand.NewPCG(uint64(worker), 9))
	log := NewSampleLog(worker, expected)
	var kept []Sample
	for i := range samples {
		wait, service := random.Int64N(2_000), 200_000+int64(random.ExpFloat64()*50_000)
		sample := Sample{
			Start: int64(i) * 310_000, Wait: wait, Service: service, Response: wait + service,
			Failed: random.IntN(1000) == 0,
		}
		log.Append(sample)
		if samples <= 200_000 {
			kept = append(kept, sample)
		}
	}
	return log, kept
}

func TestSampleLogKeepsAllInOrder(t *testing.T) {
	for _, test := range []struct{ samples, expected int }{
		{0, 0},
		{0, 10},
		{1, 0},
		{10, 10},
		{11, 10},
		{chunkSamples, 0},
		{chunkSamples, chunkSamples},
		{3*chunkSamples + 5, chunkSamples + 7},
		{5, 4 * chunkSamples},
	} {
		t.Run(fmt.Sprintf("%d of %d", test.samples, test.expected), func(t *testing.T) {
			log, want := sampleLog(1, test.samples, test.expected)
			defer log.Close()
			if got := slices.Collect(log.All()); !slices.Equal(got, want) {
				t.Errorf("%d samples came back as %d others", len(want), len(got))
			}
		})
	}
}

func TestAppendAllocatesNothingWithinTheExpectedCount(t *testing.T) {
	const expected = 3 * chunkSamples
	log := NewSampleLog(1, expected)
	defer log.Close()
	if allocs := testing.AllocsPerRun(expected-1, func() { log.Append(Sample{Start: 1}) }); allocs != 0 {
		t.Errorf("Append allocates %v times", allocs)
	}
}

// row is a row as other programs read it.
type row struct {
	Worker   int32 `parquet:"worker"`
	Sequence int32 `parquet:"seq"`
	Start    int64 `parquet:"start_ns"`
	Wait     int64 `parquet:"wait_ns"`
	Service  int64 `parquet:"service_ns"`
	Response int64 `parquet:"response_ns"`
	Failed   bool  `parquet:"failed"`
}

// The reader is another's, and knows nothing of the writer.
func TestParquetGivesBackEverySample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trial.parquet")
	var want []row
	var logs []*SampleLog
	for worker, samples := range []int{70_000, 0, 1, 199_999, 3} {
		log, kept := sampleLog(int32(worker), samples, 0)
		defer log.Close()
		logs = append(logs, log)
		for i, s := range kept {
			want = append(want, row{int32(worker), int32(i), s.Start, s.Wait, s.Service, s.Response, s.Failed})
		}
	}
	if err := WriteParquet(path, logs); err != nil {
		t.Fatal(err)
	}
	got, err := parquet.ReadFile[row](path)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got, want) {
		t.Errorf("%d rows came back as %d others", len(want), len(got))
	}
	if _, err := os.Stat(path + ".tmp"); !os.IsNotExist(err) {
		t.Errorf("the unfinished file is still there: %v", err)
	}
}

func TestWriteParquetLeavesNothingBehindOnFailure(t *testing.T) {
	directory := t.TempDir()
	log, _ := sampleLog(1, 10, 0)
	defer log.Close()
	occupied := filepath.Join(directory, "occupied")
	if err := os.MkdirAll(filepath.Join(occupied, "child"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := WriteParquet(occupied, []*SampleLog{log}); err == nil {
		t.Error("a file replaced a directory")
	}
	entries, err := fs.Glob(os.DirFS(directory), "*.tmp")
	if err != nil || len(entries) != 0 {
		t.Errorf("left behind: %v %v", entries, err)
	}
}

// TestParquetHoldsAnyInteger has differences that take all 64 bits, and none.
func TestParquetHoldsAnyInteger(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	for width := range 65 {
		for _, samples := range []int{0, 1, 2, 32, 33, 128, 129, 130, 300} {
			log := NewSampleLog(math.MaxInt32, samples)
			var want []int64
			for range samples {
				value := int64(random.Uint64() & (1<<width - 1))
				want = append(want, value)
				log.Append(Sample{Start: value, Wait: -value, Service: math.MinInt64, Response: math.MaxInt64, Failed: value&1 == 1})
			}
			var file bytes.Buffer
			err := writeRows(&file, []*SampleLog{log})
			log.Close()
			if err != nil {
				t.Fatal(err)
			}
			got, err := parquet.Read[row](bytes.NewReader(file.Bytes()), int64(file.Len()))
			if err != nil || len(got) != samples {
				t.Fatalf("%d samples of %d bits came back as %d, %v", samples, width, len(got), err)
			}
			for i, g := range got {
				if g != (row{math.MaxInt32, int32(i), want[i], -want[i], math.MinInt64, math.MaxInt64, want[i]&1 == 1}) {
					t.Fatalf("%d samples of %d bits: number %d came back as %+v, want %d", samples, width, i, g, want[i])
				}
			}
		}
	}
}

func BenchmarkAppend(b *testing.B) {
	log := NewSampleLog(1, chunkSamples)
	defer log.Close()
	for b.Loop() {
		if log.full == 1 {
			log.full = 0
		}
		log.Append(Sample{Start: 1, Service: 2})
	}
}

func BenchmarkWriteParquet(b *testing.B) {
	const samples = 1_000_000
	log, _ := sampleLog(1, samples, samples)
	defer log.Close()
	path := filepath.Join(b.TempDir(), "trial.parquet")
	for b.Loop() {
		if err := WriteParquet(path, []*SampleLog{log}); err != nil {
			b.Fatal(err)
		}
	}
	status, err := os.Stat(path)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(status.Size())/samples, "B/row")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/row")
}
