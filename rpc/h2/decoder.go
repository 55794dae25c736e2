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
	kinds := scanBlock(rest)
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
	if !d.clearIfChanged(kinds) && whole && d.hasSeen(block) {
		d.cache(block, d.newSet())
	}
	return &d.block, nil
}

// clearIfChanged clears the cache if a block with fields of these kinds has changed the dynamic table.
func (d *decoder) clearIfChanged(kinds fieldKinds) bool {
	if kinds&kindChanges == 0 {
		return false
	}
	clear(d.sets)
	clear(d.recent[:])
	d.cost = 0
	return true
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

// decodeFields decodes p, which holds whole fields, to the block's end.
func (d *decoder) decodeFields(p []byte) error {
	if long := len(p) > maxCopiedBlock; long {
		defer d.dropInput()
	} else {
		d.scratch = append(d.scratch[:0], p...)
		p = d.scratch
	}
	if _, err := d.hpack.Write(p); err != nil {
		return err
	}
	return d.hpack.Close()
}

// dropInput makes the HPACK decoder drop its reference to its last input. It decodes an indexed
// field, which has no effect. Copying a short input costs less.
func (d *decoder) dropInput() {
	const methodGet = 0x80 | 2 // RFC 7541 section 6.1
	d.scratch = append(d.scratch[:0], methodGet)
	d.hpack.SetEmitEnabled(false)
	_, _ = d.hpack.Write(d.scratch) // after an error, the connection ends anyway
	_ = d.hpack.Close()
	d.hpack.SetEmitEnabled(true)
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

type fieldKinds uint8

const (
	kindInsert fieldKinds = 1 << iota
	kindResize
	kindSensitive                           // must not enter a table, so the block is not cached
	kindChanges   = kindInsert | kindResize // the block changes the dynamic table
)

var (
	errShortBlock = errors.New("http2: the header block ends within a field")
	errLongInt    = errors.New("http2: an integer in the header block is too long")
)

// scanBlock returns the kinds of fields in a block without decoding them. An invalid block, which the
// HPACK decoder will refuse, has kindChanges.
func scanBlock(p []byte) fieldKinds {
	_, _, kinds, err := scanFields(p)
	if err != nil {
		kinds |= kindChanges
	}
	return kinds
}

// scanFields scans the fields in p. whole is the length of the whole fields at the start of p. If p
// ends within the next field, err is errShortBlock, and that field has at least the length next.
func scanFields(p []byte) (whole, next int, kinds fieldKinds, err error) {
	for whole < len(p) {
		kind, n, err := scanField(p[whole:])
		kinds |= kind
		if err != nil {
			return whole, n, kinds, err
		}
		whole += n
	}
	return whole, 0, kinds, nil
}

// maxScanned limits the lengths that scanField returns.
const maxScanned = 1 << 30

// scanField returns the kind and the length of the field at the start of p (RFC 7541 section 6). If
// the error is errShortBlock, the length is the least one that the field has.
func scanField(p []byte) (kind fieldKinds, length int, err error) {
	prefix := uint8(4)
	first := p[0]
	switch {
	case first&0x80 != 0:
		prefix = 7
	case first&0x40 != 0:
		kind, prefix = kindInsert, 6
	case first&0x20 != 0:
		kind, prefix = kindResize, 5
	case first&0x10 != 0:
		kind = kindSensitive
	}
	index, rest, err := scanInt(p, prefix)
	if err != nil {
		return kind, len(p) + 1, err
	}
	strings := 1
	switch {
	case first&0x80 != 0 || first&0xe0 == 0x20:
		strings = 0
	case index == 0:
		strings = 2
	}
	for ; strings > 0; strings-- {
		var n uint64
		if n, rest, err = scanInt(rest, 7); err != nil {
			return kind, len(p) + 1, err
		}
		if n > uint64(len(rest)) {
			return kind, len(p) - len(rest) + int(min(n, maxScanned)), errShortBlock
		}
		rest = rest[n:]
	}
	return kind, len(p) - len(rest), nil
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
	return 0, nil, errLongInt
}
