package batchio

import (
	"runtime"
	"slices"
	"sync"
	"time"
)

// A reserve keeps long buffers for reuse. A sync.Pool forgets buffers that were not in use
// during two collections, and a program that passes long messages collects after every few
// messages. It would touch new memory all the time, which was measured to cost more than
// all copies of a message. Shorter buffers stay in pools, which need no lock.
type reserve struct {
	mu      sync.Mutex
	buffers []idleBuffer // the longest idle first
	bytes   int
	ticking bool // trim runs after the next collection
}

type idleBuffer struct {
	*Buffer
	since time.Time
}

const (
	// minLong is the capacity from which a buffer is long.
	minLong = 1 << 20
	// maxReserve bounds the bytes in reserve. Longer buffers are left to a sync.Pool.
	maxReserve = 64 << 20
	// maxIdle is the time that a buffer is kept without use. Garbage collections find idle
	// buffers; a program that does nothing has one every two minutes.
	maxIdle = time.Second
)

func isLong(size int) bool { return size >= minLong && size <= maxReserve }

// longBuffers is the process's only reserve.
var longBuffers reserve

// take returns a buffer of at least the size, and at most twice as long, or nil.
func (r *reserve) take(size int) *Buffer {
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

// put keeps a buffer, and forgets others if there are too many bytes.
func (r *reserve) put(b *Buffer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.buffers = append(r.buffers, idleBuffer{b, time.Now()})
	for r.bytes += cap(b.Data); r.bytes > maxReserve; {
		r.drop(0)
	}
	r.tick()
}

func (r *reserve) drop(i int) {
	r.bytes -= cap(r.buffers[i].Data)
	r.buffers = slices.Delete(r.buffers, i, i+1)
}

// tick makes trim run after the next collection.
func (r *reserve) tick() {
	if !r.ticking && len(r.buffers) > 0 {
		r.ticking = true
		runtime.AddCleanup(new([16]byte), (*reserve).trim, r)
	}
}

// trim forgets the buffers that have been idle for too long.
func (r *reserve) trim() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.buffers) > 0 && time.Since(r.buffers[0].since) > maxIdle {
		r.drop(0)
	}
	r.ticking = false
	r.tick()
}
