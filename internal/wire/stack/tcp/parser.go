package tcp

import (
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/wire/stack"
)

// want is the input that a parser needs next.
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

// parser turns the bytes of a connection into events. It says how many bytes it wants
// next and gets exactly those; it reads no socket and keeps no bytes. After an error the
// rest of the connection cannot be parsed.
//
// A server's parser reads calls. Each call selects its framing by its first four
// bytes. A client's parser reads answers, one call at a time: expect prepares it.
type parser struct {
	server bool
	limit  int // the largest message
	stage  stage
	length int
	kind   eventKind // of the frame whose body is next
	opened bool      // this call's head was read
}

func newServerParser() parser { return parser{server: true, limit: stack.MaxMessageBytes} }

// expect prepares for the answer to a plain call (atStart), or to a call with a preamble
// (atFrame).
func (p *parser) expect(first stage, limit int) { *p = parser{stage: first, limit: limit} }

func (p *parser) want() want {
	switch p.stage {
	case atStart:
		return want{bytes: lengthBytes}
	case atFrame:
		return want{bytes: frameHeadBytes}
	default:
		return want{bytes: p.length, body: true}
	}
}

// take parses the bytes that were wanted.
func (p *parser) take(b []byte) (event, error) {
	switch p.stage {
	case atStart:
		return p.takeStart(binary.BigEndian.Uint32(b))
	case atPlainBody:
		p.stage = atStart
		return event{kind: plainMessage, body: b}, nil
	case atFailure:
		p.stage = atStart
		return event{kind: plainFailure, body: b}, nil
	case atFrame:
		return event{}, p.takeFrame(b)
	default:
		p.stage = atFrame
		if p.server && p.kind == end {
			p.stage = atStart
		}
		return event{kind: p.kind, body: b}, nil
	}
}

// takeStart reads the first word of a call, or of a plain answer.
func (p *parser) takeStart(word uint32) (event, error) {
	switch {
	case p.server && word == preamble:
		p.stage, p.opened = atFrame, false
		return event{kind: callBegins}, nil
	case p.server:
		p.stage = atPlainBody
		return event{kind: callBegins}, p.setLength(word, p.limit)
	case word&failedBit != 0:
		p.stage = atFailure
		return event{}, p.setLength(word&^failedBit, maxHeadBytes)
	default:
		p.stage = atPlainBody
		return event{}, p.setLength(word, p.limit)
	}
}

// takeFrame reads a frame's kind and length.
func (p *parser) takeFrame(b []byte) error {
	length, limit := binary.BigEndian.Uint32(b[1:]), maxHeadBytes
	switch b[0] {
	case kindHead:
		p.kind = head
	case kindMessage:
		p.kind, limit = message, p.limit
	case kindEnd:
		p.kind = end
	default:
		return errMalformed("unknown frame kind %#x", b[0])
	}
	p.stage = atBody
	if err := p.setLength(length, limit); err != nil {
		return err
	}
	switch {
	case p.kind == head && p.opened, p.server && p.kind != head && !p.opened:
		return errMalformed("a call or an answer has one head, before everything else")
	case p.server && p.kind == end && length > 0:
		return errMalformed("a client's end frame of %d bytes", length)
	}
	p.opened = true
	return nil
}

func (p *parser) setLength(length uint32, limit int) error {
	if uint64(length) > uint64(limit) {
		return status.Errorf(codes.ResourceExhausted, "a frame of %d bytes is announced, %d are allowed", length, limit)
	}
	p.length = int(length)
	return nil
}
