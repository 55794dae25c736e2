package batchio

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
)

// TestUnreadAnswersStopTheReader has a peer send without reading. The Conn must stop reading
// while too many answers wait, and answer everything once the peer reads.
func TestUnreadAnswersStopTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const frames, length = 2000, 4 << 10
		near, far := net.Pipe()
		var running sync.WaitGroup
		m := serveEcho(far, &running)
		one := frame(bytes.Repeat([]byte{7}, length))
		sent := 0
		go func() { // ends when all is read, or with near
			for range frames {
				if _, err := near.Write(one); err != nil {
					return
				}
				sent++
			}
		}()
		synctest.Wait() // until nothing goes on any more
		m.conn.Mu.Lock()
		if most := longestFrame + fullChunk; !m.conn.throttled || m.Pending() > most {
			t.Errorf("throttled: %v, and %d bytes wait, at most %d may", m.conn.throttled, m.Pending(), most)
		}
		m.conn.Mu.Unlock()
		if sent == frames {
			t.Error("all frames were read although no answer was")
		}
		got := make([]byte, len(one))
		for i := range frames {
			if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, one) {
				t.Fatalf("answer %d of %d: %v", i, frames, err)
			}
		}
		_ = near.Close()
		running.Wait()
	})
}

// TestLostWhileThrottled ends a connection whose reader waits.
func TestLostWhileThrottled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		near, far := net.Pipe()
		var running sync.WaitGroup
		m := serveEcho(far, &running)
		go func() { // ends with near
			for _, err := near.Write(frame(make([]byte, 4<<10))); err == nil; {
				_, err = near.Write(frame(make([]byte, 4<<10)))
			}
		}()
		synctest.Wait()
		m.conn.Close(io.ErrUnexpectedEOF)
		running.Wait() // synctest reports a deadlock if it waits for ever
		_ = near.Close()
	})
}

// TestCallersLeaveTheRest has a caller write a batch that the socket does not take at once.
// The writer must write the rest.
func TestCallersLeaveTheRest(t *testing.T) {
	near, far := tcpPair(t)
	var running sync.WaitGroup
	m := serveEcho(far, &running)
	const calls = 4096 // beyond the memory of both sockets
	payload := bytes.Repeat([]byte{3}, MinReferenceLen-1)
	lockParked(m.conn)
	for range calls {
		m.answer(payload)
	}
	m.conn.FlushBatch()
	if left := m.conn.unwritten; m.conn.writer != nil && (left == nil || left.Len() == 0) {
		t.Error("the caller wrote everything, or left nothing for the writer")
	}
	m.conn.Mu.Unlock()
	got, want := make([]byte, echoHeader+len(payload)), frame(payload)
	for i := range calls {
		if _, err := io.ReadFull(near, got); err != nil || !bytes.Equal(got, want) {
			t.Fatalf("answer %d of %d: %v", i, calls, err)
		}
	}
	_ = near.Close()
	running.Wait()
}
