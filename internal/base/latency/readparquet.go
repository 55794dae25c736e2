package latency

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
)

// This file reads the samples files that parquet.go writes, and no others. A file may come from
// another machine: reading never takes more memory than a row group needs, and never panics.

// maxPageBytes bounds a page. A difference has at most ten bytes, and a block some more.
const maxPageBytes = 12 * rowsPerGroup

var errNotOurs = errors.New("this is not a samples file of this version of wirelab, or it is damaged")

// readRowGroups reads a samples file of this many bytes. It calls add for each row group, with the
// values of each column. add must not keep them.
func readRowGroups(from io.ReaderAt, size int64, add func(columns [][]int64) error) error {
	var tail [8]byte
	if _, err := from.ReadAt(tail[:], size-int64(len(tail))); err != nil || string(tail[4:]) != parquetMagic {
		return errNotOurs
	}
	end := size - int64(len(tail)) - int64(binary.LittleEndian.Uint32(tail[:4]))
	if end < int64(len(parquetMagic)) {
		return errNotOurs
	}
	in := bufio.NewReader(io.NewSectionReader(from, 0, end))
	var magic [len(parquetMagic)]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil || string(magic[:]) != parquetMagic {
		return errNotOurs
	}
	columns := make([][]int64, len(sampleColumns))
	for {
		if _, err := in.Peek(1); errors.Is(err, io.EOF) {
			return nil
		}
		for i := range columns {
			var err error
			if columns[i], err = readPage(in, &sampleColumns[i], columns[i][:0]); err != nil {
				return err
			}
			if len(columns[i]) != len(columns[0]) {
				return errNotOurs
			}
		}
		if err := add(columns); err != nil {
			return err
		}
	}
}

// readPage reads a page of values with its header, and appends the values.
func readPage(in *bufio.Reader, column *parquetColumn, values []int64) ([]int64, error) {
	// The header's numbers of rows and bytes are read, and the header must be equal to that of the
	// writer with these numbers.
	const longest = 64
	head, err := in.Peek(longest)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	fields := byteReader{left: head}
	fields.skip(3) // the field 1, its value, and the head of field 2
	size := fields.varint()
	fields.skip(1)
	fields.varint()
	fields.skip(2) // the heads of field 5 and of its field 1
	rows := fields.varint()
	encoding := int32(deltaEncoding)
	if column.kind == parquetBoolean {
		encoding = plainEncoding
	}
	if fields.failed || rows < 1 || rows > rowsPerGroup || size < 1 || size > maxPageBytes {
		return nil, errNotOurs
	}
	want := pageHeader(int32(rows), int32(size), encoding)
	if !bytes.HasPrefix(head, want) {
		return nil, errNotOurs
	}
	if _, err := in.Discard(len(want)); err != nil {
		return nil, err
	}
	page := make([]byte, size)
	if _, err := io.ReadFull(in, page); err != nil {
		return nil, fmt.Errorf("%w: %w", errNotOurs, err)
	}
	if column.kind == parquetBoolean {
		if size != (rows+7)/8 {
			return nil, errNotOurs
		}
		return unpackBits(values, page, int(rows), 0, 1), nil
	}
	return unpackDeltas(values, page, int(rows))
}

// A byteReader reads numbers from a text. After the first failure it returns only zeros.
type byteReader struct {
	left   []byte
	failed bool
}

func (r *byteReader) skip(n int) []byte {
	if n > len(r.left) {
		r.failed, r.left = true, nil
		return nil
	}
	skipped := r.left[:n]
	r.left = r.left[n:]
	return skipped
}

func (r *byteReader) uvarint() uint64 {
	value, n := binary.Uvarint(r.left)
	r.failed = r.failed || n <= 0
	r.skip(max(0, n))
	return value
}

func (r *byteReader) varint() int64 {
	value := r.uvarint()
	return int64(value>>1) ^ -int64(value&1)
}

// unpackDeltas is the reverse of packDeltas.
func unpackDeltas(values []int64, page []byte, rows int) ([]int64, error) {
	in := byteReader{left: page}
	if in.uvarint() != deltaBlock || in.uvarint() != deltaBlock/deltaMiniblock || in.uvarint() != uint64(rows) {
		return nil, errNotOurs
	}
	last := in.varint()
	values = append(values, last)
	for left := rows - 1; left > 0 && !in.failed; {
		least := in.varint()
		widths := in.skip(deltaBlock / deltaMiniblock)
		for i := 0; i < len(widths) && left > 0; i++ {
			width, count := int(widths[i]), min(left, deltaMiniblock)
			part := in.skip(deltaMiniblock * width / 8)
			if width > 64 || in.failed {
				return nil, errNotOurs
			}
			begin := len(values)
			values = unpackBits(values, part, count, least, width)
			for j := begin; j < len(values); j++ {
				last += values[j]
				values[j] = last
			}
			left -= count
		}
	}
	if in.failed || len(in.left) > 0 {
		return nil, errNotOurs
	}
	return values, nil
}

// unpackBits is the reverse of packBits. It appends this many values.
func unpackBits(values []int64, packed []byte, count int, base int64, width int) []int64 {
	at := 0 // in bits
	for range count {
		value := uint64(0)
		for got := 0; got < width; {
			within := at % 8
			part := min(8-within, width-got)
			value |= (uint64(packed[at/8]) >> within & (1<<part - 1)) << got
			got, at = got+part, at+part
		}
		values = append(values, int64(value)+base)
	}
	return values
}
