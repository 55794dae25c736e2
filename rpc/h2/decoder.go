package h2

import (
	"errors"
	"hash/maphash"
	"slices"
	"unsafe"

	"golang.org/x/net/http2/hpack"
)

// A FieldSet holds decoded fields in a cache. A Conn delivers the same FieldSet for the same bytes
// until the dynamic table changes. Handlers may store in Memo a value that they derive from the
// fields. They must not change the fields.
type FieldSet struct {
	Fields  []hpack.HeaderField
	Memo    any
	encoded string // the set's key in the cache; empty if the set is not cached
	size    uint32
	check   fieldCheck
}

// A Block is a decoded header block: the fields of Fixed, which may be nil, and then Rest. Rest is
// valid only during the call that delivers it, but its strings stay valid.
type Block struct {
	Fixed *FieldSet
	Rest  []hpack.HeaderField
	check fieldCheck
	size  uint32
	// WireLength is the block's length before decoding.
	WireLength int
	// TooLarge means that the block exceeds Config.MaxHeaderList, so fields are missing.
	TooLarge bool
}

// A decoder decodes header blocks. It caches the indexed fields at the start of blocks. It also
// caches whole blocks that are received again and do not change the dynamic table, because some
// clients never put a path into the table.
type decoder struct {
	hpack      *hpack.Decoder
	maxList    uint32
	sets       map[string]*FieldSet
	recent     [4]*FieldSet // sets that equal whole recent blocks
	nextRecent int          // the next index to replace in recent
	cost       int          // bytes of memory that all sets use
	seen       [16]uint64   // hashes of recent blocks that were received once
	nextSeen   int          // the next index to replace in seen
	block      Block
	scratch    []byte
}

// Limits of the cache. Real requests have about a dozen fields that repeat.
const (
	maxCachedSets  = 256
	maxCachedBlock = 256
	// setCost is the memory of a cached set without its fields.
	setCost = 512
	// maxKeptFields and maxCopiedBlock limit the memory that is kept for the next block.
	maxKeptFields  = 256
	maxCopiedBlock = 16 << 10
)

func newDecoder(maxList uint32) *decoder {
	d := &decoder{maxList: maxList, sets: make(map[string]*FieldSet)}
	d.hpack = hpack.NewDecoder(defaultHeaderTable, d.addField)
	return d
}

// decode decodes a whole block. The result is valid until the next call. After an error, the
// connection must end, because the peer's dynamic table may differ (section 4.3).
func (d *decoder) decode(block []byte) (*Block, error) {
	// Most blocks equal one of a few recent blocks. Comparing costs less than hashing.
	for _, set := range d.recent {
		if set != nil && set.encoded == string(block) {
			d.reset(set, len(block))
			return &d.block, nil
		}
	}
	n := indexedPrefix(block)
	rest := block[n:]
	kinds, err := scanBlock(rest)
	if err != nil {
		kinds = kindInsert | kindResize // the HPACK decoder will report the error
	}
	if kinds&kindResize != 0 {
		// Do not split the block, so that the HPACK decoder detects a misplaced update.
		n, rest = 0, block
	}
	whole := kinds == 0 && len(rest) > 0 && len(block) <= maxCachedBlock // the block may be cached
	if whole {
		if set := d.sets[string(block)]; set != nil {
			return d.cachedBlock(set, block), nil
		}
	}
	fixed, err := d.fixedSet(block[:n])
	if err != nil {
		return nil, err
	}
	if len(rest) == 0 {
		return d.cachedBlock(fixed, block), nil
	}
	d.reset(fixed, len(block))
	if err := d.decodeFields(rest); err != nil {
		return nil, err
	}
	switch {
	case kinds&(kindInsert|kindResize) != 0:
		clear(d.sets)
		clear(d.recent[:])
		d.cost = 0
	case whole && d.hasSeen(block):
		d.cache(block, d.newSet())
	}
	return &d.block, nil
}

// cachedBlock returns a block that consists of a set's fields.
func (d *decoder) cachedBlock(set *FieldSet, block []byte) *Block {
	if set != nil && set.encoded != "" {
		d.recent[d.nextRecent] = set
		d.nextRecent = (d.nextRecent + 1) % len(d.recent)
	}
	d.reset(set, len(block))
	return &d.block
}

var blockSeed = maphash.MakeSeed()

// hasSeen reports whether the same block has come recently.
func (d *decoder) hasSeen(block []byte) bool {
	hash := maphash.Bytes(blockSeed, block)
	if slices.Contains(d.seen[:], hash) {
		return true
	}
	d.seen[d.nextSeen] = hash
	d.nextSeen = (d.nextSeen + 1) % len(d.seen)
	return false
}

// newSet returns a set of the fields that have been decoded from the block so far.
func (d *decoder) newSet() *FieldSet {
	var fields []hpack.HeaderField
	if d.block.Fixed != nil {
		fields = d.block.Fixed.Fields
	}
	return &FieldSet{Fields: slices.Concat(fields, d.block.Rest), check: d.block.check, size: d.block.size}
}

