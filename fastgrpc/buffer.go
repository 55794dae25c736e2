package fastgrpc

import (
	"sync"
	"sync/atomic"
)

// buffer is pooled, reference-counted memory. It holds a message being sent or
// assembled, or a chunk that a connection reads into.
type buffer struct {
	data  []byte
	class int8 // index into bufferSizes; -1 is not pooled
	plain int  // the length of an encoded message before compression
	refs  atomic.Int32
	kept  atomic.Bool   // somebody may hold a part of it: it is not used again
	audit *atomic.Int64 // counts buffers in use, for tests; or nil
	pins  *atomic.Int32 // counts the connection's retained chunks; or nil
}

// bufferSizes leave 128 bytes above each power of two for the prefix and field tags of
// a message with that much content.
var bufferSizes = [...]int{512, 4<<10 + 128, 16<<10 + 128, 32<<10 + 128, 64<<10 + 128, 256<<10 + 128, 512<<10 + 128, 1<<20 + 128, 4<<20 + 128}

var bufferPools [len(bufferSizes)]sync.Pool

// buffersOut counts the buffers in use, if a test sets it.
var buffersOut atomic.Pointer[atomic.Int64]

// newBuffer returns a buffer of length n with one reference.
func newBuffer(n int) *buffer {
	audit := buffersOut.Load()
	if audit != nil {
		audit.Add(1)
	}
	for class, size := range bufferSizes {
		if n > size {
			continue
		}
		b, _ := bufferPools[class].Get().(*buffer)
		if b == nil {
			b = &buffer{data: make([]byte, size), class: int8(class)}
		}
		b.data, b.audit = b.data[:n], audit
		b.refs.Store(1)
		return b
	}
	b := &buffer{data: make([]byte, n), class: -1, audit: audit}
	b.refs.Store(1)
	return b
}

// retain adds a reference.
func (b *buffer) retain() { b.refs.Add(1) }

// isShared reports whether the buffer has more than one reference, or was abandoned.
func (b *buffer) isShared() bool { return b.refs.Load() > 1 || b.kept.Load() }

// abandon drops a reference and leaves the memory to the garbage collector.
func (b *buffer) abandon() {
	b.kept.Store(true)
	b.Release()
}

// Release drops a reference; dropping the last one returns the memory to its pool.
func (b *buffer) Release() {
	switch n := b.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("fastgrpc: buffer released twice")
	}
	if b.audit != nil {
		b.audit.Add(-1)
		b.audit = nil
	}
	if b.pins != nil {
		b.pins.Add(-1)
		b.pins = nil
	}
	if b.class >= 0 && !b.kept.Load() {
		bufferPools[b.class].Put(b)
	}
}

// setData sets the buffer's memory to data, which an append may have reallocated.
func (b *buffer) setData(data []byte) {
	if cap(data) != cap(b.data) {
		b.class = -1
	}
	b.data = data
}
