package tcp

import (
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// A parser turns what arrives on a connection into events. It says how many
// bytes it wants next and is given exactly those; it reads no socket and keeps
// no bytes. An error means that the rest of the connection has no meaning.
type parser interface {
	want() want
	take(b []byte) (event, error)
}

// want is what a parser needs next.
type want struct {
	bytes int
	// body tells the body of a frame, whose length the peer claims, from the
	// few bytes before one.
	body bool
}

// event is one thing that the peer said. Its body lies in the bytes that were
// given to take.
type event struct {
	what what
	body []byte
}

type what uint8

const (
	nothingYet what = iota
	callBegins      // a server's parser saw the first bytes of a call
	plainMessage
	plainFailure // the body is a status
	head
	message
	end
)

// stage is what a parser's next bytes are.
type stage uint8

const (
	atStart     stage = iota // a plain length, or a server's preamble
	atPlainBody              // a plain message
	atFailure                // the status of a plain answer
	atFrame                  // a frame's kind and length
	atBody                   // a frame's body
)

// frames is what the parsers of both ends share.
type frames struct {
	stage  stage
	length int
	kind   what // of the frame whose body is next
	opened bool // the head of this call has passed
}

func (f *frames) want() want {
	switch f.stage {
	case atStart:
		return want{bytes: lengthBytes}
	case atFrame:
		return want{bytes: frameHeadBytes}
	default:
		return want{bytes: f.length, body: true}
	}
}

// takeFrame reads a frame's kind and length.
func (f *frames) takeFrame(b []byte, maxMessageBytes int) error {
	length, limit := binary.BigEndian.Uint32(b[1:]), maxHeadBytes
	switch b[0] {
	case kindHead:
		f.kind = head
	case kindMessage:
		f.kind, limit = message, maxMessageBytes
	case kindEnd:
		f.kind = end
	default:
		return errMalformed("a frame of the kind %#x", b[0])
	}
	f.stage = atBody
	return f.setLength(length, limit)
}

func (f *frames) setLength(length uint32, limit int) error {
	if uint64(length) > uint64(limit) {
		return status.Errorf(codes.ResourceExhausted, "a frame of %d bytes is announced, %d are allowed", length, limit)
	}
	f.length = int(length)
	return nil
}

// serverParser reads what clients send: calls, each in the framing that its
// first four bytes tell.
type serverParser struct{ frames }

func (p *serverParser) take(b []byte) (event, error) {
	switch p.stage {
	case atStart:
		word := binary.BigEndian.Uint32(b)
		if word == preamble {
			p.stage, p.opened = atFrame, false
			return event{what: callBegins}, nil
		}
		p.stage = atPlainBody
		return event{what: callBegins}, p.setLength(word, stack.MaxMessageBytes)
	case atPlainBody:
		p.stage = atStart
		return event{what: plainMessage, body: b}, nil
	case atFrame:
		if err := p.takeFrame(b, stack.MaxMessageBytes); err != nil {
			return event{}, err
		}
		if (p.kind == head) == p.opened {
			return event{}, errMalformed("a call has one head, before everything else")
		}
		if p.kind == end && p.length > 0 {
			return event{}, errMalformed("a client's end frame of %d bytes", p.length)
		}
		p.opened = true
		return event{}, nil
	default:
		p.stage = atFrame
		if p.kind == end {
			p.stage = atStart
		}
		return event{what: p.kind, body: b}, nil
	}
}

// clientParser reads the answer to one call after another.
type clientParser struct {
	frames
	limit int // the largest message that the caller takes
}

// expectPlain makes ready for the answer to a plain call.
func (p *clientParser) expectPlain(limit int) {
	p.frames, p.limit = frames{stage: atStart}, limit
}

// expectFrames makes ready for the answer to a call with a preamble.
func (p *clientParser) expectFrames(limit int) {
	p.frames, p.limit = frames{stage: atFrame}, limit
}

func (p *clientParser) take(b []byte) (event, error) {
	switch p.stage {
	case atStart:
		word := binary.BigEndian.Uint32(b)
		if word&failedBit != 0 {
			p.stage = atFailure
			return event{}, p.setLength(word&^failedBit, maxHeadBytes)
		}
		p.stage = atPlainBody
		return event{}, p.setLength(word, p.limit)
	case atPlainBody:
		p.stage = atStart
		return event{what: plainMessage, body: b}, nil
	case atFailure:
		p.stage = atStart
		return event{what: plainFailure, body: b}, nil
	case atFrame:
		if err := p.takeFrame(b, p.limit); err != nil {
			return event{}, err
		}
		if p.kind == head && p.opened {
			return event{}, errMalformed("an answer has one head, before everything else")
		}
		p.opened = true
		return event{}, nil
	default:
		p.stage = atFrame
		return event{what: p.kind, body: b}, nil
	}
}
