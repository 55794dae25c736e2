package h2

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// Each limit on what a peer may do has a twin here: the busiest peer that breaks no rule.

// TestUpdatesForContentAreFree renews both windows for each 256 bytes of long content.
func TestUpdatesForContentAreFree(t *testing.T) {
	cfg := testConfig
	cfg.ControlRate = 0
	r := newServer(t, cfg)
	feed(t, r, settingsFrame(http2.SettingMaxFrameSize, maxSentFrame), open(1, 0))
	s := r.streams[0]
	r.conn.SendHeaders(s, responseRun, nil)
	const step = 256
	update := append(frame(http2.FrameWindowUpdate, 0, 0, 0, 0, step>>8, step&0xff), frame(http2.FrameWindowUpdate, 0, 1, 0, 0, step>>8, step&0xff)...)
	for range 500 {
		r.conn.SendData(s, batchio.Payload{Data: make([]byte, 65535)}, false)
		for range 65535 / step {
			feed(t, r, update)
		}
		r.take()
	}
}

// TestLateFramesAreFree resets 5000 streams at once, each with content under way.
func TestLateFramesAreFree(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.ControlRate, cfg.MemoryLimit = 5000, 0, 64<<20
	cfg.ConnWindow = 64 << 20
	r := newServer(t, cfg)
	for i := range uint32(5000) {
		feed(t, r, open(2*i+1, 0))
	}
	for _, s := range r.streams {
		r.conn.Reset(s, http2.ErrCodeCancel)
		r.conn.Release(s)
	}
	r.take()
	for i := range uint32(5000) {
		id := 2*i + 1
		for range 4 {
			feed(t, r, frame(http2.FrameData, 0, id, make([]byte, 1000)...))
		}
		feed(t, r, frame(http2.FrameWindowUpdate, 0, id, 0, 0, 0, 1))
		switch i % 3 {
		case 0:
			feed(t, r, frame(http2.FrameData, http2.FlagDataEndStream, id))
		case 1:
			feed(t, r, frame(http2.FrameRSTStream, 0, id, 0, 0, 0, 8))
		case 2:
			feed(t, r, frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|http2.FlagHeadersEndStream, id, appendLiteral(nil, hpack.HeaderField{Name: "a", Value: "b"})...))
		}
	}
	if n := len(r.take()); n > 100 {
		t.Errorf("%d bytes answer frames that are legal", n)
	}
	if r.conn.held() > 10_000 {
		t.Errorf("%d bytes are held for streams that are gone", r.conn.held())
	}
}

// TestLongBlockInFullFrames sends the largest header list in frames of 16 KiB.
func TestLongBlockInFullFrames(t *testing.T) {
	cfg := testConfig
	cfg.MaxHeaderList, cfg.ControlRate, cfg.MemoryLimit = 4<<20, 0, 64<<20
	r := newServer(t, cfg)
	for i := range uint32(20) {
		block := appendLiteral(requestBlock(), hpack.HeaderField{Name: "big", Value: strings.Repeat("x", 3<<20)})
		id := 2*i + 1
		feed(t, r, frame(http2.FrameHeaders, http2.FlagHeadersEndStream, id))
		for ; len(block) > 1<<14; block = block[1<<14:] {
			feed(t, r, frame(http2.FrameContinuation, 0, id, block[:1<<14]...))
		}
		feed(t, r, frame(http2.FrameContinuation, http2.FlagHeadersEndHeaders, id, block...))
		r.conn.Reset(r.streams[len(r.streams)-1], http2.ErrCodeCancel)
		r.conn.Release(r.streams[len(r.streams)-1])
		r.take()
	}
	if r.conn.held() > 10_000 {
		t.Errorf("%d bytes are held afterwards", r.conn.held())
	}
}

