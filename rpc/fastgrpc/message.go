package fastgrpc

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// message is a received message. If owner is not nil, data points into it.
type message struct {
	data       []byte
	owner      *batchio.Buffer
	compressed bool
	packed     bool // data holds several short messages with their prefixes, see inbox
	credit     int  // bytes to return to the stream's window when the message is read
}

func (m *message) release() {
	if m.owner != nil {
		m.owner.Release()
	}
	*m = message{}
}

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
func (a *assembler) next(data []byte, chunk *batchio.Buffer) (m message, rest []byte, done bool, err error) {
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
		m.compressed = a.prefix[0] == 1
		m.data = data[:a.bodyLen:a.bodyLen]
		if chunk != nil && a.bodyLen >= minAliasLen {
			chunk.Retain()
			m.owner = chunk
		}
		data = data[a.bodyLen:]
		a.prefixRead = 0
		return m, data, true, nil
	}
	data = a.appendBody(data)
	if len(a.body.Data) < a.bodyLen {
		return m, nil, false, nil
	}
	m = message{data: a.body.Data, owner: a.body, compressed: a.prefix[0] == 1}
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

// inbox holds the messages that a stream has received and its reader has not taken. The
// connection's lock guards it. Short messages share buffers, so that many unread ones
// cost little more than their bytes.
type inbox struct {
	assembler assembler
	queue     rpccall.Queue[message]
	held      int  // window that a partial message behind unread ones has used
	partial   bool // an incomplete message has been reported to the h2.Conn
}

func (i *inbox) init(limit int) { i.assembler.limit = limit }

// receive splits data into messages, of which a call that does not stream has one. The
// window that a streamed message has used is returned when it is read, any other at once.
func (i *inbox) receive(c *conn, s *h2.Stream, data []byte, streaming bool) error {
	var chunk *batchio.Buffer
	if !c.h2.CopyContent() {
		chunk = c.Chunk()
	}
	i.assembler.kept, i.assembler.tight, i.assembler.granted = c.Kept(), chunk == nil, s.Granted()
	for len(data) > 0 {
		m, rest, done, err := i.assembler.next(data, chunk)
		m.credit = len(data) - len(rest)
		data = rest
		if done && i.partial {
			i.partial = false
			c.h2.Complete(s)
		}
		switch {
		case err != nil:
			c.h2.Consume(s, m.credit+len(data))
			return err
		case !done && (!streaming || i.queue.Len() == 0):
			// No complete message is waiting, so let the partial one grow to its limit.
			i.partial = true
			c.h2.ConsumePartial(s, m.credit, i.assembler.missing())
		case !done:
			i.held += m.credit
		case streaming:
			m.credit += i.held
			i.held = 0
			i.add(m)
		default:
			c.h2.Consume(s, m.credit)
			i.adopt(&m)
			i.queue.Put(m)
			if i.queue.Len() > 1 {
				c.h2.Consume(s, len(data))
				return status.Error(codes.Internal, "fastgrpc: more than one message in a unary call")
			}
		}
	}
	return nil
}

// adopt copies a message that lies in the read buffer.
func (i *inbox) adopt(m *message) {
	if m.owner != nil || len(m.data) == 0 {
		return
	}
	m.owner = i.assembler.newBuffer(len(m.data))
	m.data = m.owner.Data[:copy(m.owner.Data, m.data)]
}

// packSize bounds the buffers that short messages share, and packGrowth how much larger
// each is than the one before.
const (
	packSize   = 16 << 10
	packGrowth = 4
)

// add queues a message of a stream.
func (i *inbox) add(m message) {
	if m.owner != nil || len(m.data) >= minAliasLen {
		i.adopt(&m)
		i.queue.Put(m)
		return
	}
	need := wire.PrefixLen + len(m.data)
	pack := i.queue.Last()
	if pack == nil || !pack.packed || cap(pack.owner.Data)-len(pack.owner.Data) < need {
		size := need
		if pack != nil && pack.packed { // nobody reads
			size = max(size, min(packSize, packGrowth*cap(pack.owner.Data)))
		}
		b := i.assembler.newBuffer(size)
		b.Data = b.Data[:0]
		i.queue.Put(message{packed: true, owner: b})
		pack = i.queue.Last()
	}
	unread := len(pack.data)
	b := pack.owner.Data
	at := len(b)
	b = append(b[:at+wire.PrefixLen], m.data...)
	wire.PutPrefix(b[at:], m.compressed)
	pack.owner.Data = b
	pack.data = b[at-unread:]
}

// take removes the oldest message. Its credit is what the reader returns to the window.
func (i *inbox) take() (m message, ok bool) {
	if i.queue.Len() == 0 {
		return m, false
	}
	if pack := i.queue.First(); pack.packed {
		flags, length := wire.ParsePrefix(pack.data)
		n := wire.PrefixLen + int(length)
		m = message{data: pack.data[wire.PrefixLen:n:n], owner: pack.owner, compressed: flags == 1, credit: n}
		if rest := pack.data[n:]; len(rest) > 0 {
			m.owner.Retain()
			pack.data = rest
			return m, true
		}
		_, _ = i.queue.Take()
	} else {
		m, _ = i.queue.Take()
	}
	if i.queue.Len() == 0 {
		m.credit += i.held
		i.held = 0
	}
	return m, true
}

func (i *inbox) drop() {
	for m, ok := i.queue.Take(); ok; m, ok = i.queue.Take() {
		m.release()
	}
	i.assembler.drop()
}
