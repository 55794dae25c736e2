package h2

import (
	"bytes"
	"errors"
	"io"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// memoryOf returns the bytes that are live after f, and the bytes that f allocates, as they differ
// from before.
func memoryOf(f func()) (live, allocated int64) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // the second one empties the pools
	runtime.ReadMemStats(&before)
	f()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return int64(after.HeapAlloc) - int64(before.HeapAlloc), int64(after.TotalAlloc) - int64(before.TotalAlloc)
}

var longHeaderConfig = func() Config {
	cfg := testConfig
	cfg.MaxHeaderList, cfg.MaxFrameSize, cfg.MemoryLimit = 16<<20, 128<<10, 64<<20
	return cfg
}()

// TestIncompleteBlocksCostTheirBytes checks that a header block without an end costs the bytes that
// have come, that it leaves no garbage, and that it costs no more than in x/net's Framer, which
// grpc-go uses.
func TestIncompleteBlocksCostTheirBytes(t *testing.T) {
	longValue := append(requestBlock(), 0, 1, 'x', 0x7f, 0x81, 0xff, 0xff, 0x06) // its length is 14 MiB
	field := appendLiteral(nil, hpack.HeaderField{Name: "abcdef", Value: "abcdefg"})
	for _, c := range []struct {
		name        string
		first, more []byte // the HEADERS frame's fragment, and the fragment of each CONTINUATION frame
		length      int    // of all CONTINUATION frames
	}{
		{"one value in frames of 16 KiB", longValue, bytes.Repeat([]byte{'x'}, 16<<10), 2 << 20},
		{"one value in frames of 1 KiB", longValue, bytes.Repeat([]byte{'x'}, 1<<10), 2 << 20},
		{"one value in frames of 17,000 bytes", longValue, bytes.Repeat([]byte{'x'}, 17_000), 2 << 20},
		{"one value in frames of 128 KiB", longValue, bytes.Repeat([]byte{'x'}, 128<<10), 2 << 20},
		{"short fields", requestBlock(), bytes.Repeat(field, 1<<10), 2 << 20},
		{"indexed fields", requestBlock(), bytes.Repeat([]byte{0x82}, 16<<10), 128 << 10},
	} {
		t.Run(c.name, func(t *testing.T) {
			const conns, slack = 8, 32 << 10
			first, more := frame(http2.FrameHeaders, 0, 1, c.first...), frame(http2.FrameContinuation, 0, 1, c.more...)
			count := c.length / len(c.more)
			servers := make([]*recorder, conns)
			for i := range servers {
				servers[i] = newServer(t, longHeaderConfig)
			}
			live, allocated := memoryOf(func() {
				for _, r := range servers {
					feed(t, r, first)
					for range count {
						feed(t, r, more)
					}
				}
			})
			sent := int64(conns * (len(c.first) + count*len(c.more)))
			if most := sent + conns*slack; live < sent/2 || live > most || allocated > most {
				t.Errorf("%d bytes use %d bytes and allocate %d, want at most %d", sent, live, allocated, most)
			}
			framers := framersWaiting(t, conns, first, more, count)
			t.Logf("memory per byte: %.2f; in x/net's Framer: %.2f", float64(live)/float64(sent), float64(framers)/float64(sent))
			if live > framers+conns*slack {
				t.Errorf("%d bytes use %d bytes; in x/net's Framer: %d", sent, live, framers)
			}
			after, _ := memoryOf(func() {
				for _, r := range servers {
					r.conn.DropStreams(func(*Stream) {})
				}
			})
			if after > -sent+conns*slack {
				t.Errorf("the end of the connections freed %d of %d bytes", -after, sent)
			}
			runtime.KeepAlive(servers)
		})
	}
}

// framersWaiting returns the memory of n Framers that have read a first frame, and count times
// another one, and wait for the next.
func framersWaiting(t *testing.T, n int, first, more []byte, count int) int64 {
	end := make(chan struct{})
	var reading, waiting sync.WaitGroup
	live, _ := memoryOf(func() {
		for range n {
			waiting.Add(1)
			fr := http2.NewFramer(io.Discard, &frameSource{next: first, more: more, count: count, waiting: waiting.Done, end: end})
			fr.SetReuseFrames()
			fr.ReadMetaHeaders = hpack.NewDecoder(defaultHeaderTable, nil)
			reading.Go(func() {
				if f, err := fr.ReadFrame(); err != io.EOF { //nolint:errorlint // ReadFrame returns the reader's error as it is
					t.Errorf("the Framer read %v, %v", f, err)
				}
			})
		}
		waiting.Wait()
	})
	close(end)
	reading.Wait()
	return live
}

// A frameSource is a Reader of a first frame and count others. Then it waits for end.
type frameSource struct {
	next, more []byte
	count      int
	waiting    func()
	end        chan struct{}
}

func (s *frameSource) Read(p []byte) (int, error) {
	if len(s.next) == 0 && s.count == 0 {
		s.waiting()
		<-s.end
		return 0, io.EOF
	}
	if len(s.next) == 0 {
		s.next = s.more
		s.count--
	}
	n := copy(p, s.next)
	s.next = s.next[n:]
	return n, nil
}

