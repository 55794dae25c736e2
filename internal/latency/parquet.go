package latency

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/parquet-go/parquet-go"
)

// Row is one sample as it stands in a Parquet file, in nanoseconds.
//
// Delta encoding suits all of them: starts ascend, sequence numbers count up,
// and durations of neighbours differ by less than they are long.
type Row struct {
	Worker   int32 `parquet:"worker,delta,zstd"`
	Sequence int32 `parquet:"seq,delta,zstd"`
	Start    int64 `parquet:"start_ns,delta,zstd"`
	Wait     int64 `parquet:"wait_ns,delta,zstd"`
	Service  int64 `parquet:"service_ns,delta,zstd"`
	Response int64 `parquet:"response_ns,delta,zstd"`
	Failed   bool  `parquet:"failed,zstd"`
}

const (
	// rowsPerGroup bounds the memory of writer and reader: a row group is built
	// as a whole before it is written, at some 50 bytes a row.
	rowsPerGroup = 256 << 10

	// rowsPerBatch is how many rows are handed over at a time.
	rowsPerBatch = 4 << 10
)

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
	writer := parquet.NewGenericWriter[Row](to,
		parquet.MaxRowsPerRowGroup(rowsPerGroup),
		parquet.CreatedBy("wirelab", "", ""))
	batch := make([]Row, 0, rowsPerBatch)
	flush := func() error {
		_, err := writer.Write(batch)
		batch = batch[:0]
		return err
	}
	for _, log := range logs {
		sequence := int32(0)
		for sample := range log.All() {
			batch = append(batch, Row{
				Worker: log.worker, Sequence: sequence,
				Start: sample.Start, Wait: sample.Wait,
				Service: sample.Service, Response: sample.Response,
				Failed: sample.Failed,
			})
			sequence++
			if len(batch) < rowsPerBatch {
				continue
			}
			if err := flush(); err != nil {
				return err
			}
		}
	}
	if err := flush(); err != nil {
		return err
	}
	return writer.Close()
}

// syncDirectory makes a rename in it last through a power cut.
func syncDirectory(path string) error {
	directory, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(directory.Sync(), directory.Close())
}
