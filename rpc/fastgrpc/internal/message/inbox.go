package message

import (
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/h2"
)

// An Inbox holds the messages that a stream has received and its reader has not taken. The
// connection's lock guards it. Short messages share buffers, so that many unread ones
// cost little more than their bytes.
type Inbox struct {
	assembler assembler
	queue     rpccall.Queue[Message]
	held      int  // window that a partial message behind unread ones has used
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
		if pack != nil && pack.packed { // nobody reads
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

// Len returns the number of messages that can be taken, or less: short ones count as one.
func (i *Inbox) Len() int { return i.queue.Len() }

// Unfinished reports whether a part of a message has come, and not the rest.
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

// Drop releases what nobody will read.
func (i *Inbox) Drop() {
	for m, ok := i.queue.Take(); ok; m, ok = i.queue.Take() {
		m.Release()
	}
	i.assembler.drop()
}
