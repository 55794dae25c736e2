package h2

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"golang.org/x/net/http2"
)

// This file has a second and simple implementation of RFC 9113's stream states on a
// server, to compare the Conn with.

// streamState is a stream's state as its client sees it, RFC 9113 section 5.1.
type streamState int

const (
	stateIdle streamState = iota
	stateOpen
	stateHalfClosed // the client has ended its side
	stateEnded      // by the client, or by both
	stateReset      // by the server, before the client's end, so more may come late
)

// verdict is the required result of a frame: it ends the connection or the stream with
// one of some codes, or neither.
type verdict struct {
	connection, stream []http2.ErrCode
	// forgiven means that the server may also ignore the frame. Of the streams that it has
	// reset, it keeps the sum of the bytes that may still come, not the identifiers.
	forgiven bool
}

var fine = verdict{}

func endsConnection(codes ...http2.ErrCode) verdict { return verdict{connection: codes} }
func endsStream(code http2.ErrCode) verdict         { return verdict{stream: []http2.ErrCode{code}} }

func (v verdict) orFine(forgiven bool) verdict {
	v.forgiven = forgiven
	return v
}

// hasReset reports whether the server has reset a stream.
func (m *model) hasReset() bool {
	for _, s := range m.streams {
		if s == stateReset {
			return true
		}
	}
	return false
}

type model struct {
	streams map[uint32]streamState
	last    uint32 // the highest the client opened
	late    int    // header blocks that may still come on streams that were reset
	block   struct {
		id  uint32 // 0 while no block is under way
		end bool
	}
}

func (m *model) state(id uint32) streamState {
	s := m.streams[id]
	if s == stateIdle && id%2 == 1 && id <= m.last {
		return stateEnded // opening one closes all below it, section 5.1.1
	}
	return s
}

func (m *model) open() int {
	n := 0
	for _, s := range m.streams {
		if s == stateOpen || s == stateHalfClosed {
			n++
		}
	}
	return n
}

// judge returns the required result of a frame and updates the model.
func (m *model) judge(h FrameHeader, payload []byte) verdict {
	if m.block.id != 0 && (h.Type != http2.FrameContinuation || h.StreamID != m.block.id) {
		return endsConnection(http2.ErrCodeProtocol)
	}
	lengths := map[http2.FrameType]int{http2.FramePriority: 5, http2.FrameRSTStream: 4, http2.FramePing: 8, http2.FrameWindowUpdate: 4}
	if want, fixed := lengths[h.Type]; fixed && len(payload) != want {
		return endsConnection(http2.ErrCodeFrameSize, http2.ErrCodeProtocol) // where it is on the wrong stream as well
	}
	switch h.Type {
	case http2.FrameSettings, http2.FramePing, http2.FrameGoAway:
		if h.StreamID != 0 {
			return endsConnection(http2.ErrCodeProtocol)
		}
	case http2.FramePushPromise:
		return endsConnection(http2.ErrCodeProtocol)
	case http2.FrameHeaders:
		if h.StreamID%2 == 0 {
			return endsConnection(http2.ErrCodeProtocol)
		}
		m.block.id, m.block.end = h.StreamID, h.Flags.Has(http2.FlagHeadersEndStream)
		return m.judgeBlock(h)
	case http2.FrameContinuation:
		if m.block.id == 0 {
			return endsConnection(http2.ErrCodeProtocol)
		}
		return m.judgeBlock(h)
	case http2.FrameData, http2.FrameRSTStream, http2.FrameWindowUpdate, http2.FramePriority:
		return m.judgeStream(h, payload)
	}
	return fine
}

// judgeBlock handles a request's header block; on an open stream, it is not trailers.
func (m *model) judgeBlock(h FrameHeader) verdict {
	if !h.Flags.Has(http2.FlagHeadersEndHeaders) {
		return fine
	}
	id := m.block.id
	m.block.id = 0
	switch m.state(id) {
	case stateIdle:
		m.last = id
		if m.open() == orderStreams {
			if m.block.end {
				m.streams[id] = stateEnded
			} else {
				m.reset(id)
			}
			return endsStream(http2.ErrCodeRefusedStream)
		}
		m.streams[id] = stateOpen
		if m.block.end {
			m.streams[id] = stateHalfClosed
		}
	case stateOpen:
		m.reset(id)
		return endsStream(http2.ErrCodeProtocol)
	case stateHalfClosed:
		m.streams[id] = stateEnded
		return endsStream(http2.ErrCodeStreamClosed)
	case stateEnded, stateReset:
		if m.late > 0 { // a header and trailers may come late
			m.late--
			return fine
		}
		return endsConnection(http2.ErrCodeStreamClosed, http2.ErrCodeProtocol)
	}
	return fine
}

