package fastgrpc

import (
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// prefixLen is the length of a gRPC message's prefix: a compression flag of one byte
// and the message's length.
const prefixLen = 5

// message is a received message. If owner is not nil, data points into it.
type message struct {
	data       []byte
	owner      *buffer
	compressed bool
	credit     int // bytes to return to the stream's window when the message is read
}

func (m *message) release() {
	if m.owner != nil {
		m.owner.Release()
	}
	*m = message{}
}

// putPrefix fills in the prefix at the start of b.
func putPrefix(b []byte, compressed bool) {
	b[0] = 0
	if compressed {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-prefixLen))
}

// assembler splits a stream's content into messages. A long message that lies whole in
// the chunk it was received in is not copied.
type assembler struct {
	limit      int
	prefix     [prefixLen]byte
	prefixRead int // bytes of prefix received
	bodyLen    int // length of the partial message, from its prefix
	body       *buffer
}

// minAliasLen is the length from which a message retains the chunk it was received in.
// For shorter ones, a copy costs less than a chunk that cannot be reused.
const minAliasLen = 2 << 10

// maxInitialBody bounds the memory allocated for a message before its bytes arrive:
// the length in the prefix is only a claim.
const maxInitialBody = 64 << 10

// next takes a message from the front of data, which lies in chunk. chunk is nil if it
// must not be retained. next returns the rest of data; done reports whether a message
// was complete.
func (a *assembler) next(data []byte, chunk *buffer) (m message, rest []byte, done bool, err error) {
	if a.prefixRead < prefixLen {
		n := copy(a.prefix[a.prefixRead:], data)
		a.prefixRead += n
		data = data[n:]
		if a.prefixRead < prefixLen {
			return m, nil, false, nil
		}
		if err := a.begin(); err != nil {
			return m, nil, false, err
		}
	}
	if a.body == nil && len(data) >= a.bodyLen {
		m = a.wholeMessage(data[:a.bodyLen:a.bodyLen], chunk)
		data = data[a.bodyLen:]
		a.prefixRead = 0
		return m, data, true, nil
	}
	data = a.appendBody(data)
	if len(a.body.data) < a.bodyLen {
		return m, nil, false, nil
	}
	m = message{data: a.body.data, owner: a.body, compressed: a.prefix[0] == 1}
	a.body, a.prefixRead = nil, 0
	return m, data, true, nil
}

func (a *assembler) begin() error {
	if a.prefix[0] > 1 {
		return status.Errorf(codes.Internal, "fastgrpc: message prefix has unknown flags %#x", a.prefix[0])
	}
	length := binary.BigEndian.Uint32(a.prefix[1:])
	if int64(length) > int64(a.limit) {
		return tooLarge("received message", int(length), a.limit)
	}
	a.bodyLen = int(length)
	return nil
}

func tooLarge(what string, size, limit int) error {
	return status.Errorf(codes.ResourceExhausted, "fastgrpc: %s larger than max (%d vs. %d)", what, size, limit)
}

func (a *assembler) wholeMessage(data []byte, chunk *buffer) message {
	m := message{compressed: a.prefix[0] == 1}
	switch {
	case len(data) == 0:
	case chunk != nil && len(data) >= minAliasLen:
		chunk.retain()
		m.data, m.owner = data, chunk
	default:
		m.owner = newBuffer(len(data))
		m.data = m.owner.data
		copy(m.data, data)
	}
	return m
}

// appendBody appends to the partial message and returns the data that follows it.
func (a *assembler) appendBody(data []byte) []byte {
	if a.body == nil {
		a.body = newBuffer(min(a.bodyLen, max(maxInitialBody, len(data))))
		a.body.data = a.body.data[:0]
	}
	n := min(len(data), a.bodyLen-len(a.body.data))
	if have := len(a.body.data); have+n > cap(a.body.data) {
		grown := newBuffer(min(a.bodyLen, max(2*have, have+n)))
		grown.data = grown.data[:copy(grown.data, a.body.data)]
		a.body.Release()
		a.body = grown
	}
	a.body.data = append(a.body.data, data[:n]...)
	return data[n:]
}

// drop discards the partial message.
func (a *assembler) drop() {
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
	a.prefixRead = 0
}

// inbox holds the messages that a stream has received and its reader has not taken. The
// connection's lock guards it.
type inbox struct {
	assembler assembler
	queue     []message
	first     [1]message // memory for a queue of one
	held      int        // window that a partial message behind unread ones has used
}

func (i *inbox) init(limit int) {
	i.assembler.limit = limit
	i.queue = i.first[:0]
}

// receive splits data into messages, of which a call that does not stream has one. The
// window that a streamed message has used is returned when it is read, any other at once.
func (i *inbox) receive(t *transport, s *h2.Stream, data []byte, streaming bool) error {
	chunk := t.retainable()
	for len(data) > 0 {
		m, rest, done, err := i.assembler.next(data, chunk)
		m.credit = len(data) - len(rest)
		data = rest
		switch {
		case err != nil:
			t.h2.Consume(s, m.credit+len(data))
			return err
		case !done && (!streaming || len(i.queue) == 0):
			// No complete message is waiting, so let the partial one grow to its limit.
			t.h2.Consume(s, m.credit)
		case !done:
			i.held += m.credit
		case streaming:
			m.credit += i.held
			i.held = 0
			i.queue = append(i.queue, m)
		default:
			t.h2.Consume(s, m.credit)
			i.queue = append(i.queue, m)
			if len(i.queue) > 1 {
				t.h2.Consume(s, len(data))
				return status.Error(codes.Internal, "fastgrpc: more than one message in a unary call")
			}
		}
	}
	return nil
}

// take removes the oldest message. Its credit is what the reader returns to the window.
func (i *inbox) take() (m message, ok bool) {
	if len(i.queue) == 0 {
		return m, false
	}
	m = i.queue[0]
	i.queue[0] = message{}
	i.queue = i.queue[1:]
	if len(i.queue) == 0 {
		i.queue = i.first[:0]
		m.credit += i.held
		i.held = 0
	}
	return m, true
}

func (i *inbox) drop() {
	for n := range i.queue {
		i.queue[n].release()
	}
	i.queue = nil
	i.assembler.drop()
}
