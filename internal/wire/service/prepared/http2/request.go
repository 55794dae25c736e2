package http2

import (
	"bytes"
	"encoding/binary"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Request is a request as it goes out, but for the stream's number.
type Request struct {
	Head bool // the answer has no body

	block []byte // without dynamic table, so that it is the same at any time
	body  []byte
	// frames is all of it in frames, where it is short, and ids where they have numbers.
	frames []byte
	ids    []int
}

// Field is a header field. Its name has small letters.
type Field struct{ Name, Value string }

const (
	frameHeader = 9
	// minMaxFrame is what every peer accepts (RFC 9113, section 4.2).
	minMaxFrame = 16 << 10
	// maxPrepared is the longest body that is copied with its header, in one piece.
	maxPrepared = 8 << 10
)

// noTable makes the peer's decoder keep no dynamic table (RFC 7541, section 6.3). The first
// block of a connection begins with it; then no later setting of the peer needs an answer.
const noTable = 0x20

// NewRequest encodes a request. Pseudo fields come first.
func NewRequest(fields []Field, body []byte) *Request {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encoder.SetMaxDynamicTableSize(0)
	for _, f := range fields {
		_ = encoder.WriteField(hpack.HeaderField{Name: f.Name, Value: f.Value}) // a Buffer takes all
	}
	r := &Request{block: bytes.TrimPrefix(block.Bytes(), []byte{noTable}), body: body}
	if len(body) > maxPrepared {
		return r
	}
	r.frames = r.appendHeader(nil, 0, nil)
	for at := 0; at < len(r.frames); at += frameHeader + lengthOf(r.frames[at:]) {
		r.ids = append(r.ids, at+idOffset)
	}
	if len(body) > 0 {
		r.ids = append(r.ids, len(r.frames)+idOffset)
		r.frames = appendFrame(r.frames, frame{length: len(body), kind: http2.FrameData, flags: http2.FlagDataEndStream})
		r.frames = append(r.frames, body...)
	}
	return r
}

// appendHeader appends HEADERS, and CONTINUATION as needed. The block follows the prefix.
func (r *Request) appendHeader(to []byte, id uint32, prefix []byte) []byte {
	block := append(prefix, r.block...) //nolint:gocritic // the prefix is the caller's, for this
	h := frame{kind: http2.FrameHeaders, id: id}
	if len(r.body) == 0 {
		h.flags = http2.FlagHeadersEndStream
	}
	for {
		n := min(len(block), minMaxFrame)
		if h.length = n; n == len(block) {
			h.flags |= http2.FlagHeadersEndHeaders // which CONTINUATION calls the same
		}
		to = append(appendFrame(to, h), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return to
		}
		h.kind, h.flags = http2.FrameContinuation, 0
	}
}

// frame is a frame's header.
type frame struct {
	length int
	kind   http2.FrameType
	flags  http2.Flags
	id     uint32
}

const idOffset = 5

func lengthOf(p []byte) int { return int(p[0])<<16 | int(p[1])<<8 | int(p[2]) }

// parseFrame reads a frame's header from at least frameHeader bytes.
func parseFrame(p []byte) frame {
	_ = p[frameHeader-1]
	return frame{
		length: lengthOf(p), kind: http2.FrameType(p[3]), flags: http2.Flags(p[4]),
		id: binary.BigEndian.Uint32(p[idOffset:]) & maxWindow,
	}
}

func appendFrame(to []byte, f frame) []byte {
	to = append(to, byte(f.length>>16), byte(f.length>>8), byte(f.length), byte(f.kind), byte(f.flags))
	return binary.BigEndian.AppendUint32(to, f.id)
}
