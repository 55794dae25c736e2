package h2

import (
	"bytes"

	"golang.org/x/net/http2/hpack"
)

// FixedFields is a run of header fields that many blocks begin with. Its encoding
// is kept a connection at a time and reused as long as the dynamic table stands
// still, so a repeated request costs a copy of a few bytes.
type FixedFields struct {
	Fields []hpack.HeaderField
	size   uint64
}

// NewFixedFields returns a run of fields, which must not change afterwards.
func NewFixedFields(fields ...hpack.HeaderField) *FixedFields {
	f := &FixedFields{Fields: fields}
	for _, field := range fields {
		f.size += uint64(field.Size())
	}
	return f
}

// Size is the run's size as SETTINGS_MAX_HEADER_LIST_SIZE counts it.
func (f *FixedFields) Size() uint64 { return f.size }

// encoder writes header blocks. Fixed fields enter the dynamic table; the others
// are literals that leave it alone, which is what keeps the cache valid.
type encoder struct {
	hpack      *hpack.Encoder
	scratch    bytes.Buffer
	blocks     map[*FixedFields][]byte
	insertions int // runs whose encoding changed the dynamic table
	resized    bool
}

const (
	// maxInsertions stops a client with very many methods from evicting its own
	// entries on each call: later runs go out as literals.
	maxInsertions = 32
	maxKeptBlocks = 1024
)

func newEncoder() *encoder {
	e := &encoder{blocks: make(map[*FixedFields][]byte)}
	e.hpack = hpack.NewEncoder(&e.scratch)
	return e
}

// setTableLimit takes the peer's SETTINGS_HEADER_TABLE_SIZE. The size update must
// open the next block.
func (e *encoder) setTableLimit(size uint32) {
	e.hpack.SetMaxDynamicTableSizeLimit(size)
	e.insertions = 0
	e.resized = true
	clear(e.blocks)
}

// appendResize opens a block with the size updates that are due. The HPACK encoder
// writes them before a field, so it is given one whose encoding is a single byte.
func (e *encoder) appendResize(dst []byte) []byte {
	e.resized = false
	e.scratch.Reset()
	_ = e.hpack.WriteField(hpack.HeaderField{Name: ":method", Value: "GET"})
	return append(dst, e.scratch.Bytes()[:e.scratch.Len()-1]...)
}

func (e *encoder) appendBlock(dst []byte, fixed *FixedFields, extra []hpack.HeaderField) []byte {
	if e.resized {
		dst = e.appendResize(dst)
	}
	block, ok := e.blocks[fixed]
	if !ok {
		block = e.encode(fixed)
	}
	dst = append(dst, block...)
	for _, f := range extra {
		dst = appendLiteral(dst, f)
	}
	return dst
}

// encode writes a fixed run through the table. When that inserted something, every
// kept block's indexes have shifted and all are dropped; the run is kept when it
// next comes out as indexes alone.
func (e *encoder) encode(fixed *FixedFields) []byte {
	e.scratch.Reset()
	if e.insertions >= maxInsertions {
		block := []byte(nil)
		for _, f := range fixed.Fields {
			block = appendLiteral(block, f)
		}
		return e.keep(fixed, block)
	}
	for _, f := range fixed.Fields {
		// It writes to a bytes.Buffer, which does not fail.
		_ = e.hpack.WriteField(f)
	}
	block := bytes.Clone(e.scratch.Bytes())
	if changesTable(block) {
		e.insertions++
		clear(e.blocks)
		return block
	}
	return e.keep(fixed, block)
}

func (e *encoder) keep(fixed *FixedFields, block []byte) []byte {
	if len(e.blocks) < maxKeptBlocks {
		e.blocks[fixed] = block
	}
	return block
}

// appendLiteral writes a field as a literal without indexing and without Huffman
// coding (RFC 7541 section 6.2.2): the cheapest form for both ends.
func appendLiteral(dst []byte, f hpack.HeaderField) []byte {
	first := byte(0)
	if f.Sensitive {
		first = 0x10 // never indexed, section 6.2.3
	}
	dst = append(dst, first)
	dst = appendString(dst, f.Name)
	return appendString(dst, f.Value)
}

func appendString(dst []byte, s string) []byte {
	const prefixMax = 1<<7 - 1
	n := len(s)
	if n < prefixMax {
		dst = append(dst, byte(n))
	} else {
		dst = append(dst, prefixMax)
		for n -= prefixMax; n >= 0x80; n >>= 7 {
			dst = append(dst, byte(n)|0x80)
		}
		dst = append(dst, byte(n))
	}
	return append(dst, s...)
}
