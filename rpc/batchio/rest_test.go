package batchio

import (
	"bytes"
	"math/rand/v2"
	"sync/atomic"
	"testing"
)

// A hand is a Conn without a socket and a reader. The test reads for it.
type hand struct{ *echoMachine }

// newHand returns a hand, which gives up its chunk before it waits or not.
func newHand(givesUp bool) hand {
	c := new(Conn)
	c.Init(nil)
	m := &echoMachine{conn: c}
	c.Attach(m, m)
	c.callsRest, c.quiet = givesUp, !givesUp
	return hand{m}
}

// deliver lets the reader read p, and then wait.
func (h hand) deliver(t *testing.T, p []byte) {
	t.Helper()
	c := h.conn
	for len(p) > 0 {
		n := copy(c.readSpace(), p)
		if n == 0 {
			t.Fatalf("no room to read %d bytes", len(p))
		}
		p = p[n:]
		if err := c.received(n); err != nil {
			t.Fatal(err)
		}
	}
	c.readSpace()
	if c.callsRest {
		c.giveUpChunk()
	}
}

// taken returns the echoed frames.
func (h hand) taken() []byte {
	out := h.TakeOutput()
	if out == nil {
		return nil
	}
	all := bytes.Join(out.Segments(), nil)
	out.Recycle()
	return all
}

// heldBytes returns the memory of the reader's buffers.
func (h hand) heldBytes() int {
	sum := 0
	for _, b := range []*Buffer{h.conn.chunk, h.conn.rest, h.conn.lent.Load()} {
		if b != nil {
			sum += cap(b.Data)
		}
	}
	return sum
}

// TestHalfFramesAreCheap checks what a waiting reader keeps for the beginning of a frame.
func TestHalfFramesAreCheap(t *testing.T) {
	whole := frame(bytes.Repeat([]byte{7}, 128<<10))
	for _, c := range []struct {
		name    string
		before  int // length of a frame that comes whole
		begin   int // number of bytes that come of the next frame
		most    int // bytes of memory of a reader that gives up its chunk
		without int // bytes of memory of another reader
	}{
		{"half a header", 0, 2, restChunk, restChunk},
		{"half a header after a call", 100, 2, restChunk, firstChunk},
		{"a length", 0, 9, restChunk, restChunk},
		{"a length after a call", 100, 9, restChunk, firstChunk},
		{"a length and 4 KB", 0, 4000, 4 << 10, 32 << 10},
		{"half a frame after 40 KB", 40_000, 8 << 10, 16 << 10, 64 << 10},
		{"half a long frame after 1 MB", 1_000_000, 60 << 10, 512 << 10, 512 << 10},
	} {
		for _, givesUp := range []bool{true, false} {
			h := newHand(givesUp)
			most := c.most
			if !givesUp {
				most = c.without
			}
			if c.before > 0 {
				h.deliver(t, frame(make([]byte, c.before)))
				h.taken()
			}
			h.deliver(t, whole[:c.begin])
			if n := h.heldBytes(); n > most+128 {
				t.Errorf("%s, gives up %v: %d bytes are held, want at most %d", c.name, givesUp, n, most)
			}
			h.deliver(t, whole[c.begin:])
			if !bytes.Equal(h.taken(), whole) {
				t.Errorf("%s, gives up %v: another frame was fed", c.name, givesUp)
			}
		}
	}
}

// TestRestsAreFed cuts frames anywhere. Some frames retain their chunk while the reader waits.
func TestRestsAreFed(t *testing.T) {
	buffers := new(atomic.Int64)
	CountBuffers(buffers)
	defer CountBuffers(nil)
	for seed := range uint64(60) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHand(seed%4 > 0)
		var sent, got []byte
		for i := range byte(100) {
			sent = append(sent, frame(bytes.Repeat([]byte{i}, random.IntN(1<<random.IntN(18))))...)
		}
		for left := sent; len(left) > 0; {
			n := min(len(left), 1+random.IntN(1<<random.IntN(18)))
			h.deliver(t, left[:n])
			left = left[n:]
			if random.IntN(3) == 0 {
				got = append(got, h.taken()...)
			}
		}
		if got = append(got, h.taken()...); !bytes.Equal(got, sent) {
			t.Fatalf("seed %d: other frames were fed", seed)
		}
		h.conn.dropAll()
		if n := buffers.Load(); n != 0 {
			t.Fatalf("seed %d: %d buffers were not released", seed, n)
		}
	}
}
