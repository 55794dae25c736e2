package message

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
)

// assembler splits a stream's content into messages. A message that lies whole in the
// chunk it was received in is not copied here. The memory of others is counted in kept.
type assembler struct {
	limit      int
	kept       *batchio.Kept
	tight      bool // waste no memory
	granted    bool // all of the partial message may come, and memory is set aside for it
	prefix     [wire.PrefixLen]byte
	prefixRead int // bytes of prefix received
	bodyLen    int // length of the partial message, from its prefix
	body       *batchio.Buffer
}

// minAliasLen is the length from which a message retains the chunk it was received in.
// For shorter ones, a copy costs less than a chunk that cannot be reused.
const minAliasLen = 2 << 10

// minBody, bodyGrowth and tightGrowth bound the memory allocated for a message before its
// bytes arrive: the length in the prefix is only a claim.
const (
	minBody     = 512
	bodyGrowth  = 8
	tightGrowth = 2
)

// next takes a message from the front of data, which lies in chunk. chunk is nil if it
// must not be retained. next returns the rest of data; done reports whether a message
// was complete. A message without an owner lies in data.
func (a *assembler) next(data []byte, chunk *batchio.Buffer) (m Message, rest []byte, done bool, err error) {
	if a.prefixRead < wire.PrefixLen {
		n := copy(a.prefix[a.prefixRead:], data)
		a.prefixRead += n
		data = data[n:]
		if a.prefixRead < wire.PrefixLen {
			return m, nil, false, nil
		}
		if err := a.begin(); err != nil {
			return m, nil, false, err
		}
	}
	if a.body == nil && len(data) >= a.bodyLen {
		m.Compressed = a.prefix[0] == 1
		m.Data = data[:a.bodyLen:a.bodyLen]
		if chunk != nil && a.bodyLen >= minAliasLen {
			chunk.Retain()
			m.Owner = chunk
		}
		data = data[a.bodyLen:]
		a.prefixRead = 0
		return m, data, true, nil
	}
	data = a.appendBody(data)
	if len(a.body.Data) < a.bodyLen {
		return m, nil, false, nil
	}
	m = Message{Data: a.body.Data, Owner: a.body, Compressed: a.prefix[0] == 1}
	a.body, a.prefixRead = nil, 0
	return m, data, true, nil
}

// missing returns how many bytes the partial message lacks, as far as is known.
func (a *assembler) missing() int {
	switch {
	case a.prefixRead < wire.PrefixLen:
		return wire.PrefixLen - a.prefixRead
	case a.body == nil:
		return a.bodyLen
	}
	return a.bodyLen - len(a.body.Data)
}

func (a *assembler) begin() error {
	if a.prefix[0] > 1 {
		return status.Errorf(codes.Internal, "fastgrpc: message prefix has unknown flags %#x", a.prefix[0])
	}
	_, length := wire.ParsePrefix(a.prefix[:])
	if int64(length) > int64(a.limit) {
		return rpccall.TooLarge("fastgrpc: received message", int(length), a.limit)
	}
	a.bodyLen = int(length)
	return nil
}

func (a *assembler) newBuffer(n int) *batchio.Buffer {
	if a.tight {
		return newKeptBuffer(batchio.NewExactBuffer(n), a.kept)
	}
	return newKeptBuffer(batchio.NewBuffer(n), a.kept)
}

func newKeptBuffer(b *batchio.Buffer, kept *batchio.Kept) *batchio.Buffer {
	if kept != nil {
		b.Keep(kept)
	}
	return b
}

// appendBody appends to the partial message and returns the data that follows it.
func (a *assembler) appendBody(data []byte) []byte {
	have := 0
	if a.body != nil {
		have = len(a.body.Data)
	}
	n := min(len(data), a.bodyLen-have)
	if a.body == nil || have+n > cap(a.body.Data) {
		growth := bodyGrowth
		if a.tight && !a.granted {
			growth = tightGrowth
		}
		grown := a.newBuffer(min(a.bodyLen, max(growth*(have+n), minBody)))
		grown.Data = grown.Data[:have]
		if a.body != nil {
			copy(grown.Data, a.body.Data)
			a.body.Release()
		}
		a.body = grown
	}
	a.body.Data = append(a.body.Data, data[:n]...)
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
