package link

import (
	"encoding/binary"
	"maps"
	"slices"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// A Stream is one end of a call. Its zero value has not begun.
type Stream struct {
	// Owner belongs to the handler.
	Owner any

	id    uint32
	state state
	send  credit.Stream
	queue []item // items to be sent, in order; the first is being sent
	head  []byte // the bytes before the first item's message in its first frame
	// oneItem and shortHead are the memory of queue and head in most calls.
	oneItem   [1]item
	shortHead [16]byte

	window      credit.Window   // for the bytes that this end has not read
	held        int64           // credit of the connection, which ReturnHeld returns to the peer
	incoming    *batchio.Buffer // an incomplete message
	have, whole int             // bytes that have arrived, and that were announced
	reserved    int64           // the room that it has, or waits for
	unread      int64           // the room of whole messages
	waits       bool            // incoming waits for room
	unreturned  int64           // credit of its parts, until it has room
	peerDone    bool            // the peer sends no more
	released    bool            // the call's credit is returned after the stream is gone
}

// A state says which frames this end may still send.
type state int8

const (
	notBegun   state = iota // nothing was sent, and the peer does not know of it
	isOpen                  // this end may send messages
	sendClosed              // this end sends no more
	callOver                // the call is over in both directions
)

// An item is one thing that a stream has to send.
type item struct {
	payload batchio.Payload
	left    []byte     // unsent bytes of the message, or the payload of head
	end     bool       // this end sends nothing more
	nothing bool       // the item is only the end, without a message
	long    bool       // the message's length is sent before the message
	head    frame.Head // a frame that needs no credit, in place of a message
}

// ID returns the stream's number; 0 before the call was begun.
func (s *Stream) ID() uint32 { return s.id }

// Open reports whether this end may still send.
func (s *Stream) Open() bool { return s.state == notBegun || s.state == isOpen }

// Over reports whether the call has ended at both ends, or was given up.
func (s *Stream) Over() bool { return s.state == callOver }

// Idle reports whether all of the stream's items are in the output.
func (s *Stream) Idle() bool { return len(s.queue) == 0 }

// Begin prepares a call; clients only. Its first message or end begins the call, as soon as the
// server's credit allows it.
func (l *Link) Begin(s *Stream, method string, timeoutMicros uint64, meta []byte) {
	number, known := l.numbers[method]
	if !known {
		number = l.sendName(method)
	}
	*s = Stream{Owner: s.Owner, window: credit.NewWindow(l.cfg.PerStream)}
	s.send.Of = s
	s.send.Begin(int64(l.peer.PerStream))
	s.head = frame.RequestStart{Method: number, Timeout: timeoutMicros, Meta: meta}.Append(s.shortHead[:0])
}

// sendName tells the server a method's name, for all calls that follow.
func (l *Link) sendName(method string) uint64 {
	number := uint64(len(l.numbers))
	l.numbers[method] = number
	l.appendFrame(frame.Head{Type: frame.Method}, []byte(method))
	return number
}

// CanName reports whether the server knows the method's name, or room is left to send it.
func (l *Link) CanName(method string) bool {
	_, known := l.numbers[method]
	return known || len(l.numbers) < maxMethods && len(method) <= maxMethodName
}

// Start begins a call without a message.
func (l *Link) Start(s *Stream) { l.enqueue(s, item{nothing: true}) }

// All returns the streams that have not ended, including those whose calls have not begun.
func (l *Link) All() []*Stream {
	all := slices.Collect(maps.Values(l.streams))
	for _, waiting := range l.sender.All() {
		if s := waiting.Of.(*Stream); s.state == notBegun {
			all = append(all, s)
		}
	}
	return all
}

// Send sends a message. With end, it is the stream's last one. The payload is released when it
// has been written, or when the stream has ended.
func (l *Link) Send(s *Stream, p batchio.Payload, end bool) {
	if !s.Open() || s.endQueued() {
		p.Release()
		return
	}
	l.enqueue(s, item{payload: p, left: p.Data, end: end})
}

// End ends this end's messages without another message. At a server, it means that the call has
// succeeded.
func (l *Link) End(s *Stream) {
	if s.Open() && !s.endQueued() {
		l.enqueue(s, item{end: true, nothing: true})
	}
}

// SendHeader sends a server's metadata.
func (l *Link) SendHeader(s *Stream, meta []byte) {
	if s.state == isOpen && !s.endQueued() {
		l.enqueue(s, item{head: frame.Head{Type: frame.Header, Stream: s.id}, left: meta})
	}
}

// SendStatus ends a server's call.
func (l *Link) SendStatus(s *Stream, e frame.Ending) {
	if s.state == isOpen && !s.endQueued() {
		l.enqueue(s, item{end: true, head: frame.Head{Type: frame.Status, Stream: s.id}, left: e.Append(nil)})
	}
}

// Refuse answers a call that has no stream.
func (l *Link) Refuse(id uint32, e frame.Ending) {
	l.appendFrame(frame.Head{Type: frame.Status, Stream: id}, e.Append(nil))
}

// Cancel gives a call up. It reports whether the peer knows of the call. A server sends no
// frame for that: to a client, a Cancel frame means that the call was not begun.
func (l *Link) Cancel(s *Stream) (begun bool) {
	if s.state == callOver {
		return true
	}
	begun = s.state != notBegun
	if begun && l.cfg.Client {
		l.appendFrame(frame.Head{Type: frame.Cancel, Stream: s.id}, nil)
	}
	l.drop(s)
	return begun
}

// endQueued reports whether the end is already in the queue.
func (s *Stream) endQueued() bool { return len(s.queue) > 0 && s.queue[len(s.queue)-1].end }

func (l *Link) enqueue(s *Stream, i item) {
	if s.queue == nil {
		s.queue = s.oneItem[:0]
	}
	s.queue = append(s.queue, i)
	if len(s.queue) == 1 {
		l.advance(s)
	}
	l.fillOutput()
}

// advance sends the frames that need no credit, and queues the rest for its turn.
func (l *Link) advance(s *Stream) {
	for len(s.queue) > 0 && s.queue[0].head.Type != 0 {
		i := s.queue[0]
		l.appendFrame(i.head, i.left)
		l.removeSent(s, i.end)
		if s.state == callOver {
			return
		}
	}
	if len(s.queue) == 0 {
		return
	}
	i := &s.queue[0]
	// The receiver of a message in parts must get its length with the first part.
	if total := len(s.head) + len(i.left); !i.nothing && (total > credit.Turn || !s.send.HasCredit(total)) {
		s.head = binary.AppendUvarint(s.head, uint64(len(i.left)))
		i.long = true
	}
	l.sender.Send(&s.send, len(s.head)+len(i.left), len(s.head))
}
