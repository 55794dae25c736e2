package latency

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/bits"
	"slices"
)

// This file writes the part of the Parquet format that samples need: flat columns without nulls,
// one page per column and row group. Pages are not compressed, because gzip would save only 4 %.
// The field numbers and constants come from parquet.thrift in github.com/apache/parquet-format.

const parquetMagic = "PAR1"

// parquetType is a physical type of Parquet.
type parquetType int32

const (
	parquetBoolean parquetType = 0
	parquetInt32   parquetType = 1
	parquetInt64   parquetType = 2
	parquetBytes   parquetType = 6
)

// Encodings of Parquet.
const (
	plainEncoding      = 0
	deltaEncoding      = 5 // DELTA_BINARY_PACKED
	dictionaryEncoding = 8 // RLE_DICTIONARY
)

// A parquetColumn describes a column. The values of a column with texts are indexes into texts.
type parquetColumn struct {
	name  string
	kind  parquetType
	texts []string // only for parquetBytes
}

// encode returns a page of values and its encoding. Booleans have one bit each. Integers are
// differences, because differences of neighbours are small.
func (c *parquetColumn) encode(values []int64) (page []byte, encoding int32) {
	switch c.kind {
	case parquetBoolean:
		return packBits(nil, values, 0, 1), plainEncoding
	case parquetBytes: // the width of an index, then one bit-packed run of whole groups of eight
		width := max(1, bits.Len(uint(len(c.texts)-1)))
		groups := (len(values) + 7) / 8
		page = binary.AppendUvarint([]byte{byte(width)}, uint64(groups)<<1|1)
		whole := len(page) + groups*width
		page = packBits(page, values, 0, width)
		return append(page, make([]byte, whole-len(page))...), dictionaryEncoding
	}
	return packDeltas(values), deltaEncoding
}

// dictionary returns the page with the column's texts.
func (c *parquetColumn) dictionary() (page []byte) {
	for _, text := range c.texts {
		page = append(binary.LittleEndian.AppendUint32(page, uint32(len(text))), text...)
	}
	return page
}

func (c *parquetColumn) schemaElement() thriftStruct {
	t, name := c.kind, c.name
	switch t {
	case parquetBoolean:
		return thriftStruct{1: int32(t), 3: int32(0), 4: name}
	case parquetBytes: // converted type UTF8, logical type STRING
		return thriftStruct{1: int32(t), 3: int32(0), 4: name, 6: int32(0), 10: thriftStruct{1: thriftStruct{}}}
	}
	width, converted := int8(32*t), 16+int32(t) // converted type: INT_32 is 17, INT_64 is 18
	logical := thriftStruct{10: thriftStruct{1: width, 2: true}}
	return thriftStruct{1: int32(t), 3: int32(0), 4: name, 6: converted, 10: logical}
}

// A parquetFile writes row groups, and keeps their descriptions for the footer. After the first
// write error it writes nothing more.
type parquetFile struct {
	to      io.Writer
	columns []parquetColumn
	written int64
	err     error
	rows    int64
	groups  []any // RowGroup structs for the footer
}

func (f *parquetFile) write(p []byte) {
	if f.err != nil {
		return
	}
	n, err := f.to.Write(p)
	f.written, f.err = f.written+int64(n), err
}

// rowGroup writes one row group. All columns have the same number of values.
func (f *parquetFile) rowGroup(columns [][]int64) {
	var chunks []any // ColumnChunk structs
	rows, total := int64(len(columns[0])), int64(0)
	for i, values := range columns {
		column := &f.columns[i]
		begin, texts := f.written, any(nil)
		if column.kind == parquetBytes {
			page := column.dictionary()
			size := int32(len(page))
			f.write(thriftStruct{1: int32(2), 2: size, 3: size, 7: thriftStruct{1: int32(len(column.texts)), 2: int32(plainEncoding)}}.append(nil))
			f.write(page)
			texts = begin
		}
		page, encoding := column.encode(values)
		at := f.written
		f.write(pageHeader(int32(rows), int32(len(page)), encoding))
		f.write(page)
		// ColumnMetaData, not compressed
		written := f.written - begin
		chunks = append(chunks, thriftStruct{2: begin, 3: thriftStruct{
			1: int32(column.kind), 2: []any{encoding}, 3: []any{column.name}, 4: int32(0),
			5: rows, 6: written, 7: written, 9: at, 11: texts,
		}})
		total += written
	}
	f.groups = append(f.groups, thriftStruct{1: chunks, 2: total, 3: rows})
	f.rows += rows
}

// pageHeader returns the header of a page of values.
func pageHeader(rows, size, encoding int32) []byte {
	// The header must name an encoding of the levels. These columns have no levels.
	const rle = 3
	data := thriftStruct{1: rows, 2: encoding, 3: int32(rle), 4: int32(rle)}
	return thriftStruct{1: int32(0), 2: size, 3: size, 5: data}.append(nil)
}

// writeFooter writes the footer, which is a FileMetaData struct.
func (f *parquetFile) writeFooter() error {
	schema := []any{thriftStruct{4: "samples", 5: int32(len(f.columns))}}
	for i := range f.columns {
		schema = append(schema, f.columns[i].schemaElement())
	}
	footer := thriftStruct{1: int32(1), 2: schema, 3: f.rows, 4: f.groups, 6: "wirelab"}.append(nil)
	footer = binary.LittleEndian.AppendUint32(footer, uint32(len(footer)))
	f.write(append(footer, parquetMagic...))
	return f.err
}

// Sizes of a DELTA_BINARY_PACKED block and of its parts. Each part has its own bit width.
const (
	deltaBlock     = 128
	deltaMiniblock = 32
)

// packDeltas encodes values as DELTA_BINARY_PACKED. The first value comes first, then blocks of
// differences. Each block stores the differences minus its smallest difference.
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
			packed = append(packed, make([]byte, whole-len(packed))...) // pads the last part
		}
	}
	return packed
}

// packBits appends the values minus base, each in width bits, low bits first.
func packBits(packed []byte, values []int64, base int64, width int) []byte {
	var pending uint64 // bits that do not fill a byte yet
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

// thriftStruct holds the fields of a Thrift struct by their numbers. nil means an absent field.
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

// appendThrift encodes a value. It returns the type code that the caller writes before the value.
func appendThrift(to []byte, value any) (_ []byte, kind byte) {
	switch v := value.(type) {
	case bool: // the type code encodes true, and no value here is false
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