// reset updates the model after the server's reset of an open stream.
func (m *model) reset(id uint32) {
	m.streams[id] = stateReset
	m.late += 2
}

func (m *model) judgeStream(h FrameHeader, payload []byte) verdict {
	zero := h.Type == http2.FrameWindowUpdate && binary.BigEndian.Uint32(payload) == 0
	state := m.state(h.StreamID)
	switch {
	case h.StreamID == 0 && h.Type == http2.FrameWindowUpdate && !zero:
		return fine
	case h.StreamID == 0:
		return endsConnection(http2.ErrCodeProtocol)
	case h.Type == http2.FramePriority:
		return fine
	case state == stateIdle:
		return endsConnection(http2.ErrCodeProtocol)
	case state == stateReset:
		return fine
	case h.Type == http2.FrameData && state == stateEnded:
		return endsStream(http2.ErrCodeStreamClosed).orFine(m.hasReset())
	case state == stateEnded:
		return fine
	case h.Type == http2.FrameRSTStream:
		m.streams[h.StreamID] = stateEnded
	case zero:
		m.answered(h.StreamID)
		return endsStream(http2.ErrCodeProtocol)
	case h.Type == http2.FrameData && state == stateHalfClosed:
		m.streams[h.StreamID] = stateEnded
		return endsStream(http2.ErrCodeStreamClosed)
	case h.Type == http2.FrameData && h.Flags.Has(http2.FlagDataEndStream):
		m.streams[h.StreamID] = stateHalfClosed
	}
	return fine
}

// answered updates the model after the server's complete response or reset.
func (m *model) answered(id uint32) {
	if m.streams[id] == stateOpen {
		m.reset(id) // an early answer ends with a reset, section 8.1
	} else {
		m.streams[id] = stateEnded
	}
}

// play makes a frame from three bytes of the script; false means that the server acts.
func (m *model) play(kind, arg byte, flags http2.Flags) (h FrameHeader, payload []byte, client bool) {
	h = FrameHeader{Type: http2.FrameType(kind % 12), StreamID: uint32(arg % 28)}
	switch h.Type {
	case http2.FrameData:
		payload, h.Flags = []byte("data"), flags&http2.FlagDataEndStream
	case http2.FrameHeaders:
		h.Flags = flags & (http2.FlagHeadersEndStream | http2.FlagHeadersEndHeaders)
		if payload = requestBlock(); !h.Flags.Has(http2.FlagHeadersEndHeaders) {
			payload = payload[:5]
		}
	case http2.FrameContinuation:
		if h.Flags = flags & http2.FlagHeadersEndHeaders; h.Flags != 0 {
			payload = requestBlock()[5:]
		}
	case http2.FramePriority:
		payload = binary.BigEndian.AppendUint32(nil, h.StreamID+1)
		payload = append(payload, 1)
	case http2.FrameRSTStream:
		payload = []byte{0, 0, 0, byte(http2.ErrCodeCancel)}
	case http2.FrameWindowUpdate:
		payload = []byte{0, 0, 0, byte(flags & 1)}
	case http2.FramePing, http2.FrameGoAway:
		payload = make([]byte, 8)
	case http2.FramePushPromise:
		payload, h.Flags = append([]byte{0, 0, 0, 2}, requestBlock()...), http2.FlagHeadersEndHeaders
	case 11:
		return h, nil, false
	}
	if flags&0x40 != 0 && h.Type != http2.FrameSettings && h.Type != http2.FrameGoAway && h.Type != http2.FrameData && len(payload) > 0 &&
		h.Type != http2.FrameHeaders && h.Type != http2.FrameContinuation && h.Type != http2.FramePushPromise {
		payload = payload[1:] // of the wrong length
	}
	h.Length = len(payload)
	return h, payload, true
}

