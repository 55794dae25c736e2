package fastgrpc

import (
	"sync"
	"sync/atomic"
)

// buffer is pooled memory with a count of its users. Messages under way and the
// chunks that a connection reads into are buffers.
type buffer struct {
	data  []byte
	class int8 // index into bufferSizes, or -1: left to the garbage collector
	plain int  // the length of an encoded message before it was compressed
	refs  atomic.Int32
	audit *atomic.Int64 // what counts the buffer while it is in use, or nil
	// pins, where set, counts the buffers of this kind that are in use.
	pins *atomic.Int32
}

// bufferSizes leave room above a power of two for the prefix and field tags of a
// message whose content is one.
var bufferSizes = [...]int{512, 4<<10 + 128, 16<<10 + 128, 32<<10 + 128, 64<<10 + 128, 256<<10 + 128, 512<<10 + 128, 1<<20 + 128, 4<<20 + 128}

var bufferPools [len(bufferSizes)]sync.Pool

// buffersOut counts buffers got and not yet released, when a test asks for it.
var buffersOut atomic.Pointer[atomic.Int64]

// newBuffer returns a buffer of length n, held once.
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

// retain adds a user.
func (b *buffer) retain() { b.refs.Add(1) }

// shared reports whether anyone but the caller uses the buffer.
func (b *buffer) shared() bool { return b.refs.Load() > 1 }

// Release drops a user; the last one's release puts the memory back.
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
	if b.class >= 0 {
		bufferPools[b.class].Put(b)
	}
}

// adopt replaces the buffer's memory by data, which an append may have moved.
func (b *buffer) adopt(data []byte) {
	if cap(data) != cap(b.data) {
		b.class = -1
	}
	b.data = data
}
