package h2

import "errors"

// fragments hold the fragments of an incomplete header block. Their memory is little more than the
// bytes that have come, because at most one piece has room left. A single growing slice would have
// more room, and would leave garbage of several times its length.
type fragments struct {
	pieces [][]byte // all but the last are full
	length int      // bytes in all pieces
}

// pieceLength is the capacity of all pieces but the first, which is as long as its fragment.
const pieceLength = 16 << 10

// add appends a copy of a fragment.
func (f *fragments) add(fragment []byte) {
	f.length += len(fragment)
	if n := len(f.pieces); n > 0 {
		last := &f.pieces[n-1]
		room := min(cap(*last)-len(*last), len(fragment))
		*last = append(*last, fragment[:room]...)
		fragment = fragment[room:]
	}
	for len(fragment) > 0 {
		n := min(pieceLength, len(fragment))
		size := pieceLength
		if f.pieces == nil {
			size = n
		}
		f.pieces = append(f.pieces, append(make([]byte, 0, size), fragment[:n]...))
		fragment = fragment[n:]
	}
}

// decodeFragments decodes a block. It frees each piece when the fields in it are decoded, so that the
// block takes little memory beside its fields. It joins a field that several pieces hold.
func (d *decoder) decodeFragments(f *fragments) (*Block, error) {
	defer d.dropInput()
	d.reset(nil, f.length)
	left := f.length   // bytes that are not decoded
	var joined []byte  // the start of a field
	least := 0         // the least length of that field
	var all fieldKinds // kinds of all fields
	for i, piece := range f.pieces {
		f.pieces[i] = nil
		for len(piece) > 0 {
			next := piece
			piece = nil
			joining := len(joined) > 0
			if joining {
				n := min(least-len(joined), len(next))
				joined = append(joined, next[:n]...)
				next, piece = joined, next[n:]
			}
			whole, n, kinds, err := scanFields(next)
			if errors.Is(err, errLongInt) {
				return nil, err
			}
			all |= kinds
			if _, err := d.hpack.Write(next[:whole]); err != nil {
				return nil, err
			}
			left -= whole
			least = n
			size := min(least, left)
			if joining && whole == 0 && size <= cap(joined) {
				continue // do not copy a long field onto itself once per piece
			}
			if size > cap(joined) {
				joined = make([]byte, 0, size)
			}
			joined = append(joined[:0], next[whole:]...)
		}
	}
	*f = fragments{}
	if len(joined) > 0 {
		return nil, errShortBlock
	}
	d.clearIfChanged(all)
	return &d.block, d.hpack.Close()
}