// TestRepeatedBlocks decodes a block as nghttp2 sends it, whose path is never in the
// dynamic table, and one with a field that must be in no table.
func TestRepeatedBlocks(t *testing.T) {
	d := newDecoder(1 << 16)
	path := []byte{0x83, 0x86, 0x04, 2, '/', 'x', 0x0f, 0x0d, 1, '7'}
	secret := slices.Concat(path, []byte{0x1f, 0x08, 1, 's'})
	insertion := []byte{0x40, 1, 'a', 1, 'b'}
	for i, c := range []struct {
		block         []byte
		fields, fixed int
	}{{path, 4, 2}, {path, 4, 2}, {path, 4, 4}, {secret, 5, 2}, {secret, 5, 2}, {secret, 5, 2}, {path, 4, 4}, {insertion, 1, 0}, {path, 4, 2}, {path, 4, 4}} {
		block, err := d.decode(c.block)
		if err != nil {
			t.Fatal(err)
		}
		fixed := 0
		if block.Fixed != nil {
			fixed = len(block.Fixed.Fields)
		}
		if fixed != c.fixed || fixed+len(block.Rest) != c.fields || block.WireLength != len(c.block) {
			t.Errorf("block %d has %d cached fields and %d others, want %d cached of %d", i, fixed, len(block.Rest), c.fixed, c.fields)
		}
	}
}

// TestAlternatingBlocks decodes blocks in turn, as the headers and trailers of a server that
// uses no dynamic table. All of them are cached when they come again.
func TestAlternatingBlocks(t *testing.T) {
	d := newDecoder(1 << 16)
	for round := range 3 {
		for i := range byte(16) {
			block, err := d.decode([]byte{0x88, 0x0f, 0x0d, 1, 'a' + i})
			if err != nil {
				t.Fatal(err)
			}
			if round == 2 && len(block.Rest) > 0 {
				t.Errorf("block %d is not cached", i)
			}
		}
	}
}

func feed(t *testing.T, r *recorder, in ...[]byte) {
	t.Helper()
	for _, p := range in {
		if n, err := r.conn.Feed(0, p, 1000); err != nil || n != len(p) {
			t.Fatalf("a conforming peer's frames: %d of %d, %v", n, len(p), err)
		}
	}
}

// TestGoAwayNeverRises opens streams after the last GOAWAY, as a client may before it
// knows, and makes the connection fail.
func TestGoAwayNeverRises(t *testing.T) {
	r := newServer(t, testConfig)
	feed(t, r, open(1, 0))
	r.conn.AnnounceGoAway()
	feed(t, r, open(3, 0))
	r.conn.GoAway(http2.ErrCodeNo, "")
	feed(t, r, open(5, 0), frame(http2.FrameData, 0, 5, make([]byte, 100)...))
	_, _ = r.conn.Feed(0, frame(http2.FrameData, 0, 0), 1) // an error
	var named []uint32
	for out := r.take(); len(out) > 0; {
		h := ParseFrameHeader(out)
		switch h.Type {
		case http2.FrameGoAway:
			named = append(named, binary.BigEndian.Uint32(out[FrameHeaderLen:]))
		case http2.FrameRSTStream:
			t.Errorf("stream %d is reset", h.StreamID)
		}
		out = out[FrameHeaderLen+h.Length:]
	}
	if len(named) != 3 || named[0] != maxWindow || named[1] != 3 || named[2] != 3 {
		t.Errorf("the GOAWAYs name %v", named)
	}
}

// sender is a conforming client's view of its windows.
type sender struct {
	t                   *testing.T
	to                  *recorder
	connection, initial int64
	used                map[uint32]int64 // of each stream's window
}

// newSender returns the client of a new server that reads nothing.
func newSender(t *testing.T, cfg Config) *sender {
	r := newServer(t, cfg)
	r.hold = true
	feed(t, r, frame(http2.FrameSettings, http2.FlagSettingsAck, 0))
	return &sender{t: t, to: r, connection: int64(cfg.ConnWindow), initial: int64(cfg.StreamWindow), used: map[uint32]int64{}}
}

// receive reads what the server has sent.
func (s *sender) receive() { s.takeIn(s.to.take()) }

