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
	// firstAllocationBytes limits the memory for a body before any of its bytes arrive. Later the
	// buffer is at most maxGrowth times as large as the bytes that have arrived.
	firstAllocationBytes = 256 << 10
	maxGrowth            = 4
)

// frameReader reads frames from a connection with a parser. Only one goroutine may use it at a
// time.
type frameReader struct {
	source  io.Reader
	parser  *parser
	buffers bufferPool
	wait    *peerWait // limits the wait for a body; nil at a client
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

// buffer makes all later reads buffered. Plain calls with buffers=fresh stay unbuffered, because
// simple programs also do two reads per frame.
func (r *frameReader) buffer() {
	if _, buffered := r.source.(*bufio.Reader); !buffered {
		r.source = bufio.NewReader(r.source)
	}
}

// next returns the next event. The caller must return its body to the buffer pool.
func (r *frameReader) next() (event, error) {
	for {
		var b []byte
		var err error
		sizeBytes, isBody := r.parser.nextSize()
		if isBody {
			b, err = r.readBody(sizeBytes)
		} else {
			b = r.small[:sizeBytes]
			_, err = io.ReadFull(r.source, b)
		}
		if err != nil {
			return event{}, err
		}
		ev, err := r.parser.parse(b)
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
		r.wait.end()
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

func makeRoom(b []byte, sizeBytes int) []byte {
	room := min(sizeBytes, max(firstAllocationBytes, maxGrowth*len(b)))
	if cap(b) >= room || (len(b) > 0 && len(b) < cap(b)) {
		return b
	}
	larger := make([]byte, len(b), room)
	copy(larger, b)
	return larger
}

// bufferPool keeps one connection's buffers between frames. A buffer grows to its largest frame.
// With buffers=fresh the pool is nil: get returns nil, and put does nothing. Any goroutine may use
// it.
type bufferPool chan []byte

// pooledBuffers is the largest number of buffers that a connection uses at once: the stream's
// window, and one each for reading, for writing and for the handler.
const pooledBuffers = streamWindow + 3

func (p bufferPool) get() []byte {
	select {
	case b := <-p:
		return b[:0]
	default:
		return nil
	}
}

// put returns a buffer to the pool. The caller must no longer use it.
func (p bufferPool) put(b []byte) {
	select {
	case p <- b:
	default:
	}
}

// event is a parsed part of what the peer sent. Its body shares memory with the input of parse.
type event struct {
	kind eventKind
	body []byte
}

type eventKind uint8

const (
	noEvent    eventKind = iota
	callBegins           // only for a server: the first bytes of a call have arrived
	plainMessage
	plainFailure // a plain answer that is a status, which is in the body
	head
	message
	end
)

type stage uint8

const (
	atStart     stage = iota // a plain length, or the preamble of a call
	atPlainBody              // a plain message
	atFailure                // the status of a plain answer
	atFrame                  // a frame's kind and length
	atBody                   // a frame's body
)

// parser converts a connection's bytes into events. It says how many bytes it needs, and gets
// exactly those. It uses no socket and keeps no bytes. After an error it cannot continue.
//
// A server's parser reads calls: the first four bytes select the framing. A client's parser reads
// answers: call beginAnswer before each.
type parser struct {
	server bool
	limit  int // size limit of a message
	stage  stage
	length int
	kind   eventKind // kind of the frame whose body comes next
	opened bool      // whether the head of this call was read
}

func newServerParser() parser { return parser{server: true, limit: stack.MaxMessageBytes} }

// beginAnswer prepares for the answer to a plain call (atStart), or to a call with a preamble
// (atFrame).
func (p *parser) beginAnswer(first stage, limit int) { *p = parser{stage: first, limit: limit} }

// nextSize returns the size of the next input. isBody says that the next input is a frame's body,
// whose length is known from the peer.
func (p *parser) nextSize() (sizeBytes int, isBody bool) {
	switch p.stage {
	case atStart:
		return lengthBytes, false
	case atFrame:
		return frameHeadBytes, false
	default:
		return p.length, true
	}
}

// parse parses the next input, of the size that nextSize returned.
func (p *parser) parse(b []byte) (event, error) {
	switch p.stage {
	case atStart:
		return p.parseStart(binary.BigEndian.Uint32(b))
	case atPlainBody:
		p.stage = atStart
		return event{kind: plainMessage, body: b}, nil
	case atFailure:
		p.stage = atStart
		return event{kind: plainFailure, body: b}, nil
	case atFrame:
		return event{}, p.parseFrameHead(b)
	default:
		p.stage = atFrame
		if p.server && p.kind == end {
			p.stage = atStart
		}
		return event{kind: p.kind, body: b}, nil
	}
}

func (p *parser) parseStart(word uint32) (event, error) {
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

func (p *parser) parseFrameHead(b []byte) error {
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
		return errMalformed("want exactly one head frame, before all other frames")
	case p.server && p.kind == end && length > 0:
		return errMalformed("a client's end frame has %d bytes: want an empty frame", length)
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

// stallInterval is the time between two checks for stalled peers. So a peer may pause for one to
// two intervals in the middle of a frame.
const stallInterval = 15 * time.Second

// peerWait records that a goroutine waits for its peer. If two checks in a row find the same
// number, the peer has stalled. A wait costs two atomic stores; a deadline would cost a call of the
// runtime's timers. A nil peerWait is never checked.
type peerWait struct {
	number atomic.Uint64 // number of the current wait; 0 means not waiting
	count  uint64        // number of waits so far; only the waiting goroutine uses it
	seen   uint64        // number at the previous check; only the check uses it
}

func (w *peerWait) begin() {
	if w != nil {
		w.count++
		w.number.Store(w.count)
	}
}

func (w *peerWait) end() {
	if w != nil {
		w.number.Store(0)
	}
}

// hasStalled reports whether the goroutine is in the same wait as at the previous call of
// hasStalled.
func (w *peerWait) hasStalled() bool {
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
