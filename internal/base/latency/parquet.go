package latency

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// This file writes the part of the Parquet format that samples need: flat columns, no nulls, one
// page per column and row group. Pages are not compressed: gzip takes off another 4 %. The field
// numbers and constants are those of parquet.thrift in github.com/apache/parquet-format.

const parquetMagic = "PAR1"

// parquetType is a physical type.
type parquetType int32

const (
	parquetBoolean parquetType = 0
	parquetInt32   parquetType = 1
	parquetInt64   parquetType = 2
)

// encode returns a page of values and its encoding: PLAIN (0) for booleans, as bits, and
// DELTA_BINARY_PACKED (5) for integers, whose neighbours differ by less than they are long.
func (t parquetType) encode(values []int64) (page []byte, encoding int32) {
	if t == parquetBoolean {
		return packBits(nil, values, 0, 1), 0
	}
	return packDeltas(values), 5
}

// schemaElement returns a SchemaElement: a required column.
func (t parquetType) schemaElement(name string) thriftStruct {
	if t == parquetBoolean {
		return thriftStruct{1: int32(t), 3: int32(0), 4: name}
	}
	width, converted := int8(32*t), 16+int32(t) // INT_32 is 17, INT_64 is 18
	logical := thriftStruct{10: thriftStruct{1: width, 2: true}}
	return thriftStruct{1: int32(t), 3: int32(0), 4: name, 6: converted, 10: logical}
}

// A parquetFile writes row groups, and keeps their description for the footer. After the
// first error of the writer it writes nothing more.
type parquetFile struct {
	to      io.Writer
	written int64
	err     error
	rows    int64
	groups  []any // RowGroup
}

func (f *parquetFile) write(p []byte) {
	if f.err != nil {
		return
	}
	n, err := f.to.Write(p)
	f.written, f.err = f.written+int64(n), err
}

// rowGroup writes the values of all columns, the same number in each.
func (f *parquetFile) rowGroup(columns [][]int64) {
	var chunks []any // ColumnChunk
	rows, total := int64(len(columns[0])), int64(0)
	for i, values := range columns {
		column := sampleColumns[i]
		page, encoding := column.kind.encode(values)
		size := int32(len(page))
		const rle = 3 // the header must name an encoding for the levels, although these columns have none: they contain neither nulls nor lists
		data := thriftStruct{1: int32(rows), 2: encoding, 3: int32(rle), 4: int32(rle)}
		header := thriftStruct{1: int32(0), 2: size, 3: size, 5: data}.append(nil)
		at, written := f.written, int64(len(header)+len(page))
		f.write(header)
		f.write(page)
		chunks = append(chunks, thriftStruct{2: at, 3: thriftStruct{ // ColumnMetaData, not compressed
			1: int32(column.kind), 2: []any{encoding}, 3: []any{column.name}, 4: int32(0),
			5: rows, 6: written, 7: written, 9: at,
		}})
		total += written
	}
	f.groups = append(f.groups, thriftStruct{1: chunks, 2: total, 3: rows})
	f.rows += rows
}

// end writes the footer, a FileMetaData.
func (f *parquetFile) writeFooter() error {
	schema := []any{thriftStruct{4: "samples", 5: int32(len(sampleColumns))}}
	for _, c := range sampleColumns {
		schema = append(schema, c.kind.schemaElement(c.name))
	}
	footer := thriftStruct{1: int32(1), 2: schema, 3: f.rows, 4: f.groups, 6: "wirelab"}.append(nil)
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	f.write(append(footer, parquetMagic...))
	return f.err
}

// A block of DELTA_BINARY_PACKED, and the parts of it that have a width of their own.
const (
	deltaBlock     = 128
	deltaMiniblock = 32
)

// packDeltas encodes values as DELTA_BINARY_PACKED: the first value, then blocks of differences,
// each less the block's smallest difference, at the width of the largest remainder.
func packDeltas(values []int64) []byte {
	packed := binary.AppendUvarint(nil, deltaBlock)
	packed = binary.AppendUvarint(packed, deltaBlock/deltaMiniblock)
	packed = binary.AppendUvarint(packed, uint64(len(values)))
	packed = binary.AppendVarint(packed, values[0])
	deltas := make([]int64, 0, len(values))
	for i, value := range values[1:] {
		deltas = append(deltas, value-values[i])
	}
	for block := range slices.Chunk(deltas, deltaBlock) {
		least := slices.Min(block)
		packed = binary.AppendVarint(packed, least)
		widths := len(packed)
		packed = append(packed, make([]byte, deltaBlock/deltaMiniblock)...)
		for part := range slices.Chunk(block, deltaMiniblock) {
			width := 0
			for _, d := range part {
				width = max(width, bits.Len64(uint64(d-least)))
			}
			packed[widths] = byte(width)
			widths++
			whole := len(packed) + deltaMiniblock*width/8
			packed = packBits(packed, part, least, width)
			packed = append(packed, make([]byte, whole-len(packed))...) // the last part may have fewer values
		}
	}
	return packed
}

// packBits appends the differences of values to base, at a width in bits, low bits first.
func packBits(packed []byte, values []int64, base int64, width int) []byte {
	var pending uint64 // fewer than 8 bits between two values
	used := 0
	for _, v := range values {
		value := uint64(v - base)
		for left := width; left > 0; left -= 32 {
			part := min(left, 32)
			pending |= value & (1<<part - 1) << used
			value >>= part
			for used += part; used >= 8; used -= 8 {
				packed = append(packed, byte(pending))
				pending >>= 8
			}
		}
	}
	if used > 0 {
		packed = append(packed, byte(pending))
	}
	return packed
}

// thriftStruct holds the fields of a Thrift struct by their numbers; nil: absent.
type thriftStruct []any

// append encodes the struct in Thrift's compact protocol.
func (s thriftStruct) append(to []byte) []byte {
	last := 0
	for id, value := range s {
		if value == nil {
			continue
		}
		head := len(to)
		var kind byte
		to, kind = appendThrift(append(to, 0), value)
		to[head] = byte(id-last)<<4 | kind
		last = id
	}
	return append(to, 0)
}

// appendThrift encodes a value, and returns the type for the byte before it.
func appendThrift(to []byte, value any) (_ []byte, kind byte) {
	switch v := value.(type) {
	case bool: // always true here: the type is the value
		return to, 1
	case int8:
		return append(to, byte(v)), 3
	case int32:
		return binary.AppendVarint(to, int64(v)), 5
	case int64:
		return binary.AppendVarint(to, v), 6
	case string:
		return append(binary.AppendUvarint(to, uint64(len(v))), v...), 8
	case thriftStruct:
		return v.append(to), 12
	case []any:
		const longForm, anyStruct = 15, 12
		head, element := len(to), byte(anyStruct)
		if to = append(to, byte(min(len(v), longForm))<<4); len(v) >= longForm {
			to = binary.AppendUvarint(to, uint64(len(v)))
		}
		for _, e := range v {
			to, element = appendThrift(to, e)
		}
		to[head] |= element
		return to, 9
	}
	panic(fmt.Sprintf("latency: no Thrift type for %T", value))
}
