package latency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/parquet-go/parquet-go"
)

// ReadParquet yields the rows of a file that WriteParquet wrote, in order and
// one row group at a time in memory. An error, with a zero row, ends them.
func ReadParquet(path string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		if err := readFile(path, func(row Row) bool { return yield(row, nil) }); err != nil {
			yield(Row{}, fmt.Errorf("latency: reading samples of %s: %w", path, err))
		}
	}
}

func readFile(path string, yield func(Row) bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // only read from: nothing is lost
	status, err := file.Stat()
	if err != nil {
		return err
	}
	return readRows(file, status.Size(), yield)
}

// readRows passes rows on until there are none left or yield has enough.
func readRows(from io.ReaderAt, size int64, yield func(Row) bool) error {
	var file *parquet.File
	if err := guard(func() (err error) {
		file, err = openRows(from, size)
		return err
	}); err != nil {
		return err
	}
	for _, group := range file.RowGroups() {
		var c columns
		if err := guard(func() error { return c.read(group) }); err != nil {
			return err
		}
		for i := range c.failed {
			if !yield(c.row(i)) {
				return nil
			}
		}
	}
	return nil
}

func openRows(from io.ReaderAt, size int64) (*parquet.File, error) {
	if err := checkFooter(from, size); err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(from, size)
	if err != nil {
		return nil, err
	}
	if want := parquet.SchemaOf(Row{}); !parquet.EqualNodes(file.Schema(), want) {
		return nil, fmt.Errorf("its columns are %v, want %v", file.Schema(), want)
	}
	return file, nil
}

// columns is one row group. Reading it column by column is several times faster
// than the library's way of building rows.
type columns struct {
	worker, sequence               []int32
	start, wait, service, response []int64
	failed                         []bool
}

func (c *columns) row(i int) Row {
	return Row{
		Worker: c.worker[i], Sequence: c.sequence[i],
		Start: c.start[i], Wait: c.wait[i], Service: c.service[i], Response: c.response[i],
		Failed: c.failed[i],
	}
}

// read fills the columns, in the order of the fields of Row.
func (c *columns) read(group parquet.RowGroup) error {
	rows := group.NumRows()
	if rows < 0 || rows > rowsPerGroup {
		return fmt.Errorf("a row group says %d rows, at most %d are ever written", rows, rowsPerGroup)
	}
	chunks := group.ColumnChunks()
	return errors.Join(
		readColumn(&c.worker, chunks[0], rows, parquet.Int32Reader.ReadInt32s),
		readColumn(&c.sequence, chunks[1], rows, parquet.Int32Reader.ReadInt32s),
		readColumn(&c.start, chunks[2], rows, parquet.Int64Reader.ReadInt64s),
		readColumn(&c.wait, chunks[3], rows, parquet.Int64Reader.ReadInt64s),
		readColumn(&c.service, chunks[4], rows, parquet.Int64Reader.ReadInt64s),
		readColumn(&c.response, chunks[5], rows, parquet.Int64Reader.ReadInt64s),
		readColumn(&c.failed, chunks[6], rows, parquet.BooleanReader.ReadBooleans),
	)
}

// readColumn reads all values of a column chunk. R is the optional interface of
// the library's value readers that T's type has.
func readColumn[T, R any](into *[]T, chunk parquet.ColumnChunk, rows int64, read func(R, []T) (int, error)) error {
	pages := chunk.Pages()
	defer pages.Close()
	values := make([]T, rows)
	filled := 0
	for filled < len(values) {
		page, err := pages.ReadPage()
		if err != nil {
			return fmt.Errorf("a column ends after %d of %d rows: %w", filled, rows, err)
		}
		reader, ok := page.Values().(R)
		if !ok {
			return fmt.Errorf("a column holds %v, not the type that its schema says", page.Type())
		}
		n, err := read(reader, values[filled:])
		parquet.Release(page)
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		filled += n
	}
	*into = values
	return nil
}

// checkFooter refuses a footer longer than the file, for which the library
// would allocate up to 4 GiB before it finds out. The last eight bytes are its
// length and the magic number (Parquet format specification, File Format).
func checkFooter(from io.ReaderAt, size int64) error {
	const tail = 8
	var last [tail]byte
	if _, err := from.ReadAt(last[:], size-tail); err != nil {
		return fmt.Errorf("it is too short to be a Parquet file: %w", err)
	}
	if length := int64(binary.LittleEndian.Uint32(last[:])); length > size-tail {
		return fmt.Errorf("it is damaged: a footer of %d bytes in a file of %d", length, size)
	}
	return nil
}

// guard turns a panic of the Parquet library, which is how it meets some kinds
// of damage, into an error.
func guard(read func() error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("it is damaged: %v", cause)
		}
	}()
	return read()
}
