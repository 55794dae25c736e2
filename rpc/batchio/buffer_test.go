package batchio

import (
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// TestKeptMemoryIsCounted keeps buffers, and waits for them to be released.
func TestKeptMemoryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept KeptMemory
		var freed atomic.Int64
		kept.Freed = func() { freed.Add(1) }
		a, b := NewBuffer(10_000), NewExactBuffer(10_000)
		a.CountIn(&kept)
		a.CountIn(&kept) // counts once
		b.CountIn(&kept)
		if got, want := kept.Bytes(), int64(BufferSize(10_000)+10_000+2*bufferCost); got != want {
			t.Errorf("%d bytes are counted, want %d", got, want)
		}
		kept.WakeBelow(kept.Bytes()) // more than are kept when one is released
		a.Retain()
		a.Release()
		synctest.Wait()
		if n := freed.Load(); n != 0 {
			t.Errorf("Freed was called %d times before anything was freed", n)
		}
		a.Release()
		b.Release()
		synctest.Wait()
		if n := freed.Load(); n != 1 || kept.Bytes() != 0 {
			t.Errorf("Freed was called %d times, and %d bytes are left", n, kept.Bytes())
		}
	})
}

// TestAbandonedBuffersAreNotUsedAgain abandons a buffer whose memory somebody may still
// read.
func TestAbandonedBuffersAreNotUsedAgain(t *testing.T) {
	b := NewBuffer(longBufferLen)
	memory := &b.Data[0]
	b.Retain()
	b.Abandon()
	if !b.IsShared() {
		t.Error("an abandoned buffer is not treated as shared")
	}
	b.Release()
	again := NewBuffer(longBufferLen)
	defer again.Release()
	if &again.Data[0] == memory {
		t.Error("abandoned memory was used again")
	}
}

// longBufferLen is a length that the cache keeps, which no other test uses.
const longBufferLen = minLong + 12345

func TestReleasedTwice(t *testing.T) {
	b := NewExactBuffer(1)
	b.Release()
	defer func() {
		if recover() == nil {
			t.Error("a buffer was released twice without a panic")
		}
	}()
	b.Release()
}

// TestReallocatedBuffersLeaveThePools checks that a pool gets only memory of its size.
func TestReallocatedBuffersLeaveThePools(t *testing.T) {
	b := NewBuffer(100)
	b.SetData(append(b.Data, make([]byte, 1000)...))
	if b.class != -1 {
		t.Errorf("memory of %d bytes would go to the pool of %d", cap(b.Data), bufferSizes[b.class])
	}
	b.Release()
}

// TestLongBuffersOutliveCollections checks that a long buffer is used again.
func TestLongBuffersOutliveCollections(t *testing.T) {
	b := NewBuffer(20 << 20)
	memory := &b.Data[0]
	b.Release()
	longBuffers.mu.Lock()
	longBuffers.buffers[len(longBuffers.buffers)-1].since = time.Now().Add(time.Hour) // that a slow machine may take
	longBuffers.mu.Unlock()
	for range 4 { // a sync.Pool forgets after two
		runtime.GC()
	}
	again := NewBuffer(15 << 20)
	defer again.Release()
	if &again.Data[:1][0] != memory {
		t.Error("the memory is not used again")
	}
}

// TestEveryLengthIsUsedAgain takes and releases buffers of many lengths. The cache must
// not fill with buffers that nothing can use.
func TestEveryLengthIsUsedAgain(t *testing.T) {
	for n := 100_000; n < maxReserve/4; n += n / 7 {
		NewBuffer(n).Release()
		longBuffers.mu.Lock()
		before := longBuffers.bytes
		longBuffers.mu.Unlock()
		for range 100 {
			NewBuffer(n).Release()
		}
		longBuffers.mu.Lock()
		if longBuffers.bytes > before {
			t.Errorf("100 buffers of %d bytes, one at a time, left %d bytes in the reserve", n, longBuffers.bytes-before)
		}
		longBuffers.mu.Unlock()
	}
}

// TestReserveIsBounded fills a cache and lets it idle.
func TestReserveIsBounded(t *testing.T) {
	var r longBufferCache
	for range 20 {
		r.put(&Buffer{Data: make([]byte, 5<<20)})
	}
	if r.bytes > maxReserve || r.bytes < maxReserve-5<<20 || r.bytes != len(r.buffers)*5<<20 {
		t.Errorf("%d bytes in %d buffers, the limit is %d", r.bytes, len(r.buffers), maxReserve)
	}
	if b := r.take(5<<20 + 1); b != nil {
		t.Errorf("a buffer of %d bytes for more", cap(b.Data))
	}
	if b := r.take(2 << 20); b != nil {
		t.Errorf("a buffer of %d bytes for less than half", cap(b.Data))
	}
	if b := r.take(3 << 20); b == nil {
		t.Error("no buffer")
	}
	used := &r.buffers[len(r.buffers)-1]
	for i := range r.buffers {
		r.buffers[i].since = time.Now().Add(-2 * maxIdle)
	}
	used.since = time.Now().Add(time.Hour)
	r.trim()
	if len(r.buffers) != 1 || r.bytes != 5<<20 {
		t.Errorf("%d buffers and %d bytes are left, want the one that was used lately", len(r.buffers), r.bytes)
	}
}

// TestCollectionsTrimTheReserve has a program that does nothing but collect.
func TestCollectionsTrimTheReserve(t *testing.T) {
	var r longBufferCache
	r.put(&Buffer{Data: make([]byte, 1<<20)})
	r.mu.Lock()
	r.buffers[0].since = time.Now().Add(-2 * maxIdle)
	r.mu.Unlock()
	for left := 1; left > 0; runtime.Gosched() {
		runtime.GC()
		r.mu.Lock()
		left = len(r.buffers)
		r.mu.Unlock()
	}
}

// TestKeptWakes checks that Freed is called once for each wish, when it comes true.
func TestKeptWakes(t *testing.T) {
	calls := make(chan struct{}, 10)
	k := &KeptMemory{Freed: func() { calls <- struct{}{} }}
	k.Add(100)
	k.WakeBelow(50)
	k.Add(-50)
	select {
	case <-calls:
		t.Fatal("woken at the bound, not below it")
	default:
	}
	k.Add(-1)
	<-calls
	k.Add(-10)
	k.WakeBelow(40) // true already
	<-calls
	if n := len(calls); n != 0 {
		t.Errorf("woken %d times more", n)
	}
}
