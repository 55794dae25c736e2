package h2

import (
	"errors"

	"golang.org/x/net/http2/hpack"
)

// FieldSet is a decoded run of fields that came as indexes only. The decoder hands
// out the same set for the same bytes while the dynamic table stands still, so
// what a reader derives from it may be kept in Memo. Fields must not be changed.
type FieldSet struct {
	Fields []hpack.HeaderField
	Memo   any
	size   uint32
	check  fieldCheck
}

// Block is a decoded header block: the fields of Fixed, then Rest. Rest is valid
// only during the call that delivers it; its strings are safe to keep.
type Block struct {
	Fixed *FieldSet
	Rest  []hpack.HeaderField
	check fieldCheck
	size  uint32
	// tooLarge: some fields were left out, because the list passed its limit.
	tooLarge bool
}

// TooLarge reports that the block's list of fields passed the limit and is cut.
func (b *Block) TooLarge() bool { return b.tooLarge }

// decoder reads header blocks and remembers those that are indexes only.
type decoder struct {
	hpack   *hpack.Decoder
	maxList uint32
	sets    map[string]*FieldSet
	block   Block
}

// What is remembered is bounded in number and length: honest prefixes are a dozen
// fields.
const (
	maxKeptSets   = 256
	maxKeptPrefix = 64
)

func newDecoder(maxList uint32) *decoder {
	d := &decoder{maxList: maxList, sets: make(map[string]*FieldSet)}
	d.hpack = hpack.NewDecoder(defaultHeaderTable, d.emit)
	return d
}

// decode reads a whole block. The result is valid until the next call. An error
// means that the two ends' tables differ: the connection is lost (section 4.3).
func (d *decoder) decode(block []byte) (*Block, error) {
	n := indexedPrefix(block)
	rest := block[n:]
	kinds, err := scanBlock(rest)
	if err != nil || kinds&kindResize != 0 {
		// Undivided, so that the HPACK decoder sees a misplaced size update.
		n, rest = 0, block
	}
	fixed, err := d.fixedSet(block[:n])
	if err != nil {
		return nil, err
	}
	d.reset(fixed)
	if len(rest) == 0 {
		return &d.block, nil
	}
	if err := d.run(rest); err != nil {
		return nil, err
	}
	if kinds != 0 {
		clear(d.sets)
	}
	return &d.block, nil
}

func (d *decoder) reset(fixed *FieldSet) {
	d.block = Block{Fixed: fixed, Rest: d.block.Rest[:0]}
	if fixed != nil {
		d.block.check, d.block.size = fixed.check, fixed.size
		d.block.tooLarge = fixed.size > d.maxList
	}
}

func (d *decoder) fixedSet(prefix []byte) (*FieldSet, error) {
	if len(prefix) == 0 {
		return nil, nil
	}
	if set := d.sets[string(prefix)]; set != nil {
		return set, nil
	}
	d.reset(nil)
	if err := d.run(prefix); err != nil {
		return nil, err
	}
	set := &FieldSet{
		Fields: append([]hpack.HeaderField(nil), d.block.Rest...),
		check:  d.block.check,
		size:   d.block.size,
	}
	if len(d.sets) < maxKeptSets && len(prefix) <= maxKeptPrefix && !d.block.tooLarge {
		d.sets[string(prefix)] = set
	}
	return set, nil
}

func (d *decoder) run(p []byte) error {
	if _, err := d.hpack.Write(p); err != nil {
		return err
	}
	return d.hpack.Close()
}

func (d *decoder) emit(f hpack.HeaderField) {
	d.block.size += f.Size()
	if d.block.size > d.maxList {
		// Decoding goes on to keep the table in step; nothing more is kept.
		d.block.tooLarge = true
		return
	}
	d.block.check.add(f)
	d.block.Rest = append(d.block.Rest, f)
}

// indexedPrefix is the length of the run of one-byte indexed fields (RFC 7541
// section 6.1) that block begins with.
func indexedPrefix(block []byte) int {
	for i, b := range block {
		if b < 0x80 || b == 0xff {
			return i
		}
	}
	return len(block)
}

// changesTable reports whether a block inserts into the dynamic table or resizes
// it. A block that cannot be walked is taken to.
func changesTable(block []byte) bool {
	kinds, err := scanBlock(block)
	return err != nil || kinds != 0
}

type fieldKinds uint8

const (
	kindInsert fieldKinds = 1 << iota
	kindResize
)

var errShortBlock = errors.New("http2: truncated header block")

// scanBlock walks a block's representations (RFC 7541 section 6) without decoding.
func scanBlock(p []byte) (kinds fieldKinds, err error) {
	for len(p) > 0 {
		var prefix uint8
		var index int
		switch b := p[0]; {
		case b&0x80 != 0:
			prefix = 7
		case b&0x40 != 0:
			kinds |= kindInsert
			prefix = 6
		case b&0x20 != 0:
			kinds |= kindResize
			prefix = 5
		default:
			prefix = 4
		}
		first := p[0]
		if index, p, err = scanInt(p, prefix); err != nil {
			return kinds, err
		}
		if first&0x80 != 0 || first&0xe0 == 0x20 {
			continue
		}
		strings := 1
		if index == 0 {
			strings = 2
		}
		for ; strings > 0; strings-- {
			var n int
			if n, p, err = scanInt(p, 7); err != nil {
				return kinds, err
			}
			if n > len(p) {
				return kinds, errShortBlock
			}
			p = p[n:]
		}
	}
	return kinds, nil
}

// scanInt reads an integer with an n-bit prefix, RFC 7541 section 5.1.
func scanInt(p []byte, n uint8) (int, []byte, error) {
	if len(p) == 0 {
		return 0, nil, errShortBlock
	}
	limit := 1<<n - 1
	v := int(p[0]) & limit
	p = p[1:]
	if v < limit {
		return v, p, nil
	}
	for shift := 0; shift <= 28; shift += 7 {
		if len(p) == 0 {
			return 0, nil, errShortBlock
		}
		b := p[0]
		p = p[1:]
		v += int(b&0x7f) << shift
		if b < 0x80 {
			return v, p, nil
		}
	}
	return 0, nil, errShortBlock
}
