package latency

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// The columns of a samples file: a sample a row, in nanoseconds. The last is a
// boolean.
var sampleColumns = [...]struct {
	name string
	kind parquetType
	of   func(Sample) int64
}{
	{name: "worker", kind: parquetInt32},
	{name: "seq", kind: parquetInt32},
	{"start_ns", parquetInt64, func(s Sample) int64 { return s.Start }},
	{"wait_ns", parquetInt64, func(s Sample) int64 { return s.Wait }},
	{"service_ns", parquetInt64, func(s Sample) int64 { return s.Service }},
	{"response_ns", parquetInt64, func(s Sample) int64 { return s.Response }},
	{"failed", parquetBoolean, func(s Sample) int64 {
		if s.Failed {
			return 1
		}
		return 0
	}},
}

// rowsPerGroup bounds the memory of the writer and of most readers: a row group
// is built as a whole before it is written, at some 60 bytes a row.
const rowsPerGroup = 256 << 10

// WriteParquet writes the samples of all logs, one after the other, to a file
// that any Parquet reader opens. The file appears whole or not at all: it is
// written beside its place, synced and renamed.
func WriteParquet(path string, logs []*SampleLog) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("latency: writing samples to %s: %w", path, err)
		}
	}()
	unfinished := path + ".tmp"
	file, err := os.Create(unfinished)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(unfinished))
		}
	}()
	if err := writeRows(file, logs); err != nil {
		return errors.Join(err, file.Close())
	}
	if err := errors.Join(file.Sync(), file.Close()); err != nil {
		return err
	}
	if err := os.Rename(unfinished, path); err != nil {
		return err
	}
	return syncDirectory(filepath.Dir(path))
}

func writeRows(to io.Writer, logs []*SampleLog) error {
	file := parquetFile{to: to}
	var group [len(sampleColumns)][]int64
	flush := func() {
		for i, values := range group {
			file.column(sampleColumns[i].name, sampleColumns[i].kind, values)
			group[i] = values[:0]
		}
		file.endGroup()
	}
	file.write([]byte(parquetMagic))
	for _, log := range logs {
		sequence := int64(0)
		for sample := range log.All() {
			group[0] = append(group[0], int64(log.worker))
			group[1] = append(group[1], sequence)
			for i := 2; i < len(group); i++ {
				group[i] = append(group[i], sampleColumns[i].of(sample))
			}
			if sequence++; len(group[0]) == rowsPerGroup {
				flush()
			}
		}
	}
	if len(group[0]) > 0 {
		flush()
	}
	return file.end()
}

// syncDirectory makes a rename in it last through a power cut.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
