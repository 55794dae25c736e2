package tcp

import (
	"bufio"
	"errors"
	"io"
)

const (
	// firstClaimBytes is how much memory a peer gets for announcing a body.
	// More is given for what has arrived, growth times as much.
	firstClaimBytes = 256 << 10
	growth          = 4
)

// inbox reads a connection for a parser. One goroutine at a time may use it.
type inbox struct {
	source io.Reader
	parser parser
	shelf  shelf
	spell  *spell // of a server, which must not wait for a body for ever; else nil
	small  [frameHeadBytes]byte
}

func newInbox(conn io.Reader, p parser, pooled bool) *inbox {
	in := &inbox{source: conn, parser: p, shelf: newShelf(pooled)}
	if pooled {
		in.buffer()
	}
	return in
}

// buffer has the connection read through a buffer from now on. Fresh plain
// calls do without: their two reads a frame are what is commonly written.
func (in *inbox) buffer() {
	if _, buffered := in.source.(*bufio.Reader); !buffered {
		in.source = bufio.NewReader(in.source)
	}
}

// next returns what the peer says next. The event's body belongs to the caller,
// who puts it on the shelf when it is read.
func (in *inbox) next() (event, error) {
	for {
		var b []byte
		var err error
		want := in.parser.want()
		if want.body {
			b, err = in.readBody(want.bytes)
		} else {
			b = in.small[:want.bytes]
			_, err = io.ReadFull(in.source, b)
		}
		if err != nil {
			return event{}, err
		}
		said, err := in.parser.take(b)
		if err != nil || said.what != nothingYet {
			return said, err
		}
	}
}

func (in *inbox) readBody(sizeBytes int) ([]byte, error) {
	b := in.shelf.take()
	for len(b) < sizeBytes {
		b = makeRoom(b, sizeBytes)
		in.spell.begin()
		n, err := in.source.Read(b[len(b):min(cap(b), sizeBytes)])
		in.spell.end()
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

// makeRoom returns b with room for more of a body of that size.
func makeRoom(b []byte, sizeBytes int) []byte {
	room := min(sizeBytes, max(firstClaimBytes, growth*len(b)))
	if cap(b) >= room || (len(b) > 0 && len(b) < cap(b)) {
		return b
	}
	larger := make([]byte, len(b), room)
	copy(larger, b)
	return larger
}
