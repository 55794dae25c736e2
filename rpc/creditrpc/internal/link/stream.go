package link

import (
	"encoding/binary"
	"maps"
	"slices"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
)

// A Stream is one end of a call. The zero value is a call that has not begun.
type Stream struct {
	// Owner holds the handler's own data for the stream.
	Owner any

	id    uint32
	state state
	// HoldsCredit means that a whole request keeps its credit of the connection until ReturnHeld is
	// called. OnRequest sets it.
	HoldsCredit bool

	send  credit.Stream
	queue []sendItem // items to be sent, in order; the first one is being sent
	head  []byte     // bytes to send before the message of the first item
	// oneItem and shortHead are the memory that queue and head use in most calls.
	oneItem   [1]sendItem
	shortHead [16]byte

	window      credit.Window   // counts the bytes that this end has not read
	held        int64           // credit of the connection, which ReturnHeld returns to the peer
	incoming    *batchio.Buffer // an incomplete message
	have, whole int             // arrived bytes and whole length of incoming
	reserved    int64           // the room that incoming has, or waits for
	unread      int64           // the room of complete messages that are unread
	waits       bool            // incoming waits for room
	unreturned  int64           // credit of incoming's parts, to be returned when incoming has room
	peerDone    bool            // the peer sends no more messages
	gotHeader   bool            // the server's metadata has come
	released    bool            // drop must return the call's credit
}

// A state says which frames this end of a call may still send.
type state int8

const (
	notBegun   state = iota // nothing was sent, and the peer does not know of the call
	isOpen                  // this end may send messages
	sendClosed              // this end sends no more messages
	callOver                // the call is over in both directions
)

// A sendItem is a message or frame that waits in a stream's queue to be sent.
type sendItem struct {
	payload batchio.Payload
	left    []byte     // unsent bytes of the message, or the payload of head
	end     bool       // this is the last item of the stream
	nothing bool       // the item has no message; it only begins or ends the call
	long    bool       // the message's length is sent before the message
	head    frame.Head // a frame that needs no credit, in place of a message
}

// Open reports whether this end may still send messages.
func (s *Stream) Open() bool { return s.state == notBegun || s.state == isOpen }

// Over reports whether the call has ended at both ends, or was given up.
func (s *Stream) Over() bool { return s.state == callOver }

// Idle reports whether all of the stream's items are in the output.
func (s *Stream) Idle() bool { return len(s.queue) == 0 }

// Begin prepares a call; clients only. The first message or end of the stream begins the call, as
// soon as the server's credit allows that.
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

// CanName reports whether the server knows the method's name, or has room for another name.
func (l *Link) CanName(method string) bool {
	_, known := l.numbers[method]
	return known || len(l.numbers) < maxMethods && len(method) <= maxMethodName
}

// Start begins a call without a message.
func (l *Link) Start(s *Stream) { l.enqueue(s, sendItem{nothing: true}) }

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

// Send sends a message. If end is true, it is the stream's last message. The payload is released
// when it has been written, or when the stream has ended.
func (l *Link) Send(s *Stream, p batchio.Payload, end bool) {
	if !s.Open() || s.endQueued() {
		p.Release()
		return
	}
	l.enqueue(s, sendItem{payload: p, left: p.Data, end: end})
}

// End tells the peer that this end sends no more messages. On a server, End also means that the
// call has succeeded.
func (l *Link) End(s *Stream) {
	if s.Open() && !s.endQueued() {
		l.enqueue(s, sendItem{end: true, nothing: true})
	}
}

// SendHeader sends a server's metadata.
func (l *Link) SendHeader(s *Stream, meta []byte) {
	if s.state == isOpen && !s.endQueued() {
		l.enqueue(s, sendItem{head: frame.Head{Type: frame.Header, Stream: s.id}, left: meta})
	}
}

// SendStatus ends a server's call.
func (l *Link) SendStatus(s *Stream, e frame.Ending) {
	if s.state == isOpen && !s.endQueued() {
		l.enqueue(s, sendItem{end: true, head: frame.Head{Type: frame.Status, Stream: s.id}, left: e.Append(nil)})
	}
}

// Refuse ends a call that has no stream, because the server does not accept the call.
func (l *Link) Refuse(id uint32, e frame.Ending) {
	l.appendFrame(frame.Head{Type: frame.Status, Stream: id}, e.Append(nil))
}

// Cancel gives up a call. It reports whether the peer knows of the call. A server sends no Cancel
// frame here: to a client, a Cancel frame means that the call was not begun.
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

// endQueued reports whether the stream's last item is already in the queue.
func (s *Stream) endQueued() bool { return len(s.queue) > 0 && s.queue[len(s.queue)-1].end }

func (l *Link) enqueue(s *Stream, i sendItem) {
	if s.queue == nil {
		s.queue = s.oneItem[:0]
	}
	s.queue = append(s.queue, i)
	if len(s.queue) == 1 {
		l.advance(s)
	}
	l.fillOutput()
}

// advance sends the frames that need no credit. Then it queues the stream for the next message.
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
