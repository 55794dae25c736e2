package tcp

// bufferPool keeps the buffers of one connection between frames. It is the only
// difference between buffers=pooled and buffers=fresh: with fresh the pool is
// nil, so get returns nil and put keeps nothing.
//
// A buffer stays as large as the largest frame it held: a connection that moved
// one large message keeps that memory until it ends. Any goroutine may use a
// bufferPool.
type bufferPool chan []byte

// pooledBuffers is the most buffers that a connection uses at once: the stream's
// window, one being read, one being written and one held by the handler.
const pooledBuffers = streamWindow + 3

func newBufferPool(pooled bool) bufferPool {
	if !pooled {
		return nil
	}
	return make(bufferPool, pooledBuffers)
}

// get returns an empty buffer, which may be nil.
func (p bufferPool) get() []byte {
	select {
	case b := <-p:
		return b[:0]
	default:
		return nil
	}
}

// put returns a buffer to the pool. The caller must not use it afterwards.
func (p bufferPool) put(b []byte) {
	select {
	case p <- b:
	default:
	}
}
