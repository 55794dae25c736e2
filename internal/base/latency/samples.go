package latency

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"

	"wirelab.dev/internal/base/system"
)

// Sample holds the times of one request, in nanoseconds.
type Sample struct {
	Start    int64 // from the window's beginning to the intended instant; may be negative
	Wait     int64 // from the intended instant to the actual send
	Service  int64 // from the actual send to the end
	Response int64 // from the intended instant to the end
	Failed   bool
}

// chunkSamples is the number of samples in one mapping of 640 KiB.
const chunkSamples = 16 << 10

// SampleLog keeps every sample of one client, outside the Go heap. It belongs to one goroutine.
type SampleLog struct {
	worker int32
	chunks []memory[Sample]
	full   int // index of the first chunk that is not full
	used   int // number of samples in that chunk
}

// A memory holds counts or samples outside the Go heap.
type memory[T any] struct {
	counts  []T
	release func()
}

// Close frees the memory. Nobody may use it afterwards. A second Close does nothing.
func (m *memory[T]) Close() {
	if m.counts != nil {
		m.counts = nil
		m.release()
	}
}

// NewSampleLog returns an empty log with room for the expected number of samples. Up to this
// number, Append makes no system call and causes no page fault. Above, every 16,384 samples need a
// new mapping.
func NewSampleLog(worker int32, expected int) *SampleLog {
	l := &SampleLog{worker: worker}
	for ; expected > 0; expected -= chunkSamples {
		l.grow(min(expected, chunkSamples))
	}
	return l
}

func (l *SampleLog) grow(samples int) {
	l.chunks = append(l.chunks, allocateOffHeap[Sample](samples, true))
}

// Append adds a sample.
func (l *SampleLog) Append(sample Sample) {
	if l.full == len(l.chunks) {
		l.grow(chunkSamples)
	}
	chunk := l.chunks[l.full].counts
	chunk[l.used] = sample
	l.used++
	if l.used == len(chunk) {
		l.full++
		l.used = 0
	}
}

// All returns the samples in the order of Append.
func (l *SampleLog) All() iter.Seq[Sample] {
	return func(yield func(Sample) bool) {
		for i, chunk := range l.chunks[:min(l.full+1, len(l.chunks))] {
			samples := chunk.counts
			if i == l.full {
				samples = samples[:l.used]
			}
			for _, sample := range samples {
				if !yield(sample) {
					return
				}
			}
		}
	}
}

// Close frees the memory. The log must not be used afterwards. A second Close does nothing.
func (l *SampleLog) Close() {
	for _, chunk := range l.chunks {
		chunk.Close()
	}
	l.chunks, l.full, l.used = nil, 0, 0
}

// sampleColumns lists the columns of a samples file: one sample per row, times in nanoseconds.
var sampleColumns = [...]parquetColumn{
	{name: "worker", kind: parquetInt32},
	{name: "seq", kind: parquetInt32},
	{name: "start_ns", kind: parquetInt64},
	{name: "wait_ns", kind: parquetInt64},
	{name: "service_ns", kind: parquetInt64},
	{name: "response_ns", kind: parquetInt64},
	{name: "failed", kind: parquetBoolean},
}

func (s Sample) row(worker int32, sequence int64) [len(sampleColumns)]int64 {
	failed := int64(0)
	if s.Failed {
		failed = 1
	}
	return [...]int64{int64(worker), sequence, s.Start, s.Wait, s.Service, s.Response, failed}
}

// rowsPerGroup limits the memory of the writer and of most readers. The writer builds a whole row
// group in memory, with some 60 bytes per row.
const rowsPerGroup = 256 << 10

// WriteParquet writes the samples of all logs to a Parquet file.
func WriteParquet(path string, logs []*SampleLog) error {
	return replaceFile(path, func(to io.Writer) error { return writeRows(to, logs) })
}

// replaceFile writes, syncs and renames a temporary file, so that the path never shows an incomplete
// file.
func replaceFile(path string, write func(io.Writer) error) (err error) {
	unfinished := path + ".tmp"
	defer func() {
		if err != nil {
			err = fmt.Errorf("latency: write samples to %s: %w", path, err)
		}
	}()
	file, err := os.Create(unfinished)
	if err != nil {
		return err
	}
	if err = write(file); err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return system.SyncFolder(filepath.Dir(path))
}

func writeRows(to io.Writer, logs []*SampleLog) error {
	rows := newRowWriter(to, sampleColumns[:])
	for _, log := range logs {
		sequence := int64(0)
		for sample := range log.All() {
			row := sample.row(log.worker, sequence)
			rows.add(row[:])
			sequence++
		}
	}
	return rows.close()
}

// A rowWriter collects rows and writes them in row groups.
type rowWriter struct {
	file  parquetFile
	group [][]int64 // the values of each column
}

func newRowWriter(to io.Writer, columns []parquetColumn) *rowWriter {
	w := &rowWriter{file: parquetFile{to: to, columns: columns}, group: make([][]int64, len(columns))}
	w.file.write([]byte(parquetMagic))
	return w
}

func (w *rowWriter) add(row []int64) {
	for i, value := range row {
		w.group[i] = append(w.group[i], value)
	}
	if len(w.group[0]) == rowsPerGroup {
		w.flush()
	}
}

func (w *rowWriter) flush() {
	w.file.rowGroup(w.group)
	for i := range w.group {
		w.group[i] = w.group[i][:0]
	}
}

func (w *rowWriter) close() error {
	if len(w.group[0]) > 0 {
		w.flush()
	}
	return w.file.writeFooter()
}
