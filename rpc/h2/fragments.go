package h2

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

// join returns the block, which ends with the fragment last. Afterwards, f is empty.
func (f *fragments) join(last []byte) []byte {
	block := make([]byte, 0, f.length+len(last))
	for _, piece := range f.pieces {
		block = append(block, piece...)
	}
	*f = fragments{}
	return append(block, last...)
}