// TestLongBlocksAreFreed checks the memory of a long block that is complete: while the Handler gets
// its fields, and after its stream has ended.
func TestLongBlocksAreFreed(t *testing.T) {
	const length = 3 << 20
	for _, c := range []struct {
		name      string
		fields    []hpack.HeaderField
		allocated int64 // the most bytes, in multiples of length
	}{
		{"one field", []hpack.HeaderField{{Name: "big", Value: strings.Repeat("x", length)}}, 3}, // the pieces, the joined field and its value
		{"many fields", slices.Repeat([]hpack.HeaderField{{Name: "some", Value: strings.Repeat("x", 8000)}}, length/8000), 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newServer(t, longHeaderConfig)
			h := &heapReader{recorder: r}
			r.conn.handler = h
			table := []byte{0x40, 1, 'a', 1, 'b'} // enters the dynamic table
			feed(t, r, frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 1, append(requestBlock(), table...)...))
			request := blockInFrames(3, appendLiterals(requestBlock(), c.fields))
			before := heapBytes()
			live, allocated := memoryOf(func() {
				feed(t, r, request)
				r.conn.Reset(r.streams[1], http2.ErrCodeCancel)
				r.conn.Release(r.streams[1])
			})
			const slack = 512 << 10
			if during := h.during - before; during < length/2 || during > length+slack {
				t.Errorf("%d bytes use %d bytes when their fields are delivered", length, during)
			}
			if live > slack || allocated > c.allocated*length+slack {
				t.Errorf("afterwards, %d bytes are kept, and %d were allocated", live, allocated)
			}
			// The decoder's table and state are right: a block may begin with a new size of the table.
			feed(t, r, frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders, 5, append([]byte{0x3f, 0xe1, 0x07}, append(requestBlock(), 0xbe)...)...))
			if got := r.events[len(r.events)-1]; got != "headers 5 5 fields end=false" {
				t.Errorf("after the long block: %s", got)
			}
		})
	}
}

// TestEndlessInteger checks that a field whose length is an endless integer ends the connection, and
// does so without scanning the block again for each byte.
func TestEndlessInteger(t *testing.T) {
	d := newDecoder(1 << 20)
	var f fragments
	f.add([]byte{0x82, 0x00, 0x7f})
	for range 1 << 10 {
		f.add(bytes.Repeat([]byte{0xff}, 1<<10))
	}
	if _, err := d.decodeFragments(&f); !errors.Is(err, errLongInt) {
		t.Errorf("the decoder returned %v", err)
	}
}

// FuzzFragments compares blocks that are decoded in pieces with plain HPACK.
func FuzzFragments(f *testing.F) {
	long := appendLiteral(requestBlock(), hpack.HeaderField{Name: "long", Value: strings.Repeat("x", 300)})
	f.Add(long, []byte{1})
	f.Add(append([]byte{0x3f, 0xe1, 0x07}, long...), []byte{3, 100})
	f.Add([]byte{0x40, 1, 'a', 1, 'b', 0xbe, 0x10, 1, 'k', 1, 'v'}, []byte{2, 5})
	f.Add([]byte{0x00, 0x7f, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x01}, []byte{4})
	f.Add([]byte{0x00, 1, 'a', 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f, 'b'}, []byte{3})
	f.Fuzz(func(t *testing.T, block, sizes []byte) {
		d := newDecoder(1 << 20)
		var want []hpack.HeaderField
		plain := hpack.NewDecoder(defaultHeaderTable, func(h hpack.HeaderField) { want = append(want, h) })
		for i := range 3 {
			want = nil
			_, plainErr := plain.Write(block)
			if plainErr == nil {
				plainErr = plain.Close()
			}
			got, err := d.decodeFragments(cutFragments(block, sizes))
			if (err == nil) != (plainErr == nil) {
				t.Fatalf("round %d: %v, plain HPACK %v", i, err, plainErr)
			}
			if err != nil {
				return
			}
			if !slices.Equal(got.Rest, want) || got.Fixed != nil || got.WireLength != len(block) {
				t.Fatalf("round %d: %v of %d bytes, want %v", i, got.Rest, got.WireLength, want)
			}
		}
	})
}

// cutFragments cuts a block into pieces of the given sizes, which repeat.
func cutFragments(block, sizes []byte) *fragments {
	f := &fragments{length: len(block)}
	for i := 0; len(block) > 0; i++ {
		n := len(block)
		if len(sizes) > 0 {
			n = min(n, 1+int(sizes[i%len(sizes)]))
		}
		f.pieces = append(f.pieces, block[:n:n])
		block = block[n:]
	}
	return f
}

// A heapReader reads the size of the heap when it gets a long block.
type heapReader struct {
	*recorder
	during int64
}

func (h *heapReader) OnHeaders(s *Stream, block *Block, end bool) {
	if block.WireLength > 1<<20 {
		h.during = heapBytes()
	}
	h.recorder.OnHeaders(s, block, end)
}

// blockInFrames returns a request's block in a HEADERS frame and CONTINUATION frames of 16 KiB.
func blockInFrames(id uint32, block []byte) []byte {
	const length = 16 << 10
	out := frame(http2.FrameHeaders, http2.FlagHeadersEndStream, id, block[:length]...)
	for block = block[length:]; len(block) > length; block = block[length:] {
		out = append(out, frame(http2.FrameContinuation, 0, id, block[:length]...)...)
	}
	return append(out, frame(http2.FrameContinuation, http2.FlagHeadersEndHeaders, id, block...)...)
}