func (s *sender) takeIn(out []byte) {
	for len(out) > 0 {
		h := ParseFrameHeader(out)
		body := out[FrameHeaderLen:]
		switch {
		case h.Type == http2.FrameWindowUpdate && h.StreamID == 0:
			s.connection += int64(binary.BigEndian.Uint32(body))
		case h.Type == http2.FrameWindowUpdate:
			s.used[h.StreamID] -= int64(binary.BigEndian.Uint32(body))
		case h.Type == http2.FrameSettings && !h.Flags.Has(http2.FlagSettingsAck):
			if h.Length == 6 && body[1] == byte(http2.SettingInitialWindowSize) {
				s.initial = int64(binary.BigEndian.Uint32(body[2:]))
			}
			feed(s.t, s.to, frame(http2.FrameSettings, http2.FlagSettingsAck, 0))
		}
		out = body[h.Length:]
	}
}

// send sends a frame of content, as long as may be, and returns its length. A byte makes
// the server keep cost bytes.
func (s *sender) send(id uint32, cost int64) int64 {
	n := min(1<<14, s.initial-s.used[id], s.connection)
	if n <= 0 {
		return 0
	}
	feed(s.t, s.to, frame(http2.FrameData, 0, id, make([]byte, n)...))
	s.used[id] += n
	s.connection -= n
	s.to.data = map[uint32][]byte{}
	if s.to.conn.streams.get(id) != nil { // else it was refused
		s.to.conn.cfg.Kept.Add(cost * n)
	}
	return n
}

// TestWindowsShareMemory fills the windows of many streams that nobody reads. The
// connection's window is always renewed.
func TestWindowsShareMemory(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.ControlRate = 1<<20, 0
	cfg.MemoryLimit, cfg.StreamWindow, cfg.ConnWindow = 16<<20, 1<<20, 1<<20
	client := newSender(t, cfg)
	for i := range uint32(3000) {
		feed(t, client.to, open(2*i+1, 0))
		for n := int64(1); n > 0; n = client.send(2*i+1, 1) {
			client.receive()
			if client.connection <= 0 {
				t.Fatal("the connection's window is not renewed")
			}
		}
	}
	// Even where nothing is left, a stream may send a little.
	if n := client.to.conn.contentBytes(); n > cfg.MemoryLimit+cfg.MemoryLimit/64 {
		t.Errorf("%d bytes of content are kept, the limit is %d", n, cfg.MemoryLimit)
	}
}

// TestReadStreamsCanSend opens streams, sends, reads and resets at random, while memory
// is short at times. A stream whose content has all been read must be able to send.
func TestReadStreamsCanSend(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.ControlRate = 1<<20, 0
	cfg.MemoryLimit, cfg.StreamWindow, cfg.ConnWindow = 4<<20, 1<<17, 1<<17
	const cost = 8
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 2))
		client := newSender(t, cfg)
		server := client.to.conn
		read := func(s *Stream) {
			server.cfg.Kept.Add(-int64(cost * s.unread))
			server.Consume(s, s.unread)
		}
		var streams []*Stream
		for range 5000 {
			if len(streams) < 40 {
				feed(t, client.to, open(uint32(2*len(client.to.streams)+1), 0))
				streams = append(streams, client.to.streams[len(client.to.streams)-1])
			}
			i := random.IntN(len(streams))
			s := streams[i]
			switch random.IntN(20) {
			case 0:
				read(s)
				server.Reset(s, http2.ErrCodeCancel)
				server.Release(s)
				streams = slices.Delete(streams, i, i+1)
			case 1:
				client.receive()
				client.receive() // its acknowledgments may have been answered
				for _, s := range streams {
					if used := client.used[s.ID()]; s.unread == 0 && used >= client.initial {
						t.Fatalf("seed %d: stream %d has been read and may not send: it has used %d of %d", seed, s.ID(), used, client.initial)
					}
				}
				if client.connection <= 0 {
					t.Fatalf("seed %d: the connection's window is not renewed", seed)
				}
			case 2:
				client.receive()
			case 3, 4, 5, 6, 7:
				read(s)
			default:
				client.send(s.ID(), cost)
			}
		}
	}
}

