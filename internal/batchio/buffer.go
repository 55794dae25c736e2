package batchio

import (
	"sync"
	"sync/atomic"
)

// Buffer is pooled, reference-counted memory. It holds a message being sent or
// assembled, or a chunk that a connection reads into.
type Buffer struct {
	Data  []byte
	Plain int  // the length of an encoded message before compression, for its encoder
	class int8 // index into bufferSizes; -1 is not pooled
	refs  atomic.Int32
	// abandoned means that somebody may hold a part of it: it is not used again.
	abandoned atomic.Bool
	audit     *atomic.Int64 // counts buffers in use, for tests; or nil
	kept      *atomic.Int64 // counts the memory that a connection's peer makes it keep; or nil
	// lent is where a waiting reader leaves its reference, if it has read into the buffer.
	lent *atomic.Pointer[Buffer]
}

// bufferCost is what a buffer costs beyond its memory: itself and its place in a queue.
const bufferCost = 256

// bufferSizes leave 128 bytes above each power of two for the prefix and field tags of
// a message with that much content.
var bufferSizes = [...]int{512, 4<<10 + 128, 16<<10 + 128, 32<<10 + 128, 64<<10 + 128, 256<<10 + 128, 512<<10 + 128, 1<<20 + 128, 4<<20 + 128}

var bufferPools [len(bufferSizes)]sync.Pool

// buffersOut counts the buffers in use, if a test sets it.
var buffersOut atomic.Pointer[atomic.Int64]

// CountBuffers makes the buffers that are taken from now on count in out while they are
// in use, for tests. nil ends it.
func CountBuffers(out *atomic.Int64) { buffersOut.Store(out) }

// NewBuffer returns a buffer of length n with one reference.
func NewBuffer(n int) *Buffer {
	for class, size := range bufferSizes {
		if n > size {
			continue
		}
		audit := buffersOut.Load()
		if audit != nil {
			audit.Add(1)
		}
		b, _ := bufferPools[class].Get().(*Buffer)
		if b == nil {
			b = &Buffer{Data: make([]byte, size), class: int8(class)}
		}
		b.Data, b.audit = b.Data[:n], audit
		b.refs.Store(1)
		return b
	}
	return NewExactBuffer(n)
}

// BufferSize returns how much memory NewBuffer takes for so many bytes.
func BufferSize(n int) int {
	for _, size := range bufferSizes {
		if n <= size {
			return size
		}
	}
	return n
}

// NewExactBuffer is NewBuffer without room to spare, which is not pooled.
func NewExactBuffer(n int) *Buffer {
	b := &Buffer{Data: make([]byte, n), class: -1, audit: buffersOut.Load()}
	if b.audit != nil {
		b.audit.Add(1)
	}
	b.refs.Store(1)
	return b
}

// Keep counts the buffer in kept until it is released.
func (b *Buffer) Keep(kept *atomic.Int64) {
	if b.kept == nil {
		b.kept = kept
		kept.Add(b.cost())
	}
}

func (b *Buffer) cost() int64 { return int64(cap(b.Data)) + bufferCost }

// Retain adds a reference.
func (b *Buffer) Retain() { b.refs.Add(1) }

// IsShared reports whether the buffer has more than one reference, or was abandoned.
func (b *Buffer) IsShared() bool { return b.refs.Load() > 1 || b.abandoned.Load() }

// Abandon drops a reference and leaves the memory to the garbage collector.
func (b *Buffer) Abandon() {
	b.abandoned.Store(true)
	b.Release()
}

// Release drops a reference; dropping the last one returns the memory to its pool.
func (b *Buffer) Release() {
	lent := b.lent
	switch n := b.refs.Add(-1); {
	case n == 1 && lent != nil && lent.CompareAndSwap(b, nil):
		b.Release() // the reader's
		return
	case n > 0:
		return
	case n < 0:
		panic("batchio: buffer released twice")
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

// SetData sets the buffer's memory to data, which an append may have reallocated.
func (b *Buffer) SetData(data []byte) {
	if cap(data) != cap(b.Data) {
		b.class = -1
	}
	b.Data = data
}
