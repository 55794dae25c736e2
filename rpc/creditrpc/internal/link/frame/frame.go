// Package frame encodes and decodes the frames of a connection, which docs/creditrpc.md describes
// byte by byte. The package keeps no state.
//
// A frame is a header of eight bytes and a payload. Numbers in payloads are varints, as in
// Protocol Buffers. Numbers in the header are big-endian.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// A FrameType is the type of a frame.
type FrameType byte

// The types.
const (
	Hello   FrameType = iota // the first frame of each end
	Method                   // names a method for later requests
	Request                  // begins a call; from here to Cancel, frames belong to a stream
	Data                     // a message, or a part of one
	Header                   // the server's metadata, before the server's first message
	Status                   // the end of a call
	Cancel                   // the client gives up the call, or the server refuses the call
	Credit                   // credit for the peer
	Ping
	Goodbye   // the server accepts no more calls
	typeCount // the number of types
)

// Flags hold the flags of a frame. The frame's type decides what a flag means.
type Flags byte

// The flags.
const (
	More    Flags = 0x10 // of Request and Data: the stream's next frame continues the message
	End     Flags = 0x20 // of Request and Data: the last message; from a server also success
	Nothing Flags = 0x40 // of Request and Data: the frame holds no message
	Long    Flags = 0x80 // of Request and Data: the message's length precedes the message
	Answer  Flags = 0x10 // of Ping: the frame answers a ping
)

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 8
	// MaxPayload is the longest payload of a Request or Data frame. It equals credit.Turn.
	MaxPayload = 68 << 10
	// MaxOtherPayload is the longest payload of other frames, unless metadata may be longer.
	MaxOtherPayload = 16 << 10
)

// A Head is a frame's header.
type Head struct {
	Length int
	Type   FrameType
	Flags  Flags
	Stream uint32 // 0 means that the frame is for the connection
}

// ErrMalformed is wrapped by the errors of malformed frames.
var ErrMalformed = errors.New("malformed frame")

// Append appends the encoded header.
func (h Head) Append(to []byte) []byte {
	return append(to, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length), byte(h.Type)|byte(h.Flags),
		byte(h.Stream>>24), byte(h.Stream>>16), byte(h.Stream>>8), byte(h.Stream))
}

// AppendFrame appends a whole frame: the header, with the payload's length, and the payload.
func (h Head) AppendFrame(to, payload []byte) []byte {
	h.Length = len(payload)
	return append(h.Append(to), payload...)
}

// ReadHead reads a header from at least [HeaderLen] bytes.
func ReadHead(from []byte) (Head, error) {
	h := Head{
		Length: int(from[0])<<16 | int(from[1])<<8 | int(from[2]),
		Type:   FrameType(from[3] & 0x0f), Flags: Flags(from[3] & 0xf0),
		Stream: binary.BigEndian.Uint32(from[4:]),
	}
	switch {
	case h.Type >= typeCount:
		return h, fmt.Errorf("%w: type %d is unknown", ErrMalformed, h.Type)
	case (h.Type >= Request && h.Type <= Cancel) != (h.Stream != 0) && h.Type != Credit:
		return h, fmt.Errorf("%w: a frame of type %d cannot have stream %d", ErrMalformed, h.Type, h.Stream)
	}
	return h, nil
}

// Len returns the length of the frame at the start of received. If the header is not complete, Len
// returns the length of a header.
func Len(received []byte) int {
	if len(received) < HeaderLen {
		return HeaderLen
	}
	return HeaderLen + (int(received[0])<<16 | int(received[1])<<8 | int(received[2]))
}

// A Reader reads the parts of a payload. After the first error, it returns only empty parts.
type Reader struct {
	left  []byte
	fault bool
}

// NewReader returns a Reader for a payload.
func NewReader(payload []byte) *Reader { return &Reader{left: payload} }

// Number reads a number, which is encoded as a varint.
func (r *Reader) Number() uint64 {
	value, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return value
}

// Bytes reads a length and then as many bytes. The result points into the payload.
func (r *Reader) Bytes() []byte {
	n := r.Number()
	if n > uint64(len(r.left)) {
		r.fail()
		return nil
	}
	taken := r.left[:n:n]
	r.left = r.left[n:]
	return taken
}

// Rest reads all bytes that are left.
func (r *Reader) Rest() []byte {
	rest := r.left
	r.left = nil
	return rest
}

// Done reports whether nothing is left.
func (r *Reader) Done() bool { return len(r.left) == 0 }

// Err returns an error if the payload was too short for the parts read.
func (r *Reader) Err() error {
	if r.fault {
		return fmt.Errorf("%w: the payload ends within a field", ErrMalformed)
	}
	return nil
}

func (r *Reader) fail() { r.left, r.fault = nil, true }

// AppendBytes appends bytes with their length before them.
func AppendBytes[T ~string | ~[]byte](to []byte, value T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}

