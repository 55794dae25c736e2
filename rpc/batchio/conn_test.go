package batchio

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

func frame(payload []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(payload))), payload...)
}

// echoed sends frames and checks that they come back in order.
func echoed(t *testing.T, nc net.Conn, lengths ...int) {
	t.Helper()
	var all []byte
	for i, n := range lengths {
		all = append(all, frame(bytes.Repeat([]byte{byte(i + 1)}, n))...)
	}
	go func() { _, _ = nc.Write(all) }() // ends when it is read, or with nc
	got := make([]byte, len(all))
	if _, err := io.ReadFull(nc, got); err != nil || !bytes.Equal(got, all) {
		t.Fatalf("frames of %v bytes were not echoed: %v", lengths, err)
	}
}

// tcpPair returns both ends of a connection.
func tcpPair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lis.Close() }()
	if near, err = net.Dial("tcp", lis.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = lis.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = near.Close(), far.Close() })
	return near, far
}

// TestFramesOfAllLengths checks that frames arrive whole that begin anywhere in a chunk,
// outgrow it or retain it, on a socket and on a connection without one, and that all
// memory is released in the end.
func TestFramesOfAllLengths(t *testing.T) {
	for name, pair := range map[string]func() (near, far net.Conn){
		"socket": func() (net.Conn, net.Conn) { return tcpPair(t) },
		"pipe":   net.Pipe,
	} {
		t.Run(name, func(t *testing.T) {
			out := new(atomic.Int64)
			CountBuffers(out)
			defer CountBuffers(nil)
			near, far := pair()
			var running sync.WaitGroup
			m := serveEcho(far, &running)
			echoed(t, near, 0, 1, 100, restChunk, firstChunk-10, firstChunk, 3*firstChunk, 1, fullChunk+1)
			for range 2 * shrinkAfter {
				echoed(t, near, 5)
			}
			echoed(t, near, MinReferenceLen, 1, 200<<10, 2, MinReferenceLen-1)
			_ = near.Close()
			<-m.gone
			running.Wait()
			if n := out.Load(); n != 0 {
				t.Errorf("%d buffers were not released", n)
			}
			if m.lost == nil {
				t.Error("the end was not reported")
			}
		})
	}
}

// TestCloseWritesWhatIsQueued checks it, and that Close's reason is the one reported.
func TestCloseWritesWhatIsQueued(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		var running sync.WaitGroup
		m := serveEcho(far, &running)
		why := errors.New("enough")
		m.conn.Mu.Lock()
		m.answer([]byte("last words"))
		m.conn.CloseLocked(why)
		m.conn.Mu.Unlock()
		m.conn.Close(io.EOF) // too late to be the reason
		got, err := io.ReadAll(near)
		if want := frame([]byte("last words")); err != nil || !bytes.Equal(got, want) {
			t.Errorf("read %q (%v), want %q", got, err, want)
		}
		running.Wait()
		if !errors.Is(m.lost, why) {
			t.Errorf("ended with %v, want %v", m.lost, why)
		}
	})
}

// TestSilentPeerCannotHoldTheEnd checks that the last write is given up.
func TestSilentPeerCannotHoldTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		defer func() { _ = near.Close() }()
		var running sync.WaitGroup
		m := serveEcho(far, &running)
		m.conn.Mu.Lock()
		m.answer([]byte("nobody reads this"))
		m.conn.CloseLocked(io.EOF)
		m.conn.Mu.Unlock()
		running.Wait() // synctest reports a deadlock if it waits for ever
	})
}

// TestBadFrameEndsConnection checks that the machine's error is the reason.
func TestBadFrameEndsConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		var running sync.WaitGroup
		m := serveEcho(far, &running)
		if _, err := near.Write([]byte{0xff, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		running.Wait()
		if !errors.Is(m.lost, errTooLong) {
			t.Errorf("ended with %v, want %v", m.lost, errTooLong)
		}
	})
}

// TestBatches checks that frames queued under one lock go in one write, which the caller
// makes if they are enough, or if the call is alone, and there is a socket.
func TestBatches(t *testing.T) {
	near, far := tcpPair(t)
	var running sync.WaitGroup
	m := serveEcho(far, &running)
	c := m.conn
	for _, calls := range []int{1, minBatch - 1, minBatch, 10 * minBatch} {
		lockParked(c)
		before := c.Counters.Writes
		for range calls {
			m.answer([]byte("some"))
		}
		c.FlushBatch()
		byCaller := c.Counters.Writes - before
		c.Mu.Unlock()
		if _, err := io.ReadFull(near, make([]byte, calls*len(frame([]byte("some"))))); err != nil {
			t.Fatal(err)
		}
		want := uint64(0)
		if (calls == 1 || calls >= minBatch) && c.writer != nil {
			want = 1
		}
		if byCaller != want {
			t.Errorf("%d calls: %d writes by the caller, want %d", calls, byCaller, want)
		}
	}
	_ = near.Close()
	running.Wait()
	if c.Counters.Writes != 4 || c.Counters.BytesOut != uint64((2*minBatch+10*minBatch)*len(frame([]byte("some")))) {
		t.Errorf("counted %+v, want 4 writes", c.Counters)
	}
}

// TestLoneCallersWrite checks that a call that is alone is written by its caller, if the calls before it
// were alone, too. A new connection has had no other calls.
func TestLoneCallersWrite(t *testing.T) {
	near, far := tcpPair(t)
	var running sync.WaitGroup
	m := serveEcho(far, &running)
	c := m.conn
	writtenByCaller := func(calls int) bool {
		lockParked(c)
		before := c.Counters.Writes
		for range calls {
			m.answer([]byte("some"))
		}
		c.FlushBatch()
		byCaller := c.Counters.Writes > before
		c.Mu.Unlock()
		if _, err := io.ReadFull(near, make([]byte, calls*len(frame([]byte("some"))))); err != nil {
			t.Fatal(err)
		}
		return byCaller
	}
	for round := range 2 {
		for i := range 2 * minSoloWrites {
			if got, want := writtenByCaller(1), (round == 0 || i >= minSoloWrites) && c.writer != nil; got != want {
				t.Errorf("round %d, call %d: the caller wrote: %v, want %v", round, i, got, want)
			}
		}
		if writtenByCaller(2) {
			t.Error("two calls are not alone, but a caller wrote them")
		}
	}
	_ = near.Close()
	running.Wait()
}

// lockParked locks c when its writer waits.
func lockParked(c *Conn) {
	for c.Mu.Lock(); !c.parked; c.Mu.Lock() {
		c.Mu.Unlock()
		runtime.Gosched()
	}
}

// TestSum checks that no counter is left out.
func TestSum(t *testing.T) {
	one := Counters{1, 2, 3, 4, 5, 6, 7}
	if got, want := Sum(one, one), (Counters{2, 4, 6, 8, 10, 12, 14}); got != want {
		t.Errorf("the sum is %+v, want %+v", got, want)
	}
}
