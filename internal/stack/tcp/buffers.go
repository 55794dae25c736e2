package tcp

// shelf keeps the buffers of one connection between frames. It is the whole
// difference between buffers=pooled and buffers=fresh: the latter is the nil
// shelf, which has nothing to give and keeps nothing.
//
// A buffer stays as large as the largest frame it held; a connection that moved
// one large message keeps that memory until it ends. Any goroutine may use a
// shelf.
type shelf chan []byte

// shelfBuffers is as many as a connection has in use at most: the stream's
// window, one that is being read, one that is being written, one in the
// handler's hands.
const shelfBuffers = streamWindow + 3

func newShelf(pooled bool) shelf {
	if !pooled {
		return nil
	}
	return make(shelf, shelfBuffers)
}

// take returns an empty buffer, which may be nil.
func (s shelf) take() []byte {
	select {
	case b := <-s:
		return b[:0]
	default:
		return nil
	}
}

// put gives a buffer back. The caller must not use it any more.
func (s shelf) put(b []byte) {
	select {
	case s <- b:
	default:
	}
}
