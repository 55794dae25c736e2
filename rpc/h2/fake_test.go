package h2

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

var testConfig = Config{
	StreamWindow: 65535, ConnWindow: 65535, MemoryLimit: 1 << 20, MaxFrameSize: 1 << 14,
	MaxHeaderList: 8 << 10, MaxStreams: 10, OutputLimit: 64 << 10, ControlRate: 1000, MinReferenceLen: 4 << 10,
}

// recorder is a Handler that records its events. It consumes content at once unless hold
// is set.
type recorder struct {
	conn    *Conn
	hold    bool
	streams []*Stream
	events  []string
	data    map[uint32][]byte
	ends    map[uint32]int
	goAway  *http2.ErrCode
	pongs   int
}

func newRecorder(cfg Config) *recorder {
	r := &recorder{data: map[uint32][]byte{}, ends: map[uint32]int{}}
	cfg.Kept = new(batchio.KeptMemory)
	r.conn = NewConn(cfg, r)
	return r
}

func (r *recorder) note(format string, args ...any) {
	r.events = append(r.events, fmt.Sprintf(format, args...))
}

func (r *recorder) OnOpen() *Stream {
	s := new(Stream)
	r.streams = append(r.streams, s)
	return s
}

func (r *recorder) OnHeaders(s *Stream, block *Block, end bool) {
	var fields []hpack.HeaderField
	if block.Fixed != nil {
		fields = append(fields, block.Fixed.Fields...)
	}
	fields = append(fields, block.Rest...)
	r.note("headers %d %d fields end=%v", s.ID(), len(fields), end)
	if end {
		r.ends[s.ID()]++
	}
}

func (r *recorder) OnData(s *Stream, data []byte, end bool) {
	r.data[s.ID()] = append(r.data[s.ID()], data...)
	if end {
		r.ends[s.ID()]++
	}
	if !r.hold {
		r.conn.Consume(s, len(data))
	}
}

func (r *recorder) OnReset(s *Stream, why Reset) {
	r.note("reset %d %s", s.ID(), why.Code)
	r.ends[s.ID()]++
}

func (r *recorder) OnDrained(*Stream) {}

func (r *recorder) OnGoAway(code http2.ErrCode, _ []byte) { r.goAway = &code }

func (r *recorder) OnPing(time.Duration) *ConnError { return nil }

func (r *recorder) OnPong([8]byte) { r.pongs++ }

// held returns the bytes of memory that the peer makes the Conn and its Handler keep.
func (c *Conn) held() int { return c.cfg.MemoryLimit - c.recordRoom() + c.contentBytes() + c.queued }

// take takes the output.
func (r *recorder) take() []byte {
	out := r.conn.TakeOutput()
	if out == nil {
		return nil
	}
	all := bytes.Join(out.Segments(), nil)
	out.Recycle()
	return all
}

// frames parses the output of a Conn.
func frames(t testing.TB, p []byte) []FrameHeader {
	t.Helper()
	var all []FrameHeader
	for len(p) > 0 {
		if len(p) < FrameHeaderLen {
			t.Fatalf("%d stray bytes in the output", len(p))
		}
		h := ParseFrameHeader(p)
		if len(p) < FrameHeaderLen+h.Length {
			t.Fatalf("frame cut short in the output: %+v", h)
		}
		all = append(all, h)
		p = p[FrameHeaderLen+h.Length:]
	}
	return all
}

var requestRun = &FixedFields{Fields: []hpack.HeaderField{
	{Name: ":method", Value: "POST"},
	{Name: ":scheme", Value: "http"},
	{Name: ":path", Value: "/a/b"},
	{Name: ":authority", Value: "x"},
}}

var responseRun = &FixedFields{Fields: []hpack.HeaderField{{Name: ":status", Value: "200"}}}

var trailerRun = &FixedFields{Fields: []hpack.HeaderField{{Name: "grpc-status", Value: "0"}}}

// newServer returns a server that has received its client's settings.
func newServer(t testing.TB, cfg Config) *recorder {
	t.Helper()
	r := newRecorder(cfg)
	start := AppendFrameHeader(nil, FrameHeader{Type: http2.FrameSettings})
	if n, err := r.conn.Feed(0, start, 10); n != len(start) || err != nil {
		t.Fatalf("settings: %d, %v", n, err)
	}
	r.take()
	return r
}

func frame(kind http2.FrameType, flags http2.Flags, id uint32, payload ...byte) []byte {
	return append(AppendFrameHeader(nil, FrameHeader{Length: len(payload), Type: kind, Flags: flags, StreamID: id}), payload...)
}

// requestBlock encodes a request's header block without the dynamic table.
func requestBlock() []byte {
	var block []byte
	for _, f := range requestRun.Fields {
		block = appendLiteral(block, f)
	}
	return block
}

func open(id uint32, flags http2.Flags) []byte {
	return frame(http2.FrameHeaders, http2.FlagHeadersEndHeaders|flags, id, requestBlock()...)
}