// TestUnacknowledgedWindowsEnd sends on without acknowledging that windows have become
// smaller. The connection's window is not renewed then.
func TestUnacknowledgedWindowsEnd(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.MemoryLimit = 1<<20, 1<<20
	r := newServer(t, cfg)
	r.hold = true
	var err error
	total := 0
	for id := uint32(1); err == nil && total < 1<<30; id += 2 {
		_, err = r.conn.Feed(0, open(id, 0), 1)
		for range 3 {
			if err == nil {
				_, err = r.conn.Feed(0, frame(http2.FrameData, 0, id, make([]byte, 1<<14)...), 1)
				total += 1 << 14
				r.conn.cfg.Kept.Add(1 << 14)
			}
		}
		r.take()
	}
	var end *ConnError
	if !errors.As(err, &end) || end.Code != http2.ErrCodeFlowControl || total > cfg.MemoryLimit {
		t.Errorf("after %d bytes: %v", total, err)
	}
}

// TestBytesAheadOfAPing checks how much of a long message is sent before a short one that
// comes later.
func TestBytesAheadOfAPing(t *testing.T) {
	r := newServer(t, testConfig)
	in := append(settingsFrame(http2.SettingInitialWindowSize, maxWindow), frame(http2.FrameWindowUpdate, 0, 0, 0x7f, 0, 0, 0)...)
	feed(t, r, in, open(1, 0), open(3, 0), open(5, 0))
	r.take()
	for _, s := range r.streams[:2] {
		r.conn.SendHeaders(s, responseRun, nil)
		r.conn.SendData(s, batchio.Payload{Data: make([]byte, 4<<20)}, false)
	}
	ping := r.streams[2]
	r.conn.SendHeaders(ping, responseRun, nil)
	r.conn.SendData(ping, batchio.Payload{Data: []byte{1}}, false)
	r.conn.SendTrailers(ping, trailerRun, nil)
	ahead := 0
	for {
		for out := r.take(); len(out) > 0; {
			h := ParseFrameHeader(out)
			if h.StreamID == ping.ID() && h.Flags.Has(http2.FlagHeadersEndStream) {
				if most := testConfig.OutputLimit + 2*turnBytes; ahead > most {
					t.Errorf("%d bytes came before the ping, want at most %d", ahead, most)
				}
				return
			}
			ahead += FrameHeaderLen + h.Length
			out = out[FrameHeaderLen+h.Length:]
		}
	}
}

// TestHostileSequences feeds random frames of a small grammar to a server that answers
// some calls and reads nothing, and to one whose output nobody takes. What it holds must
// stay within its limit, and the heap near what it says it holds.
func TestHostileSequences(t *testing.T) {
	cfg := testConfig
	cfg.MaxStreams, cfg.MemoryLimit, cfg.MaxHeaderList = 1<<20, 4<<20, 256<<10
	cfg.StreamWindow, cfg.ConnWindow = 1<<17, 1<<18
	for seed := range uint64(30) {
		random := rand.New(rand.NewPCG(seed, 1))
		r := newServer(t, cfg)
		h := &hoarder{recorder: r, random: random}
		r.conn.handler = h
		before := heapBytes()
		h.play(t, 20_000)
		grown := heapBytes() - before
		// The recorder keeps what the Handler must, at its cost.
		if most := int64(2 * cfg.MemoryLimit); grown > most {
			t.Errorf("seed %d: the heap grew by %d KiB, %d KiB are held", seed, grown>>10, r.conn.held()>>10)
		}
		runtime.KeepAlive(h)
	}
}

func heapBytes() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// hoarder is a Handler that keeps all content and metadata, and answers now and then.
type hoarder struct {
	*recorder
	random *rand.Rand
	kept   [][]byte
	open   []*Stream
}