func (d *decoder) cache(encoded []byte, set *FieldSet) {
	if len(d.sets) < maxCachedSets && len(encoded) <= maxCachedBlock && !d.block.TooLarge {
		set.encoded = string(encoded)
		d.sets[set.encoded] = set
		d.cost += setCost + int(set.size) + len(set.Fields)*int(unsafe.Sizeof(hpack.HeaderField{}))
	}
}

// freeBlock frees the last block's memory.
func (d *decoder) freeBlock() {
	clear(d.block.Rest)
	if cap(d.block.Rest) > maxKeptFields {
		d.block.Rest = nil
	}
	d.block.Fixed = nil
}

func (d *decoder) reset(fixed *FieldSet, wireLength int) {
	d.block = Block{Fixed: fixed, Rest: d.block.Rest[:0], WireLength: wireLength}
	if fixed != nil {
		d.block.check, d.block.size = fixed.check, fixed.size
		d.block.TooLarge = fixed.size > d.maxList
	}
}

func (d *decoder) fixedSet(prefix []byte) (*FieldSet, error) {
	if len(prefix) == 0 {
		return nil, nil
	}
	if set := d.sets[string(prefix)]; set != nil {
		return set, nil
	}
	d.reset(nil, len(prefix))
	if err := d.decodeFields(prefix); err != nil {
		return nil, err
	}
	set := d.newSet()
	d.cache(prefix, set)
	return set, nil
}

// decodeFields decodes p. The HPACK decoder keeps a reference to its last input. So a short input
// is copied, and after a long input an indexed field is decoded, which has no effect.
func (d *decoder) decodeFields(p []byte) error {
	if len(p) <= maxCopiedBlock {
		return d.decodeCopy(p)
	}
	if err := d.decodeInput(p); err != nil {
		return err
	}
	d.hpack.SetEmitEnabled(false)
	defer d.hpack.SetEmitEnabled(true)
	const methodGet = 0x80 | 2 // an indexed field (RFC 7541 section 6.1)
	return d.decodeCopy([]byte{methodGet})
}

func (d *decoder) decodeCopy(p []byte) error {
	d.scratch = append(d.scratch[:0], p...)
	return d.decodeInput(d.scratch)
}

func (d *decoder) decodeInput(p []byte) error {
	if _, err := d.hpack.Write(p); err != nil {
		return err
	}
	return d.hpack.Close()
}

func (d *decoder) addField(f hpack.HeaderField) {
	d.block.size += f.Size()
	if d.block.size > d.maxList {
		// Drop the field, but continue decoding to keep the dynamic table correct.
		d.block.TooLarge = true
		return
	}
	d.block.check.add(f)
	d.block.Rest = append(d.block.Rest, f)
}

// indexedPrefix counts the one-byte indexed fields (RFC 7541 section 6.1) at the start of block.
func indexedPrefix(block []byte) int {
	for i, b := range block {
		if b < 0x80 || b == 0xff {
			return i
		}
	}
	return len(block)
}

// changesTable reports whether a block changes the dynamic table, or is invalid.
func changesTable(block []byte) bool {
	kinds, err := scanBlock(block)
	return err != nil || kinds&(kindInsert|kindResize) != 0
}

type fieldKinds uint8

const (
	kindInsert fieldKinds = 1 << iota
	kindResize
	kindSensitive // must not enter a table, so the block is not cached
)

var errShortBlock = errors.New("http2: the header block ends within a field")

// scanBlock returns the kinds of fields in a block (RFC 7541 section 6) without decoding them.
func scanBlock(p []byte) (kinds fieldKinds, err error) {
	for len(p) > 0 {
		prefix := uint8(4)
		var index uint64
		first := p[0]
		switch {
		case first&0x80 != 0:
			prefix = 7
		case first&0x40 != 0:
			kinds, prefix = kinds|kindInsert, 6
		case first&0x20 != 0:
			kinds, prefix = kinds|kindResize, 5
		case first&0x10 != 0:
			kinds |= kindSensitive
		}
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
			var n uint64
			if n, p, err = scanInt(p, 7); err != nil {
				return kinds, err
			}
			if n > uint64(len(p)) {
				return kinds, errShortBlock
			}
			p = p[n:]
		}
	}
	return kinds, nil
}

// scanInt reads an integer with an n-bit prefix (RFC 7541 section 5.1) and at most ten bytes.
func scanInt(p []byte, n uint8) (uint64, []byte, error) {
	if len(p) == 0 {
		return 0, nil, errShortBlock
	}
	limit := uint64(1)<<n - 1
	v := uint64(p[0]) & limit
	p = p[1:]
	if v < limit {
		return v, p, nil
	}
	for shift := 0; shift < 63; shift += 7 {
		if len(p) == 0 {
			return 0, nil, errShortBlock
		}
		b := p[0]
		p = p[1:]
		v += uint64(b&0x7f) << shift
		if b < 0x80 {
			return v, p, nil
		}
	}
	return 0, nil, errShortBlock
}
