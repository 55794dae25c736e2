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
	// abandoned means that somebody may hold a part of it: it is not used again.
	abandoned atomic.Bool
	audit     *atomic.Int64 // counts buffers in use, for tests; or nil
	kept      *atomic.Int64 // counts the memory that a connection's peer makes it keep; or nil
	// lent is where a waiting reader leaves its reference, if it has read into the buffer.
	lent *atomic.Pointer[buffer]
}

// bufferCost is what a buffer costs beyond its memory: itself and its place in a queue.
const bufferCost = 256

// bufferSizes leave 128 bytes above each power of two for the prefix and field tags of
// a message with that much content.
var bufferSizes = [...]int{512, 4<<10 + 128, 16<<10 + 128, 32<<10 + 128, 64<<10 + 128, 256<<10 + 128, 512<<10 + 128, 1<<20 + 128, 4<<20 + 128}

var bufferPools [len(bufferSizes)]sync.Pool

// buffersOut counts the buffers in use, if a test sets it.
var buffersOut atomic.Pointer[atomic.Int64]

// newBuffer returns a buffer of length n with one reference.
func newBuffer(n int) *buffer {
	for class, size := range bufferSizes {
		if n > size {
			continue
		}
		audit := buffersOut.Load()
		if audit != nil {
			audit.Add(1)
		}
		b, _ := bufferPools[class].Get().(*buffer)
		if b == nil {
			b = &buffer{data: make([]byte, size), class: int8(class)}
		}
		b.data, b.audit = b.data[:n], audit
		b.refs.Store(1)
		return b
	}
	return newExactBuffer(n)
}

// newExactBuffer is newBuffer without room to spare, which is not pooled.
func newExactBuffer(n int) *buffer {
	b := &buffer{data: make([]byte, n), class: -1, audit: buffersOut.Load()}
	if b.audit != nil {
		b.audit.Add(1)
	}
	b.refs.Store(1)
	return b
}

// keep counts the buffer in kept until it is released.
func (b *buffer) keep(kept *atomic.Int64) {
	if b.kept == nil {
		b.kept = kept
		kept.Add(b.cost())
	}
}

func (b *buffer) cost() int64 { return int64(cap(b.data)) + bufferCost }

// retain adds a reference.
func (b *buffer) retain() { b.refs.Add(1) }

// isShared reports whether the buffer has more than one reference, or was abandoned.
func (b *buffer) isShared() bool { return b.refs.Load() > 1 || b.abandoned.Load() }

// abandon drops a reference and leaves the memory to the garbage collector.
func (b *buffer) abandon() {
	b.abandoned.Store(true)
	b.Release()
}

// Release drops a reference; dropping the last one returns the memory to its pool.
func (b *buffer) Release() {
	lent := b.lent
	switch n := b.refs.Add(-1); {
	case n == 1 && lent != nil && lent.CompareAndSwap(b, nil):
		b.Release() // the reader's
		return
	case n > 0:
		return
	case n < 0:
		panic("fastgrpc: buffer released twice")
	}
	if b.audit != nil {
		b.audit.Add(-1)
		b.audit = nil
	}
	if b.kept != nil {
		b.kept.Add(-b.cost())
		b.kept = nil
	}
	b.lent = nil
	if b.class >= 0 && !b.abandoned.Load() {
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