func (h *hoarder) OnOpen() *Stream {
	s := new(Stream)
	h.open = append(h.open, s)
	return s
}

func (h *hoarder) OnHeaders(s *Stream, block *Block, _ bool) {
	if s.Owner == nil {
		s.Owner = append([]hpack.HeaderField(nil), block.Rest...)
	}
}

func (h *hoarder) OnData(s *Stream, data []byte, _ bool) {
	h.kept = append(h.kept, bytes.Clone(data))
	h.conn.cfg.Kept.Add(int64(len(data)) + 64)
}

func (h *hoarder) OnReset(*Stream, Reset) {}

// play feeds n frames, or fewer if the connection ends or may not be fed.
func (h *hoarder) play(t *testing.T, n int) {
	next, reads := uint32(1), h.random.IntN(2) == 0
	path := hpack.HeaderField{Name: ":path", Value: "/" + string(bytes.Repeat([]byte{'a'}, 3000))}
	var packed bytes.Buffer
	enc := hpack.NewEncoder(&packed)
	for range n {
		if h.conn.Throttled() {
			if !reads {
				return // the peer must wait
			}
			h.take()
		}
		id := next - 2*uint32(h.random.IntN(20))
		var in []byte
		switch kind := h.random.IntN(12); kind {
		case 0, 1, 2, 3, 4:
			packed.Reset()
			for _, f := range requestRun.Fields[:2] {
				_ = enc.WriteField(f)
			}
			_ = enc.WriteField(path)
			for range h.random.IntN(50) {
				_ = enc.WriteField(path)
			}
			for range h.random.IntN(3) {
				_ = enc.WriteField(hpack.HeaderField{Name: "x", Value: strings.Repeat("v", h.random.IntN(2000)), Sensitive: true})
			}
			block := packed.Bytes()
			flags := http2.Flags(h.random.IntN(2)) * http2.FlagHeadersEndStream
			first := min(len(block), 1<<14)
			in = frame(http2.FrameHeaders, flags|http2.FlagHeadersEndHeaders, next, block[:first]...)
			next += 2
		case 5, 6, 7:
			in = frame(http2.FrameData, http2.Flags(h.random.IntN(8)/7), id, make([]byte, h.random.IntN(1<<h.random.IntN(15)))...)
		case 8:
			in = frame(http2.FrameRSTStream, 0, id, 0, 0, 0, 8)
		case 9:
			in = frame(http2.FrameWindowUpdate, 0, id, 0, 0, 1, 0)
		case 10:
			in = frame(http2.FramePing, 0, 0, make([]byte, 8)...)
		case 11:
			in = settingsFrame(http2.SettingID(h.random.IntN(7)), uint32(h.random.IntN(1<<16)))
			if h.random.IntN(2) == 0 {
				in = frame(http2.FrameSettings, http2.FlagSettingsAck, 0)
			}
		}
		if _, err := h.conn.Feed(0, in, 1); err != nil {
			return
		}
		h.answer()
		if held := h.conn.held(); held > h.conn.cfg.MemoryLimit*3/2 {
			t.Fatalf("%d bytes are held, the limit is %d", held, h.conn.cfg.MemoryLimit)
		}
	}
}

// answer answers a stream, with a long message or with trailers only.
func (h *hoarder) answer() {
	if len(h.open) == 0 || h.random.IntN(4) == 0 {
		return
	}
	i := h.random.IntN(len(h.open))
	s := h.open[i]
	h.open[i] = h.open[len(h.open)-1]
	h.open = h.open[:len(h.open)-1]
	if h.random.IntN(2) == 0 {
		h.conn.SendHeaders(s, responseRun, nil)
		h.conn.SendData(s, batchio.Payload{Data: make([]byte, h.random.IntN(10_000))}, false)
	}
	h.conn.SendTrailers(s, trailerRun, []hpack.HeaderField{{Name: "grpc-message", Value: string(make([]byte, 3000))}})
	h.conn.Release(s)
	s.Owner = nil
}