// orderStreams is the server's MaxStreams.
const orderStreams = 3

// FuzzOrder feeds a server legal and illegal sequences of frames. Each result must equal
// the model's.
func FuzzOrder(f *testing.F) {
	const both = byte(http2.FlagHeadersEndStream | http2.FlagHeadersEndHeaders)
	f.Add([]byte{1, 1, byte(http2.FlagHeadersEndHeaders), 0, 1, 0, 0, 1, byte(http2.FlagHeadersEndStream), 11, 1, 0, 0, 1, 0})
	f.Add([]byte{1, 5, both, 1, 3, both})
	f.Add([]byte{1, 1, 0, 9, 1, 0, 9, 1, byte(http2.FlagHeadersEndHeaders), 3, 1, 0, 8, 1, 0, 0, 1, 0})
	f.Add([]byte{1, 1, both, 11, 1, 1, 0, 1, 0, 8, 1, 0, 1, 1, both})
	f.Add([]byte{1, 1, byte(http2.FlagHeadersEndHeaders), 1, 1, both, 8, 0, 1, 6, 0, 0x40})
	f.Fuzz(func(t *testing.T, script []byte) {
		cfg := testConfig
		cfg.MaxStreams = orderStreams
		r := newServer(t, cfg)
		m := &model{streams: map[uint32]streamState{}}
		for frames := 0; len(script) >= 3 && frames < 60; script = script[3:] {
			h, payload, client := m.play(script[0], script[1], http2.Flags(script[2]))
			if !client {
				answer(r, m, h.StreamID, script[2]&1 != 0)
				continue
			}
			frames++
			want := m.judge(h, payload)
			_, err := r.conn.Feed(0, append(AppendFrameHeader(nil, h), payload...), 10)
			if !check(t, r, m, h, want, err) {
				return
			}
		}
	})
}

// answer lets the server act on a stream, if it is open.
func answer(r *recorder, m *model, id uint32, reset bool) {
	for _, s := range r.streams {
		if s.ID() != id || !s.Open() {
			continue
		}
		if reset {
			r.conn.Reset(s, http2.ErrCodeInternal)
		} else {
			r.conn.SendHeaders(s, responseRun, nil)
			r.conn.SendTrailers(s, trailerRun, nil)
		}
		r.conn.Release(s)
		m.answered(id)
	}
	r.take()
}

// check compares the Conn's reaction with the verdict; false ends the sequence.
func check(t *testing.T, r *recorder, m *model, h FrameHeader, want verdict, err error) bool {
	t.Helper()
	var fault *ConnError
	if want.forgiven && err == nil && r.conn.Pending() == 0 {
		return true
	}
	if errors.As(err, &fault) != (len(want.connection) > 0) || fault != nil && !slices.Contains(want.connection, fault.Code) {
		t.Fatalf("%+v: the connection ended with %v, want %v", h, err, want.connection)
	}
	out := r.take()
	var resets []http2.ErrCode
	goAway := false
	for at := 0; at < len(out); {
		answer := ParseFrameHeader(out[at:])
		body := out[at+FrameHeaderLen:]
		switch answer.Type {
		case http2.FrameRSTStream:
			resets = append(resets, http2.ErrCode(binary.BigEndian.Uint32(body)))
		case http2.FrameGoAway:
			goAway = true
			if last := binary.BigEndian.Uint32(body); last != m.last {
				t.Fatalf("%+v: GOAWAY names stream %d, want %d", h, last, m.last)
			}
		}
		at += FrameHeaderLen + answer.Length
	}
	if goAway != (fault != nil) || !slices.Equal(resets, want.stream) {
		t.Fatalf("%+v: GOAWAY %v, resets %v, want %+v", h, goAway, resets, want)
	}
	if got := r.conn.OpenStreams(); got != m.open() {
		t.Fatalf("%+v: %d streams are open, want %d", h, got, m.open())
	}
	for _, s := range r.streams {
		if !s.Open() {
			r.conn.Release(s)
		}
	}
	return fault == nil
}
