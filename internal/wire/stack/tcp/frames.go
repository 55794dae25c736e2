package tcp

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/wire/stack"
)

const (
	// firstClaimBytes is the most memory allocated for an announced body before any of it has
	// arrived. Later the buffer has at most growth times the bytes that have arrived.
	firstClaimBytes = 256 << 10
	growth          = 4
)

// frameReader reads a connection for a parser. One goroutine at a time may use it.
type frameReader struct {
	source  io.Reader
	parser  *parser
	buffers bufferPool
	wait    *peerWait // bounds the wait for a body; nil on a client
	small   [frameHeadBytes]byte
}

func newFrameReader(conn io.Reader, p *parser, pooled bool) *frameReader {
	r := &frameReader{source: conn, parser: p}
	if pooled {
		r.buffers = make(bufferPool, pooledBuffers)
		r.buffer()
	}
	return r
}

// buffer makes further reads buffered. Plain calls with buffers=fresh stay unbuffered: programs
// commonly do two reads per frame.
func (r *frameReader) buffer() {
	if _, buffered := r.source.(*bufio.Reader); !buffered {
		r.source = bufio.NewReader(r.source)
	}
}

// next returns the next event. The caller returns its body to the buffer pool.
func (r *frameReader) next() (event, error) {
	for {
		var b []byte
		var err error
		sizeBytes, isBody := r.parser.want()
		if isBody {
			b, err = r.readBody(sizeBytes)
		} else {
			b = r.small[:sizeBytes]
			_, err = io.ReadFull(r.source, b)
		}
		if err != nil {
			return event{}, err
		}
		ev, err := r.parser.take(b)
		if err != nil || ev.kind != noEvent {
			return ev, err
		}
	}
}

func (r *frameReader) readBody(sizeBytes int) ([]byte, error) {
	b := r.buffers.get()
	for len(b) < sizeBytes {
		b = makeRoom(b, sizeBytes)
		r.wait.begin()
		n, err := r.source.Read(b[len(b):min(cap(b), sizeBytes)])
		r.wait.stop()
		b = b[:len(b)+n]
		if err != nil && len(b) < sizeBytes {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return nil, err
		}
	}
	return b, nil
}

// makeRoom returns b with capacity to read more of a body of sizeBytes.
func makeRoom(b []byte, sizeBytes int) []byte {
	room := min(sizeBytes, max(firstClaimBytes, growth*len(b)))
	if cap(b) >= room || (len(b) > 0 && len(b) < cap(b)) {
		return b
	}
	larger := make([]byte, len(b), room)
	copy(larger, b)
	return larger
}

// bufferPool keeps the buffers of one connection between frames. Each has the size of the largest
// frame that it held. With buffers=fresh it is nil, so get returns nil and put keeps nothing; that
// is the only difference to buffers=pooled. Any goroutine may use it.
type bufferPool chan []byte

// pooledBuffers is the most buffers that a connection uses at once: the stream's window, and one
// each for reading, for writing and for the handler.
const pooledBuffers = streamWindow + 3

// get returns an empty buffer, which may be nil.
func (p bufferPool) get() []byte {
	select {
	case b := <-p:
		return b[:0]
	default:
		return nil
	}
}

// put returns a buffer to the pool. The caller must not use it afterwards.
func (p bufferPool) put(b []byte) {
	select {
	case p <- b:
	default:
	}
}

// event is one thing that the peer sent. Its body aliases the bytes that take received.
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

// stage names the bytes that a parser expects next.
type stage uint8

const (
	atStart     stage = iota // a plain length, or a server's preamble
	atPlainBody              // a plain message
	atFailure                // the status of a plain answer
	atFrame                  // a frame's kind and length
	atBody                   // a frame's body
)

// parser turns the bytes of a connection into events. It says how many bytes it wants next and gets
// exactly those; it reads no socket and keeps no bytes. After an error the rest cannot be parsed.
//
// A server's parser reads calls, whose first four bytes select the framing. A client's parser reads
// answers, one call at a time: expect prepares it.
type parser struct {
	server bool
	limit  int // the largest message
	stage  stage
	length int
	kind   eventKind // kind of the frame whose body is next
	opened bool      // this call's head was read
}

func newServerParser() parser { return parser{server: true, limit: stack.MaxMessageBytes} }

// expect prepares for the answer to a plain call (atStart), or to one with a preamble (atFrame).
func (p *parser) expect(first stage, limit int) { *p = parser{stage: first, limit: limit} }

// want returns the size of the next input, and whether that is a frame's body, whose length the
// peer has announced.
func (p *parser) want() (sizeBytes int, isBody bool) {
	switch p.stage {
	case atStart:
		return lengthBytes, false
	case atFrame:
		return frameHeadBytes, false
	default:
		return p.length, true
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

// stallInterval is the time between two checks for stalled peers. A peer may keep a server waiting
// in the middle of a frame for one to two intervals.
const stallInterval = 15 * time.Second

// peerWait records that a goroutine waits for its peer. A periodic check treats a wait as too long
// if it finds the same number twice in a row. A wait costs two atomic stores; a deadline would cost
// a call into the runtime's timers. A nil peerWait is never checked.
type peerWait struct {
	number atomic.Uint64 // the current wait's number; 0: none
	count  uint64        // used by the waiting goroutine
	seen   uint64        // used by the check
}

func (w *peerWait) begin() {
	if w != nil {
		w.count++
		w.number.Store(w.count)
	}
}

func (w *peerWait) stop() {
	if w != nil {
		w.number.Store(0)
	}
}

// stalled reports whether the wait that its last call found still lasts.
func (w *peerWait) stalled() bool {
	number, before := w.number.Load(), w.seen
	w.seen = number
	return number != 0 && number == before
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
