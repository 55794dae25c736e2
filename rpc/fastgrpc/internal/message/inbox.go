package message

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// An Inbox holds the messages that a stream has received but its reader has not read. The
// connection's lock guards it. Short messages share buffers, so that many unread messages need
// little more memory than their bytes.
type Inbox struct {
	assembler assembler
	queue     rpccall.Queue[Message]
	held      int  // bytes of a partial message that follows unread messages
	partial   bool // ConsumePartial was called for the incomplete message
}

// Init prepares a zero Inbox. It limits the length of each message, in bytes.
func (i *Inbox) Init(limit int) { i.assembler.limit = limit }

// A Source is the connection from which an Inbox receives.
type Source struct {
	Conn *batchio.Conn
	H2   *h2.Conn
}

// Receive splits data into messages and queues them. If streaming is false, a second message is an
// error. The reader of a streamed message gives its bytes back to the flow-control window. Receive
// itself does that for all other messages.
func (i *Inbox) Receive(from Source, s *h2.Stream, data []byte, streaming bool) error {
	var chunk *batchio.Buffer
	if !from.H2.CopyContent() {
		chunk = from.Conn.Chunk()
	}
	i.assembler.kept, i.assembler.tight, i.assembler.granted = from.Conn.KeptMemory(), chunk == nil, s.Granted()
	for len(data) > 0 {
		m, rest, done, err := i.assembler.nextMessage(data, chunk)
		m.Credit = len(data) - len(rest)
		data = rest
		if done && i.partial {
			i.partial = false
			from.H2.CompleteMessage(s)
		}
		switch {
		case err != nil:
			from.H2.Consume(s, m.Credit+len(data))
			return err
		case !done && (!streaming || i.queue.Len() == 0):
			// No complete message waits to be read, so the peer may send all of this message.
			i.partial = true
			from.H2.ConsumePartial(s, m.Credit, i.assembler.missingBytes())
		case !done:
			i.held += m.Credit
		case streaming:
			m.Credit += i.held
			i.held = 0
			i.queueMessage(m)
		default:
			from.H2.Consume(s, m.Credit)
			i.copyFromReadBuffer(&m)
			i.queue.Put(m)
			if i.queue.Len() > 1 {
				from.H2.Consume(s, len(data))
				return status.Error(codes.Internal, "fastgrpc: the peer sent more than one message, want one")
			}
		}
	}
	return nil
}

// copyFromReadBuffer copies a message without an owner, whose bytes are still in the read buffer.
func (i *Inbox) copyFromReadBuffer(m *Message) {
	if m.Owner != nil || len(m.Data) == 0 {
		return
	}
	m.Owner = i.assembler.newBuffer(len(m.Data))
	m.Data = m.Owner.Data[:copy(m.Owner.Data, m.Data)]
}

// maxPackBytes is the size of the largest buffer that short messages share. Each new buffer is
// packGrowth times as large as the last one, up to that size.
const (
	maxPackBytes = 16 << 10
	packGrowth   = 4
)

