// Package frame is what goes over a connection: frames, to the byte as docs/creditrpc.md
// has them. It keeps no state.
//
// A frame is a header of eight bytes and a payload. Numbers in payloads are varints, as in
// Protocol Buffers; those in the header are big-endian.
package frame

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Type says what a frame is for.
type Type byte

// The types.
const (
	Hello   Type = iota // the first of each end
	Method              // names a method for the requests that follow
	Request             // begins a call
	Data                // a message, or a part of one
	Header              // the server's metadata before its first message
	Status              // how a call ended
	Cancel              // the call is no longer wanted, or refused
	Credit              // what the peer may send
	Ping
	Goodbye // no more calls
	types   // how many there are
)

// Flags are what else is to be known of a frame. Those of one type mean nothing in another.
type Flags byte

// The flags.
const (
	More    Flags = 0x10 // of Request and Data: the message goes on in the stream's next frame
	End     Flags = 0x20 // of Request and Data: the sender sends nothing more; from a server, the call ended well
	Nothing Flags = 0x40 // of Request and Data: there is no message here
	Long    Flags = 0x80 // of Request and Data: the whole message's length stands before it
	Answer  Flags = 0x10 // of Ping: to one that was received
	known         = More | End | Nothing | Long
)

const (
	// HeaderLen is the length of a frame's header.
	HeaderLen = 8
	// MaxPayload is the longest payload of a Request or Data: a turn of the sender.
	MaxPayload = 68 << 10
	// MaxOther is that of all others, unless metadata may be longer.
	MaxOther = 16 << 10
)

// Head is a frame's header.
type Head struct {
	Length int
	Type   Type
	Flags  Flags
	Stream uint32 // 0: the connection
}

// ErrMalformed is wrapped by what is wrong with a frame.
var ErrMalformed = errors.New("malformed frame")

// Append writes a header.
func (h Head) Append(to []byte) []byte {
	return append(to, byte(h.Length>>16), byte(h.Length>>8), byte(h.Length), byte(h.Type)|byte(h.Flags),
		byte(h.Stream>>24), byte(h.Stream>>16), byte(h.Stream>>8), byte(h.Stream))
}

// ReadHead reads a header from at least [HeaderLen] bytes.
func ReadHead(from []byte) (Head, error) {
	h := Head{
		Length: int(from[0])<<16 | int(from[1])<<8 | int(from[2]),
		Type:   Type(from[3] & 0x0f), Flags: Flags(from[3] & 0xf0),
		Stream: binary.BigEndian.Uint32(from[4:]),
	}
	switch {
	case h.Type >= types:
		return h, fmt.Errorf("%w: type %d is unknown", ErrMalformed, h.Type)
	case (h.Type == Request || h.Type == Data) && h.Length > MaxPayload:
		return h, fmt.Errorf("%w: %d bytes, at most %d are allowed", ErrMalformed, h.Length, MaxPayload)
	case h.isOfStream() != (h.Stream != 0) && h.Type != Credit:
		return h, fmt.Errorf("%w: type %d with stream %d", ErrMalformed, h.Type, h.Stream)
	}
	return h, nil
}

func (h Head) isOfStream() bool {
	switch h.Type {
	case Request, Data, Header, Status, Cancel:
		return true
	}
	return false
}

// Len is how many bytes the first frame of what was received takes; of a header that is not
// whole, what the header takes.
func Len(received []byte) int {
	if len(received) < HeaderLen {
		return HeaderLen
	}
	return HeaderLen + (int(received[0])<<16 | int(received[1])<<8 | int(received[2]))
}

// Reader takes a payload apart. After the first fault every part is empty.
type Reader struct {
	left  []byte
	fault bool
}

// Read reads a payload.
func Read(payload []byte) *Reader { return &Reader{left: payload} }

// Number takes a varint.
func (r *Reader) Number() uint64 {
	value, n := binary.Uvarint(r.left)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.left = r.left[n:]
	return value
}

// Bytes takes bytes with their length before them. They are part of the payload.
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

// Rest takes what is left.
func (r *Reader) Rest() []byte {
	rest := r.left
	r.left = nil
	return rest
}

// Done reports whether nothing is left.
func (r *Reader) Done() bool { return len(r.left) == 0 }

// Err says whether there was less than was taken.
func (r *Reader) Err() error {
	if r.fault {
		return fmt.Errorf("%w: the payload ends within a field", ErrMalformed)
	}
	return nil
}

func (r *Reader) fail() { r.left, r.fault = nil, true }

// AppendNumber writes a varint.
func AppendNumber(to []byte, value uint64) []byte { return binary.AppendUvarint(to, value) }

// AppendBytes writes bytes with their length before them.
func AppendBytes[T ~string | ~[]byte](to []byte, value T) []byte {
	return append(binary.AppendUvarint(to, uint64(len(value))), value...)
}
