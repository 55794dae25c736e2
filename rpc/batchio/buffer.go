package batchio

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// A Buffer is pooled, reference-counted memory. It holds a message being sent or
// assembled, or a chunk that a connection reads into.
type Buffer struct {
	Data  []byte
	Plain int  // length of the encoded message before compression
	class int8 // index into bufferSizes; -1 if the buffer is not pooled
	refs  atomic.Int32
	// abandoned means that Data may still be in use somewhere, so the buffer is not used again.
	abandoned atomic.Bool
	audit     *atomic.Int64 // for tests: counts the buffers in use; may be nil
	kept      *KeptMemory   // counts the buffer's memory for a connection; may be nil
	// lent points to Conn.lent of the connection that reads into the buffer, if there is one. A
	// waiting reader stores its reference to the buffer there.
	lent *atomic.Pointer[Buffer]
}

// bufferCost is the memory of a buffer beyond its data: its struct and its place in a queue.
const bufferCost = 256

// bufferSizes lists the sizes of pooled buffers. The 128 bytes above a power of two hold the prefix
// and the field tags of a message whose length is that power.
var bufferSizes = [...]int{512, 4<<10 + 128, 16<<10 + 128, 32<<10 + 128, 64<<10 + 128, 128<<10 + 128, 256<<10 + 128, 512<<10 + 128, 1<<20 + 128, 2<<20 + 128, 4<<20 + 128}

// longBufferClass is the class of buffers longer than all of bufferSizes. They share one pool.
const longBufferClass = len(bufferSizes)

var bufferPools [longBufferClass + 1]sync.Pool

// buffersInUse holds the counter that CountBuffers has set, or nil.
var buffersInUse atomic.Pointer[atomic.Int64]

// CountBuffers is for tests. From now on, out counts the new buffers that are in use. If out is
// nil, the counting ends.
func CountBuffers(out *atomic.Int64) { buffersInUse.Store(out) }

// NewBuffer returns a buffer of length n with one reference.
func NewBuffer(n int) *Buffer {
	class, size := classOf(n)
	var b *Buffer
	if isLong(size) {
		b = longBuffers.take(size)
	} else {
		b, _ = bufferPools[class].Get().(*Buffer)
	}
	if b == nil || cap(b.Data) < n || cap(b.Data) > 2*size {
		b = &Buffer{Data: make([]byte, size)}
	}
	return b.prepare(class, n)
}

// NewExactBuffer returns a buffer of length n that has no spare room and is not pooled.
func NewExactBuffer(n int) *Buffer { return (&Buffer{Data: make([]byte, n)}).prepare(-1, n) }

// prepare sets the length and class of a buffer, and gives it one reference.
func (b *Buffer) prepare(class, n int) *Buffer {
	b.Data, b.class, b.audit = b.Data[:n], int8(class), buffersInUse.Load()
	if b.audit != nil {
		b.audit.Add(1)
	}
	b.refs.Store(1)
	return b
}

// classOf returns the class for buffers of length n, and the size of the buffers of that class.
func classOf(n int) (class, size int) {
	for class, size := range bufferSizes {
		if n <= size {
			return class, size
		}
	}
	return longBufferClass, n
}

// BufferSize returns the size of the memory that NewBuffer takes for n bytes.
func BufferSize(n int) int {
	_, size := classOf(n)
	return size
}

// CountIn adds the buffer's memory to kept until the buffer is released.
func (b *Buffer) CountIn(kept *KeptMemory) {
	if b.kept == nil {
		b.kept = kept
		kept.Add(b.cost())
	}
}

// KeptMemory counts the bytes of memory that the received messages of a connection keep. Its
// methods may be called at any time, with any lock held.
type KeptMemory struct {
	// Freed is called as WakeBelow says, on a new goroutine. Freed may be nil.
	Freed     func()
	bytes     atomic.Int64
	wakeBelow atomic.Int64
}

// Bytes returns the number of bytes that are kept.
func (k *KeptMemory) Bytes() int64 { return k.bytes.Load() }

// Add adds n bytes, which may be negative.
func (k *KeptMemory) Add(n int64) {
	if now := k.bytes.Add(n); n < 0 {
		k.wakeIfBelow(now)
	}
}

// WakeBelow makes k call Freed once, as soon as fewer than n bytes are kept.
func (k *KeptMemory) WakeBelow(n int64) {
	k.wakeBelow.Store(n)
	k.wakeIfBelow(k.bytes.Load())
}

func (k *KeptMemory) wakeIfBelow(now int64) {
	if n := k.wakeBelow.Load(); n > now && k.Freed != nil && k.wakeBelow.CompareAndSwap(n, 0) {
		go k.Freed()
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
		b.Release() // drops the reader's reference
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
	switch {
	case b.class < 0 || b.abandoned.Load():
	case isLong(cap(b.Data)):
		longBuffers.put(b)
	default:
		bufferPools[b.class].Put(b)
	}
}

// SetData sets Data to data, which an append may have reallocated.
func (b *Buffer) SetData(data []byte) {
	if cap(data) != cap(b.Data) {
		b.class = -1
	}
	b.Data = data
}

// A longBufferCache keeps long buffers for reuse. A sync.Pool would drop buffers that were unused
// for two garbage collections, and long messages cause a collection after every few messages. The
// new buffers would cost more than all copies of a message, as a measurement showed. Shorter
// buffers stay in sync.Pools, which need no lock.
type longBufferCache struct {
	mu      sync.Mutex
	buffers []idleBuffer // unused buffers; the first one has been unused for longest
	bytes   int
	ticking bool // trim will run after the next garbage collection
}

type idleBuffer struct {
	*Buffer
	since time.Time
}

const (
	// minLong is the least capacity of a long buffer.
	minLong = 1 << 20
	// maxReserve limits the bytes in the cache. A buffer that is longer goes to a sync.Pool.
	maxReserve = 64 << 20
	// maxIdle is the time after which a garbage collection drops an unused buffer. An idle program
	// has one collection every two minutes.
	maxIdle = time.Second
)

func isLong(size int) bool { return size >= minLong && size <= maxReserve }

// longBuffers is the only longBufferCache of the process.
var longBuffers longBufferCache

// take returns a buffer whose length is between size and twice size, or nil if there is none.
func (r *longBufferCache) take(size int) *Buffer {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, idle := range slices.Backward(r.buffers) {
		if have := cap(idle.Data); have >= size && have/2 <= size {
			r.drop(i)
			return idle.Buffer
		}
	}
	return nil
}

// put adds b to the cache. If the cache then exceeds maxReserve, put drops other buffers.
func (r *longBufferCache) put(b *Buffer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffers = append(r.buffers, idleBuffer{b, time.Now()})
	for r.bytes += cap(b.Data); r.bytes > maxReserve; {
		r.drop(0)
	}
	r.scheduleTrim()
}

func (r *longBufferCache) drop(i int) {
	r.bytes -= cap(r.buffers[i].Data)
	r.buffers = slices.Delete(r.buffers, i, i+1)
}

// scheduleTrim makes trim run after the next garbage collection.
func (r *longBufferCache) scheduleTrim() {
	if !r.ticking && len(r.buffers) > 0 {
		r.ticking = true
		runtime.AddCleanup(new([16]byte), (*longBufferCache).trim, r)
	}
}

// trim drops the buffers that have been idle for too long.
func (r *longBufferCache) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffers) > 0 && time.Since(r.buffers[0].since) > maxIdle {
		r.drop(0)
	}
	r.ticking = false
	r.scheduleTrim()
}
