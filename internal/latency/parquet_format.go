package latency

import (
	"encoding/binary"
	"io"
	"math/bits"
	"slices"
)

// This file writes the part of the Parquet format that samples need: flat
// columns, no nulls, a page a column and row group. Pages are not compressed: once
// the deltas are packed, gzip takes off another 4 %. Numbers below are those of
// parquet.thrift in github.com/apache/parquet-format.

const parquetMagic = "PAR1"

// parquetType is a physical type.
type parquetType int64

const (
	parquetBoolean parquetType = 0
	parquetInt32   parquetType = 1
	parquetInt64   parquetType = 2
)

// encoding is PLAIN for booleans, which are packed to bits, and for integers
// DELTA_BINARY_PACKED: starts ascend, sequence numbers count up, and durations
// of neighbours differ by less than they are long.
func (t parquetType) encoding() int64 {
	if t == parquetBoolean {
		return 0
	}
	return 5
}

// bits is the width of an integer.
func (t parquetType) bits() int64 { return 32 * int64(t) }

// parquetFile writes row groups column by column, and keeps what the footer says
// of them. The first error of the writer below ends all writing.
type parquetFile struct {
	to      io.Writer
	written int64
	err     error
	rows    int64
	groups  []parquetGroup
	columns []parquetColumn // of the group that is being written
}

type parquetGroup struct {
	rows    int64
	columns []parquetColumn
}

// parquetColumn is a column's part of a row group.
type parquetColumn struct {
	name   string
	kind   parquetType
	values int64
	at     int64 // of its page, in the file
	bytes  int64 // of its page, the header included
}

func (f *parquetFile) write(p []byte) {
	if f.err != nil {
		return
	}
	n, err := f.to.Write(p)
	f.written, f.err = f.written+int64(n), err
}

// column writes all values of a column of the current row group.
func (f *parquetFile) column(name string, kind parquetType, values []int64) {
	page := packDeltas(values)
	if kind == parquetBoolean {
		page = packBits(values)
	}
	var header thrift // PageHeader
	header.number(1, 0)
	header.number(2, int64(len(page)))
	header.number(3, int64(len(page)))
	header.begin(5) // DataPageHeader; without nulls and lists there are no levels
	header.number(1, int64(len(values)))
	header.number(2, kind.encoding())
	header.number(3, 3)
	header.number(4, 3)
	header.stop()
	header.stop()
	f.columns = append(f.columns, parquetColumn{
		name: name, kind: kind, values: int64(len(values)), at: f.written,
		bytes: int64(len(header.bytes) + len(page)),
	})
	f.write(header.bytes)
	f.write(page)
}

func (f *parquetFile) endGroup() {
	group := parquetGroup{rows: f.columns[0].values, columns: f.columns}
	f.rows, f.columns = f.rows+group.rows, nil
	f.groups = append(f.groups, group)
}

// end writes the footer.
func (f *parquetFile) end() error {
	var footer thrift // FileMetaData
	footer.number(1, 1)
	footer.list(2, thriftStruct, 1+len(sampleColumns))
	footer.text(4, "samples")
	footer.number(5, int64(len(sampleColumns)))
	footer.stop()
	for _, c := range sampleColumns {
		footer.schema(c.name, c.kind)
	}
	footer.long(3, f.rows)
	footer.list(4, thriftStruct, len(f.groups))
	for _, group := range f.groups {
		footer.group(group)
	}
	footer.text(6, "wirelab")
	footer.stop()
	f.write(footer.bytes)
	f.write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer.bytes))))
	f.write([]byte(parquetMagic))
	return f.err
}

// packBits is PLAIN for booleans: eight to a byte, the first in the lowest bit.
func packBits(values []int64) []byte {
	packed := make([]byte, (len(values)+7)/8)
	for i, v := range values {
		packed[i/8] |= byte(v) << (i % 8)
	}
	return packed
}

// A block of DELTA_BINARY_PACKED, and the parts of it that have a width of their
// own.
const (
	deltaBlock     = 128
	deltaMiniblock = 32
)

// packDeltas is DELTA_BINARY_PACKED: the first value, then blocks of differences,
// each without the block's smallest and at the width of the largest beside it.
func packDeltas(values []int64) []byte {
	packed := binary.AppendUvarint(nil, deltaBlock)
	packed = binary.AppendUvarint(packed, deltaBlock/deltaMiniblock)
	packed = binary.AppendUvarint(packed, uint64(len(values)))
	first := int64(0)
	if len(values) > 0 {
		first = values[0]
	}
	packed = binary.AppendVarint(packed, first)
	for from := 1; from < len(values); from += deltaBlock {
		to := min(from+deltaBlock, len(values))
		deltas := make([]int64, to-from, deltaBlock)
		for i := range deltas {
			deltas[i] = values[from+i] - values[from+i-1]
		}
		packed = appendBlock(packed, deltas)
	}
	return packed
}

