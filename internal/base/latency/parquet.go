package latency

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// sampleColumns are the columns of a samples file: a sample a row, in nanoseconds.
var sampleColumns = [...]struct {
	name string
	kind parquetType
}{
	{"worker", parquetInt32},
	{"seq", parquetInt32},
	{"start_ns", parquetInt64},
	{"wait_ns", parquetInt64},
	{"service_ns", parquetInt64},
	{"response_ns", parquetInt64},
	{"failed", parquetBoolean},
}

// row returns the values of the columns.
func (s Sample) row(worker int32, sequence int64) [len(sampleColumns)]int64 {
	failed := int64(0)
	if s.Failed {
		failed = 1
	}
	return [...]int64{int64(worker), sequence, s.Start, s.Wait, s.Service, s.Response, failed}
}

// rowsPerGroup bounds the memory of the writer and of most readers: a row group
// is built as a whole before it is written, at some 60 bytes a row.
const rowsPerGroup = 256 << 10

// WriteParquet writes the samples of all logs, one after the other, to a file
// that any Parquet reader opens. The file appears whole or not at all: it is
// written beside its place, synced and renamed.
func WriteParquet(path string, logs []*SampleLog) (err error) {
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
	err = writeRows(file, logs)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(unfinished, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(unfinished))
	}
	return syncDirectory(filepath.Dir(path))
}

func writeRows(to io.Writer, logs []*SampleLog) error {
	file := parquetFile{to: to}
	file.write([]byte(parquetMagic))
	var group [len(sampleColumns)][]int64
	flush := func() {
		file.rowGroup(group[:])
		for i := range group {
			group[i] = group[i][:0]
		}
	}
	for _, log := range logs {
		sequence := int64(0)
		for sample := range log.All() {
			for i, value := range sample.row(log.worker, sequence) {
				group[i] = append(group[i], value)
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
