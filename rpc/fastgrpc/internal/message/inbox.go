package message

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// An Inbox holds the messages that a stream has received and its reader has not read. The
// connection's lock guards it. Short messages share buffers, so that many unread ones cost little
// more than their bytes.
type Inbox struct {
	assembler assembler
	queue     rpccall.Queue[Message]
	held      int  // window used by a partial message behind unread ones
	partial   bool // an incomplete message has been reported to the h2.Conn
}

// Init prepares a zero Inbox for messages of up to limit bytes.
func (i *Inbox) Init(limit int) { i.assembler.limit = limit }

// A Source is the connection from which an Inbox receives.
type Source struct {
	Conn *batchio.Conn
	H2   *h2.Conn
}

// Receive splits data into messages. A call that does not stream has one. The
// window that a streamed message has used is returned when it is read, any other at once.
func (i *Inbox) Receive(from Source, s *h2.Stream, data []byte, streaming bool) error {
	var chunk *batchio.Buffer
	if !from.H2.CopyContent() {
		chunk = from.Conn.Chunk()
	}
	i.assembler.kept, i.assembler.tight, i.assembler.granted = from.Conn.Kept(), chunk == nil, s.Granted()
	for len(data) > 0 {
		m, rest, done, err := i.assembler.next(data, chunk)
		m.Credit = len(data) - len(rest)
		data = rest
		if done && i.partial {
			i.partial = false
			from.H2.Complete(s)
		}
		switch {
		case err != nil:
			from.H2.Consume(s, m.Credit+len(data))
			return err
		case !done && (!streaming || i.queue.Len() == 0):
			// No complete message is waiting, so let the partial one grow to its limit.
			i.partial = true
			from.H2.ConsumePartial(s, m.Credit, i.assembler.missing())
		case !done:
			i.held += m.Credit
		case streaming:
			m.Credit += i.held
			i.held = 0
			i.add(m)
		default:
			from.H2.Consume(s, m.Credit)
			i.adopt(&m)
			i.queue.Put(m)
			if i.queue.Len() > 1 {
				from.H2.Consume(s, len(data))
				return status.Error(codes.Internal, "fastgrpc: more than one message in a unary call")
			}
		}
	}
	return nil
}

// adopt copies a message that lies in the read buffer.
func (i *Inbox) adopt(m *Message) {
	if m.Owner != nil || len(m.Data) == 0 {
		return
	}
	m.Owner = i.assembler.newBuffer(len(m.Data))
	m.Data = m.Owner.Data[:copy(m.Owner.Data, m.Data)]
}

// packSize bounds the buffers that short messages share, and packGrowth how much larger
// each is than the one before.
const (
	packSize   = 16 << 10
	packGrowth = 4
)

// add queues a message of a stream.
func (i *Inbox) add(m Message) {
	if m.Owner != nil || len(m.Data) >= minAliasLen {
		i.adopt(&m)
		i.queue.Put(m)
		return
	}
	need := wire.PrefixLen + len(m.Data)
	pack := i.queue.Last()
	if pack == nil || !pack.packed || cap(pack.Owner.Data)-len(pack.Owner.Data) < need {
		size := need
		if pack != nil && pack.packed { // the reader does not keep up
			size = max(size, min(packSize, packGrowth*cap(pack.Owner.Data)))
		}
		b := i.assembler.newBuffer(size)
		b.Data = b.Data[:0]
		i.queue.Put(Message{packed: true, Owner: b})
		pack = i.queue.Last()
	}
	unread := len(pack.Data)
	b := pack.Owner.Data
	at := len(b)
	b = append(b[:at+wire.PrefixLen], m.Data...)
	wire.PutPrefix(b[at:], m.Compressed)
	pack.Owner.Data = b
	pack.Data = b[at-unread:]
}

// Len returns the number of waiting messages, or less: short ones in one buffer count as one.
func (i *Inbox) Len() int { return i.queue.Len() }

// Unfinished reports whether only a part of a message has come.
func (i *Inbox) Unfinished() bool { return i.assembler.prefixRead > 0 }

// DropPartial releases the part of a message whose rest will not come.
func (i *Inbox) DropPartial() { i.assembler.drop() }

// Take removes the oldest message and returns it. The reader returns its credit to the window.
func (i *Inbox) Take() (m Message, ok bool) {
	if i.queue.Len() == 0 {
		return m, false
	}
	if pack := i.queue.First(); pack.packed {
		flags, length := wire.ParsePrefix(pack.Data)
		n := wire.PrefixLen + int(length)
		m = Message{Data: pack.Data[wire.PrefixLen:n:n], Owner: pack.Owner, Compressed: flags == 1, Credit: n}
		if rest := pack.Data[n:]; len(rest) > 0 {
			m.Owner.Retain()
			pack.Data = rest
			return m, true
		}
		_, _ = i.queue.Take()
	} else {
		m, _ = i.queue.Take()
	}
	if i.queue.Len() == 0 {
		m.Credit += i.held
		i.held = 0
	}
	return m, true
}

// Drop releases the messages that nobody will read.
func (i *Inbox) Drop() {
	for m, ok := i.queue.Take(); ok; m, ok = i.queue.Take() {
		m.Release()
	}
	i.assembler.drop()
}

// assembler splits a stream's content into messages. It does not copy a message that lies whole in
// its chunk. The memory of the others is counted in kept.
type assembler struct {
	limit      int
	kept       *batchio.Kept
	tight      bool // waste no memory
	granted    bool // all of the partial message may come, and its memory is reserved
	prefix     [wire.PrefixLen]byte
	prefixRead int // bytes of prefix received
	bodyLen    int // length of the partial message, from its prefix
	body       *batchio.Buffer
}

// minAliasLen is the least length of a message that retains its chunk. For shorter ones, a copy
// costs less than a chunk that cannot be reused.
const minAliasLen = 2 << 10

// minBody, bodyGrowth and tightGrowth bound the memory allocated for a message before its
// bytes arrive: the length in the prefix is only a claim.
const (
	minBody     = 512
	bodyGrowth  = 8
	tightGrowth = 2
)

// next takes a message from the front of data, which lies in chunk. If the message must not retain
// it, chunk is nil. next returns the rest of data; done reports whether a message was complete. A
// message without an owner lies in data.
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

// missing returns the number of bytes that the partial message lacks, as far as known.
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
	allocate := batchio.NewBuffer
	if a.tight {
		allocate = batchio.NewExactBuffer
	}
	b := allocate(n)
	if a.kept != nil {
		b.Keep(a.kept)
	}
	return b
}

// appendBody appends data to the partial message and returns the rest.
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

func (a *assembler) drop() {
	if a.body != nil {
		a.body.Release()
		a.body = nil
	}
	a.prefixRead = 0
}