func appendBlock(packed []byte, deltas []int64) []byte {
	least := slices.Min(deltas)
	packed = binary.AppendVarint(packed, least)
	widths := len(packed)
	packed = append(packed, make([]byte, deltaBlock/deltaMiniblock)...)
	for part := range slices.Chunk(deltas, deltaMiniblock) {
		width := 0
		for _, d := range part {
			width = max(width, bits.Len64(uint64(d-least)))
		}
		packed[widths] = byte(width)
		widths++
		packed = appendMiniblock(packed, part, least, width)
	}
	return packed
}

// appendMiniblock packs the differences from least, the first in the lowest bits.
// What the last miniblock has no values for is zero.
func appendMiniblock(packed []byte, deltas []int64, least int64, width int) []byte {
	const word = 64
	var bits uint64
	used := 0
	for i := range deltaMiniblock {
		value := uint64(0)
		if i < len(deltas) {
			value = uint64(deltas[i] - least)
		}
		bits |= value << used
		if used += width; used >= word {
			packed = binary.LittleEndian.AppendUint64(packed, bits)
			used -= word
			bits = value >> (width - used) // what did not fit
		}
	}
	if used > 0 { // half a word, since 32 values end on one
		packed = binary.LittleEndian.AppendUint32(packed, uint32(bits))
	}
	return packed
}

// thrift writes structs in Thrift's compact protocol.
type thrift struct {
	bytes []byte
	last  byte   // the field before, in this struct
	outer []byte // the same, in the structs around it
}

// The types of the compact protocol.
const (
	thriftTrue   = 1
	thriftByte   = 3
	thriftI32    = 5
	thriftI64    = 6
	thriftBinary = 8
	thriftList   = 9
	thriftStruct = 12
)

func (t *thrift) field(id, kind byte) {
	t.bytes = append(t.bytes, (id-t.last)<<4|kind)
	t.last = id
}

func (t *thrift) number(id byte, value int64) {
	t.field(id, thriftI32)
	t.bytes = binary.AppendVarint(t.bytes, value)
}

func (t *thrift) long(id byte, value int64) {
	t.field(id, thriftI64)
	t.bytes = binary.AppendVarint(t.bytes, value)
}

func (t *thrift) text(id byte, text string) {
	t.field(id, thriftBinary)
	t.element(text)
}

// element is a text in a list.
func (t *thrift) element(text string) {
	t.bytes = binary.AppendUvarint(t.bytes, uint64(len(text)))
	t.bytes = append(t.bytes, text...)
}

// begin opens a struct, which stop closes.
func (t *thrift) begin(id byte) {
	t.field(id, thriftStruct)
	t.open()
}

func (t *thrift) open() {
	t.outer = append(t.outer, t.last)
	t.last = 0
}

// stop closes the current struct; of the outermost it is the end.
func (t *thrift) stop() {
	t.bytes = append(t.bytes, 0)
	if n := len(t.outer); n > 0 {
		t.last, t.outer = t.outer[n-1], t.outer[:n-1]
	}
}

// list opens a list of so many elements. Elements that are structs are each
// written from their first field to stop.
func (t *thrift) list(id, kind byte, elements int) {
	const longForm = 15
	t.field(id, thriftList)
	if elements < longForm {
		t.bytes = append(t.bytes, byte(elements)<<4|kind)
	} else {
		t.bytes = append(t.bytes, longForm<<4|kind)
		t.bytes = binary.AppendUvarint(t.bytes, uint64(elements))
	}
	if kind == thriftStruct && elements > 0 {
		for range elements {
			t.outer = append(t.outer, 0)
		}
		t.outer[len(t.outer)-elements] = t.last
		t.last = 0
	}
}

// schema is a SchemaElement.
func (t *thrift) schema(name string, kind parquetType) {
	const integersFrom = 15 // INT_32 is 17, INT_64 18
	t.number(1, int64(kind))
	t.number(3, 0) // required
	t.text(4, name)
	if kind != parquetBoolean {
		t.number(6, integersFrom+1+int64(kind))
		t.begin(10) // LogicalType
		t.begin(10) // IntType
		t.field(1, thriftByte)
		t.bytes = append(t.bytes, byte(kind.bits()))
		t.field(2, thriftTrue) // signed
		t.stop()
		t.stop()
	}
	t.stop()
}

// group is a RowGroup.
func (t *thrift) group(g parquetGroup) {
	total := int64(0)
	t.list(1, thriftStruct, len(g.columns)) // ColumnChunk
	for _, c := range g.columns {
		total += c.bytes
		t.long(2, c.at)
		t.begin(3) // ColumnMetaData
		t.number(1, int64(c.kind))
		t.list(2, thriftI32, 1)
		t.bytes = binary.AppendVarint(t.bytes, c.kind.encoding())
		t.list(3, thriftBinary, 1)
		t.element(c.name)
		t.number(4, 0) // not compressed
		t.long(5, c.values)
		t.long(6, c.bytes)
		t.long(7, c.bytes)
		t.long(9, c.at)
		t.stop()
		t.stop()
	}
	t.long(2, total)
	t.long(3, g.rows)
	t.stop()
}