// queueMessage queues a message of a stream. It packs short messages into a shared buffer.
func (i *Inbox) queueMessage(m Message) {
	if m.Owner != nil || len(m.Data) >= minAliasLen {
		i.copyFromReadBuffer(&m)
		i.queue.Put(m)
		return
	}
	need := wire.PrefixLen + len(m.Data)
	pack := i.queue.Last()
	if pack == nil || !pack.packed || cap(pack.Owner.Data)-len(pack.Owner.Data) < need {
		size := need
		if pack != nil && pack.packed { // messages arrive faster than they are read
			size = max(size, min(maxPackBytes, packGrowth*cap(pack.Owner.Data)))
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

// Len returns the number of unread messages. Short messages in a shared buffer count as one.
func (i *Inbox) Len() int { return i.queue.Len() }

// Unfinished reports whether a message has arrived only in part.
func (i *Inbox) Unfinished() bool { return i.assembler.prefixRead > 0 }

// Take removes and returns the oldest message. The caller must return the message's Credit to the
// stream's window.
func (i *Inbox) Take() (m Message, ok bool) {
	if i.queue.Len() == 0 {
		return m, false
	}
	if pack := i.queue.First(); pack.packed {
		flags, length := wire.ParsePrefix(pack.Data)
		n := wire.PrefixLen + int(length)
		m = Message{Data: pack.Data[wire.PrefixLen:n:n], Owner: pack.Owner, Compressed: flags == 1, Credit: n}
		if rest := pack.Data[n:]; len(rest) > 0 {
			if m.Owner != nil {
				m.Owner.Retain()
			}
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

// EndCall leaves the memory of unread messages to the garbage collector, because perhaps nobody will
// read them: the connection no longer counts it. An incomplete message is dropped.
func (i *Inbox) EndCall() {
	for m := range i.queue.All() {
		if m.Owner != nil {
			m.Owner.Abandon()
			m.Owner = nil
		}
	}
	i.assembler.drop()
}

// Drop releases all messages.
func (i *Inbox) Drop() {
	for m, ok := i.queue.Take(); ok; m, ok = i.queue.Take() {
		m.Release()
	}
	i.assembler.drop()
}

// assembler splits a stream's content into messages. It does not copy a message that is complete in
// one chunk of the read buffer. It counts the memory of all other messages in kept.
type assembler struct {
	limit      int
	kept       *batchio.KeptMemory
	tight      bool // memory is short, so buffers must have no unused bytes
	granted    bool // the memory for the whole partial message is reserved
	prefix     [wire.PrefixLen]byte
	prefixRead int // bytes of prefix received
	bodyLen    int // length of the partial message, from its prefix
	body       *batchio.Buffer
}

// minAliasLen is the least length of a message that retains its chunk. Copying a shorter message
// costs less than keeping the chunk, which then cannot be reused.
const minAliasLen = 2 << 10

// minBodyBytes, bodyGrowth and tightGrowth limit the memory for a message whose bytes have not
// arrived, because the length in its prefix may be false.
const (
	minBodyBytes = 512
	bodyGrowth   = 8
	tightGrowth  = 2
)

// nextMessage reads a message from the front of data and returns the rest of data. data is a part
// of chunk; chunk is nil if messages must not retain it. done reports whether the message is
// complete. A message without an owner points into data.
func (a *assembler) nextMessage(data []byte, chunk *batchio.Buffer) (m Message, rest []byte, done bool, err error) {
	if a.prefixRead < wire.PrefixLen {
		n := copy(a.prefix[a.prefixRead:], data)
		a.prefixRead += n
		data = data[n:]
		if a.prefixRead < wire.PrefixLen {
			return m, nil, false, nil
		}
		if err := a.parsePrefix(); err != nil {
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

// missingBytes returns how many bytes the partial message still needs. If its prefix is incomplete,
// it returns how many bytes the prefix still needs.
func (a *assembler) missingBytes() int {
	switch {
	case a.prefixRead < wire.PrefixLen:
		return wire.PrefixLen - a.prefixRead
	case a.body == nil:
		return a.bodyLen
	}
	return a.bodyLen - len(a.body.Data)
}

func (a *assembler) parsePrefix() error {
	if a.prefix[0] > 1 {
		return status.Errorf(codes.Internal, "fastgrpc: a message prefix has the flags %#x, want 0 or 1", a.prefix[0])
	}
	_, length := wire.ParsePrefix(a.prefix[:])
	if int64(length) > int64(a.limit) {
		return rpccall.TooLargeError("fastgrpc: received message", int(length), a.limit)
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
		b.CountIn(a.kept)
	}
	return b
}

// appendBody appends data to the partial message. It returns the data after the message.
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
		grown := a.newBuffer(min(a.bodyLen, max(growth*(have+n), minBodyBytes)))
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
