package tcp

import (
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/stack"
)

// A parser turns the bytes of a connection into events. It says how many bytes it
// wants next and gets exactly those; it reads no socket and keeps no bytes. After
// an error the rest of the connection cannot be parsed.
type parser interface {
	want() want
	take(b []byte) (event, error)
}

// want is what a parser needs next.
type want struct {
	bytes int
	// body says that the bytes are a frame's body, of the length that the peer
	// has announced.
	body bool
}

// event is one thing that the peer sent. Its body aliases the bytes that were
// given to take.
type event struct {
	kind eventKind
	body []byte
}

type eventKind uint8

const (
	noEvent    eventKind = iota
	callBegins           // a server's parser saw the first bytes of a call
	plainMessage
	plainFailure // the body is a status
	head
	message
	end
)

// stage says what a parser's next bytes are.
type stage uint8

const (
	atStart     stage = iota // a plain length, or a server's preamble
	atPlainBody              // a plain message
	atFailure                // the status of a plain answer
	atFrame                  // a frame's kind and length
	atBody                   // a frame's body
)

// frames holds the state that the parsers of both ends share.
type frames struct {
	stage  stage
	length int
	kind   eventKind // of the frame whose body is next
	opened bool      // this call's head was read
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
		return errMalformed("unknown frame kind %#x", b[0])
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

// serverParser reads the calls of clients. The first four bytes of each call
// select its framing.
type serverParser struct{ frames }

func (p *serverParser) take(b []byte) (event, error) {
	switch p.stage {
	case atStart:
		word := binary.BigEndian.Uint32(b)
		if word == preamble {
			p.stage, p.opened = atFrame, false
			return event{kind: callBegins}, nil
		}
		p.stage = atPlainBody
		return event{kind: callBegins}, p.setLength(word, stack.MaxMessageBytes)
	case atPlainBody:
		p.stage = atStart
		return event{kind: plainMessage, body: b}, nil
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
		return event{kind: p.kind, body: b}, nil
	}
}

// clientParser reads the answers to calls, one call at a time.
type clientParser struct {
	frames
	limit int // the largest message that the caller accepts
}

// expectPlain prepares for the answer to a plain call.
func (p *clientParser) expectPlain(limit int) {
	p.frames, p.limit = frames{stage: atStart}, limit
}

// expectFrames prepares for the answer to a call with a preamble.
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
		return event{kind: plainMessage, body: b}, nil
	case atFailure:
		p.stage = atStart
		return event{kind: plainFailure, body: b}, nil
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
		return event{kind: p.kind, body: b}, nil
	}
}
