package latency

import (
	"bytes"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
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
			if log.Len() != test.samples {
				t.Errorf("Len is %d, want %d", log.Len(), test.samples)
			}
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

func TestParquetGivesBackEverySample(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trial.parquet")
	var want []Row
	var logs []*SampleLog
	for worker, samples := range []int{70_000, 0, 1, 200_000} {
		log, kept := sampleLog(int32(worker), samples, 0)
		defer log.Close()
		logs = append(logs, log)
		for i, s := range kept {
			want = append(want, Row{int32(worker), int32(i), s.Start, s.Wait, s.Service, s.Response, s.Failed})
		}
	}
	if err := WriteParquet(path, logs); err != nil {
		t.Fatal(err)
	}
	var got []Row
	for row, err := range ReadParquet(path) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, row)
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

func TestReadParquetRefusesDamage(t *testing.T) {
	whole := parquetBytes(t, 3_000)
	for name, damaged := range map[string][]byte{
		"empty":         nil,
		"not parquet":   bytes.Repeat([]byte("wire"), 100),
		"cut":           whole[:len(whole)-100],
		"wrong footer":  append(slices.Clone(whole[:len(whole)-8]), 0xff, 0xff, 0xff, 0x7f, 'P', 'A', 'R', '1'),
		"page of zeros": append(append(slices.Clone(whole[:4]), make([]byte, 900)...), whole[904:]...),
	} {
		path := filepath.Join(t.TempDir(), "damaged.parquet")
		if err := os.WriteFile(path, damaged, 0o644); err != nil {
			t.Fatal(err)
		}
		var failure error
		for _, err := range ReadParquet(path) {
			failure = err
		}
		if failure == nil {
			t.Errorf("%s: read without an error", name)
		}
	}
}

func parquetBytes(t testing.TB, samples int) []byte {
	t.Helper()
	log, _ := sampleLog(1, samples, 0)
	defer log.Close()
	var whole bytes.Buffer
	if err := writeRows(&whole, []*SampleLog{log}); err != nil {
		t.Fatal(err)
	}
	return whole.Bytes()
}

func FuzzReadParquet(f *testing.F) {
	f.Add(parquetBytes(f, 0))
	f.Add(parquetBytes(f, 20))
	f.Fuzz(func(t *testing.T, file []byte) {
		rows := 0
		err := readRows(bytes.NewReader(file), int64(len(file)), func(Row) bool {
			rows++
			return rows < 10_000
		})
		if err == nil && len(file) < 12 {
			t.Errorf("%d rows out of %d bytes", rows, len(file))
		}
	})
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

func BenchmarkReadParquet(b *testing.B) {
	const samples = 1_000_000
	log, _ := sampleLog(1, samples, samples)
	defer log.Close()
	path := filepath.Join(b.TempDir(), "trial.parquet")
	if err := WriteParquet(path, []*SampleLog{log}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		for _, err := range ReadParquet(path) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/samples, "ns/row")
}
