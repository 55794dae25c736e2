package fastgrpc

import (
	"encoding/binary"
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// prefixLen is the length of the prefix of a gRPC message: a byte that tells
// whether it is compressed, and its length.
const prefixLen = 5

// message is a received message. Its data lies in owner, where that is not nil.
type message struct {
	data       []byte
	owner      *buffer
	compressed bool
	credit     int // received bytes to give back to the stream's window on reading
}

func (m *message) release() {
	if m.owner != nil {
		m.owner.Release()
	}
	*m = message{}
}

// putPrefix fills in the prefix that b begins with.
func putPrefix(b []byte, compressed bool) {
	b[0] = 0
	if compressed {
		b[0] = 1
	}
	binary.BigEndian.PutUint32(b[1:], uint32(len(b)-prefixLen))
}

// assembler cuts a stream's content into messages. It is pure: content in, messages
// out; a message that lies whole in the chunk it came in is not copied.
type assembler struct {
	limit  int
	prefix [prefixLen]byte
	have   int // bytes of prefix
	need   int // length of the message under way
	body   *buffer
}

// aliasFrom is the length from which a message keeps the chunk it was received in;
// below it a copy is cheaper than a chunk that cannot be used again.
const aliasFrom = 2 << 10

// firstBody bounds what a length that a peer merely claims can make us allocate.
const firstBody = 64 << 10

// next takes a message from the front of data, which lies in chunk; chunk is nil
// where it must not be kept. It returns the rest of data; done tells whether there
// was a whole message.
func (a *assembler) next(data []byte, chunk *buffer) (m message, rest []byte, done bool, err error) {
	if a.have < prefixLen {
		n := copy(a.prefix[a.have:], data)
		a.have += n
		data = data[n:]
		if a.have < prefixLen {
			return m, nil, false, nil
		}
		if err := a.begin(); err != nil {
			return m, nil, false, err
		}
	}
	if a.body == nil && len(data) >= a.need {
		m = a.inPlace(data[:a.need:a.need], chunk)
		data = data[a.need:]
		a.have = 0
		return m, data, true, nil
	}
	data = a.gather(data)
	if len(a.body.data) < a.need {
		return m, nil, false, nil
	}
	m = message{data: a.body.data, owner: a.body, compressed: a.prefix[0] == 1}
	a.body, a.have = nil, 0
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
	a.need = int(length)
	return nil
}

func tooLarge(what string, size, limit int) error {
	return status.Error(codes.ResourceExhausted,
		fmt.Sprintf("fastgrpc: %s larger than max (%d vs. %d)", what, size, limit))
}

func (a *assembler) inPlace(data []byte, chunk *buffer) message {
	m := message{compressed: a.prefix[0] == 1}
	switch {
	case len(data) == 0:
	case chunk != nil && len(data) >= aliasFrom:
		chunk.retain()
		m.data, m.owner = data, chunk
	default:
		m.owner = newBuffer(len(data))
		m.data = m.owner.data
		copy(m.data, data)
	}
	return m
}

// gather appends to the message under way and returns what lies behind it.
func (a *assembler) gather(data []byte) []byte {
	if a.body == nil {
		a.body = newBuffer(min(a.need, max(firstBody, len(data))))
		a.body.data = a.body.data[:0]
	}
	n := min(len(data), a.need-len(a.body.data))
	if have := len(a.body.data); have+n > cap(a.body.data) {
		grown := newBuffer(min(a.need, max(2*have, have+n)))
		grown.data = grown.data[:copy(grown.data, a.body.data)]
		a.body.Release()
		a.body = grown
	}
	a.body.data = append(a.body.data, data[:n]...)
	return data[n:]
}

// drop forgets the message under way.
func (a *assembler) drop() {
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
	a.have = 0
}