// Version is the version of the wire format.
const Version = 1

// magic begins the first frame's payload. Peers that use another protocol do not send magic.
const magic = "CRPC"

// Settings holds the content of a Hello frame.
type Settings struct {
	Version    uint64
	Window     uint64 // bytes that the peer may have in flight on the connection
	PerStream  uint64 // unread bytes that the peer may send on each stream at first
	Calls      uint64 // calls that the peer may begin; a client sends 0
	MaxMessage uint64 // the longest message that this end accepts
	MaxMeta    uint64 // the most metadata that this end accepts
}

// fields returns the settings in the order of their keys on the wire. The first key is 1.
func (s *Settings) fields() [5]*uint64 {
	return [...]*uint64{&s.Window, &s.PerStream, &s.Calls, &s.MaxMessage, &s.MaxMeta}
}

// AppendHello appends a whole Hello frame.
func AppendHello(to []byte, s Settings) []byte {
	payload := binary.AppendUvarint([]byte(magic), s.Version)
	for i, value := range s.fields() {
		payload = binary.AppendUvarint(binary.AppendUvarint(payload, uint64(i)+1), *value)
	}
	return Head{Type: Hello}.AppendFrame(to, payload)
}

// ReadHello reads the payload of a Hello frame. It ignores unknown settings.
func ReadHello(payload []byte) (s Settings, err error) {
	if len(payload) < len(magic) || string(payload[:len(magic)]) != magic {
		return s, fmt.Errorf("%w: the peer does not speak creditrpc", ErrMalformed)
	}
	r := NewReader(payload[len(magic):])
	if s.Version = r.Number(); s.Version != Version {
		return s, fmt.Errorf("%w: the peer speaks version %d of creditrpc, but this end speaks version %d", ErrMalformed, s.Version, Version)
	}
	for !r.Done() {
		key, value := r.Number(), r.Number()
		if known := s.fields(); key >= 1 && key <= uint64(len(known)) {
			*known[key-1] = value
		}
	}
	return s, r.Err()
}

// A RequestStart is the part of a Request frame that precedes the message.
type RequestStart struct {
	Method  uint64 // number of the Method frame with the method's name
	Timeout uint64 // microseconds from the frame's arrival; 0 means no timeout
	Meta    []byte
}

// Append appends the encoded RequestStart.
func (b RequestStart) Append(to []byte) []byte {
	return AppendBytes(binary.AppendUvarint(binary.AppendUvarint(to, b.Method), b.Timeout), b.Meta)
}

// ReadRequestStart reads a RequestStart. The rest of r is the message, or the message's beginning.
func ReadRequestStart(r *Reader) RequestStart {
	return RequestStart{Method: r.Number(), Timeout: r.Number(), Meta: r.Bytes()}
}

// An Ending is the payload of a Status frame, which ends a call.
type Ending struct {
	Code    uint64
	Message []byte
	Details []byte // an encoded google.rpc.Status; empty if there are no details
	Meta    []byte // the trailer metadata
}

// Append appends the payload.
func (e Ending) Append(to []byte) []byte {
	return append(AppendBytes(AppendBytes(binary.AppendUvarint(to, e.Code), e.Message), e.Details), e.Meta...)
}

// ReadEnding reads the payload of a Status frame.
func ReadEnding(payload []byte) (Ending, error) {
	r := NewReader(payload)
	return Ending{Code: r.Number(), Message: r.Bytes(), Details: r.Bytes(), Meta: r.Rest()}, r.Err()
}

// A Grant is the payload of a Credit frame. In a stream's frame, Requests is 0.
type Grant struct{ Bytes, Requests uint64 }

// Append appends the payload.
func (g Grant) Append(to []byte) []byte {
	return binary.AppendUvarint(binary.AppendUvarint(to, g.Bytes), g.Requests)
}

// ReadGrant reads the payload of a Credit frame.
func ReadGrant(payload []byte) (Grant, error) {
	r := NewReader(payload)
	g := Grant{r.Number(), r.Number()}
	if g.Bytes > MaxGrant || g.Requests > MaxGrant {
		return g, fmt.Errorf("%w: a credit of %d bytes and %d requests is too large", ErrMalformed, g.Bytes, g.Requests)
	}
	return g, r.Err()
}

// MaxGrant limits a grant, so that sums of grants do not overflow.
const MaxGrant = 1 << 40

// AppendMeta appends one key and value of metadata.
func AppendMeta(to []byte, key, value string) []byte { return AppendBytes(AppendBytes(to, key), value) }

// EachMeta calls f with each key and value of metadata.
func EachMeta(meta []byte, f func(key, value []byte)) error {
	r := NewReader(meta)
	for !r.Done() {
		key, value := r.Bytes(), r.Bytes()
		if err := r.Err(); err != nil {
			return err
		}
		f(key, value)
	}
	return r.Err()
}
