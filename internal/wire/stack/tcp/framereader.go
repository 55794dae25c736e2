package tcp

import (
	"bufio"
	"errors"
	"io"
)

const (
	// firstClaimBytes is the most memory that is allocated for an announced
	// body before any of it has arrived. After that the buffer grows to at most
	// growth times what has arrived.
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
	r := &frameReader{source: conn, parser: p, buffers: newBufferPool(pooled)}
	if pooled {
		r.buffer()
	}
	return r
}

// buffer makes further reads of the connection buffered. Plain calls with
// buffers=fresh stay unbuffered: two reads a frame is what programs commonly do.
func (r *frameReader) buffer() {
	if _, buffered := r.source.(*bufio.Reader); !buffered {
		r.source = bufio.NewReader(r.source)
	}
}

// next returns the next event. Its body belongs to the caller, which returns it to
// the buffer pool.
func (r *frameReader) next() (event, error) {
	for {
		var b []byte
		var err error
		want := r.parser.want()
		if want.body {
			b, err = r.readBody(want.bytes)
		} else {
			b = r.small[:want.bytes]
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

// bufferPool keeps the buffers of one connection between frames. It is the only
// difference between buffers=pooled and buffers=fresh: with fresh the pool is
// nil, so get returns nil and put keeps nothing.
//
// A buffer stays as large as the largest frame it held: a connection that moved
// one large message keeps that memory until it ends. Any goroutine may use a
// bufferPool.
type bufferPool chan []byte

// pooledBuffers is the most buffers that a connection uses at once: the stream's
// window, one being read, one being written and one held by the handler.
const pooledBuffers = streamWindow + 3

func newBufferPool(pooled bool) bufferPool {
	if !pooled {
		return nil
	}
	return make(bufferPool, pooledBuffers)
}

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
