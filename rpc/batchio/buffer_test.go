package batchio

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// TestKeptMemoryIsCounted keeps buffers, and waits for them to be released.
func TestKeptMemoryIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var kept Kept
		var freed atomic.Int64
		kept.Freed = func() { freed.Add(1) }
		a, b := NewBuffer(10_000), NewExactBuffer(10_000)
		a.Keep(&kept)
		a.Keep(&kept) // counts once
		b.Keep(&kept)
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

// longBufferLen is a length that the reserve keeps, which no other test uses.
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
