// Package credit decides who may send, and when. It knows neither frames nor sockets.
//
// A receiver grants credit for the memory that it has free. Messages without credit wait in the
// sender's memory, in the order in which they were sent. There are three kinds of credit:
//
//   - bytes of the connection, which were sent and not yet processed. The receiver counts them in
//     a [Window], and the sender in a [Sender].
//   - unread bytes of one stream. So an unread stream blocks no other stream.
//   - requests: the calls that may begin.
//
// A stream sends at most [Turn] bytes in one turn. If it then has more to send, it goes to the end
// of the queue. So a short message waits for at most one turn of each long message. The first
// stream in the queue waits until there is credit for its whole turn. No stream overtakes it.
//
// A frame costs its bytes plus [Overhead], because even an empty message takes memory.
package credit

const (
	// Turn is the largest number of bytes that a stream sends in one turn.
	Turn = 68 << 10
	// Overhead is the cost of a frame in addition to its bytes.
	Overhead = 64
	// MinWindow is the smallest window that a receiver may grant: two turns. A sender needs credit
	// for a whole turn, while the receiver may keep half of the window back to send fewer grants.
	MinWindow = 2 * (Turn + Overhead)
)

// Cost returns the credit that a frame with this number of bytes costs.
func Cost(bytes int) int64 { return int64(bytes) + Overhead }

// A Sender is the sending side of a connection. It holds the queues of waiting streams. It has no
// lock.
type Sender struct {
	bytes, requests int64

	opening queue // streams that wait for credit to begin their call
	sending queue // streams that wait for their turn
}

// A Stream is the sending side of one call, which sends one message at a time. Its zero value
// has nothing to send and no credit.
type Stream struct {
	// Of is the owner of the stream, for callers of [Sender.Next].
	Of any

	credit     int64
	left       int  // unsent bytes of the message, if hasMessage is true
	least      int  // the least number of bytes to send in the next turn
	hasMessage bool // there is a message to send, which may be empty
	opens      bool // the next turn begins a call
	mayBegin   bool // the stream has the credit to begin the call

	in         *queue // the queue that holds the stream; nil if the stream cannot send
	prev, next *Stream
}

// NewSender returns a sender with the credit in the peer's Hello.
func NewSender(bytes, requests int64) *Sender { return &Sender{bytes: bytes, requests: requests} }

// Begin prepares the stream for a new call, which the stream's next message begins.
func (s *Stream) Begin(credit int64) { *s = Stream{Of: s.Of, credit: credit, opens: true} }

// Accept prepares the stream to answer a call.
func (s *Stream) Accept(credit int64) { *s = Stream{Of: s.Of, credit: credit} }

// HasCredit reports whether the stream's own credit allows a turn with this number of bytes.
func (s *Stream) HasCredit(bytes int) bool { return s.credit >= Cost(bytes) }

// Send queues a message of the given length. The stream's first turn sends at least first bytes.
// The stream must not have another message to send.
func (c *Sender) Send(s *Stream, bytes, first int) {
	s.left, s.least, s.hasMessage = bytes, first, true
	if s.opens && !s.mayBegin {
		c.opening.push(s)
		c.admit()
		return
	}
	c.enqueue(s)
}

// Cancel drops the stream's unsent bytes. It reports whether the peer knows of the call.
func (c *Sender) Cancel(s *Stream) (begun bool) {
	s.in.drop(s)
	s.hasMessage = false
	if s.opens && s.mayBegin {
		s.mayBegin = false
		c.requests++
		c.admit()
	}
	return !s.opens
}

// Next returns the stream whose turn it is, and the number of bytes that this stream must send now.
// It returns nil if no stream may send.
func (c *Sender) Next() (s *Stream, bytes int) {
	for {
		s = c.sending.head
		if s == nil {
			return nil, 0
		}
		bytes = min(s.left, Turn)
		// A stream sends as much as its own credit allows. Without credit, the stream leaves the
		// queue, so that it blocks no other stream.
		if s.credit < Cost(bytes) {
			if bytes = int(s.credit) - Overhead; bytes <= 0 || bytes < s.least {
				c.sending.drop(s)
				continue
			}
		}
		if c.bytes < Cost(bytes) {
			return nil, 0
		}
		c.sending.drop(s)
		s.opens, s.least = false, 0
		c.bytes -= Cost(bytes)
		s.credit -= Cost(bytes)
		if s.left -= bytes; s.left == 0 {
			s.hasMessage = false
		} else {
			c.enqueue(s)
		}
		return s, bytes
	}
}

// maxCredit limits credit, so that sums of grants do not overflow. Credit above maxCredit is lost.
const maxCredit = 1 << 60

// Grant adds credit of the connection.
func (c *Sender) Grant(bytes, requests int64) {
	c.bytes = min(c.bytes+bytes, maxCredit)
	c.requests = min(c.requests+requests, maxCredit)
	c.admit()
}

// GrantStream adds credit of a stream.
func (c *Sender) GrantStream(s *Stream, bytes int64) {
	s.credit = min(s.credit+bytes, maxCredit)
	if s.hasMessage && s.in == nil {
		c.enqueue(s)
	}
}

// All returns the streams that wait for a turn.
func (c *Sender) All() (all []*Stream) {
	for _, q := range []*queue{&c.opening, &c.sending} {
		for s := q.head; s != nil; s = s.next {
			all = append(all, s)
		}
	}
	return all
}

// admit lets calls begin in order, as long as there is credit for requests.
func (c *Sender) admit() {
	for c.requests > 0 && c.opening.head != nil {
		s := c.opening.head
		c.opening.drop(s)
		c.requests--
		s.mayBegin = true
		c.enqueue(s)
	}
}

// enqueue puts a stream into the queue if the stream's own credit allows a turn.
func (c *Sender) enqueue(s *Stream) {
	if bears := s.credit - Overhead; bears > 0 && bears >= int64(s.least) || bears == 0 && s.left == 0 {
		c.sending.push(s)
	}
}

// A queue is a list of streams. A nil queue is empty.
type queue struct{ head, tail *Stream }

func (q *queue) push(s *Stream) {
	s.in, s.prev, s.next = q, q.tail, nil
	if q.tail == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
}

// drop removes a stream, if it is in the queue.
func (q *queue) drop(s *Stream) {
	if q == nil {
		return
	}
	if s.prev == nil {
		q.head = s.next
	} else {
		s.prev.next = s.next
	}
	if s.next == nil {
		q.tail = s.prev
	} else {
		s.next.prev = s.prev
	}
	s.in, s.prev, s.next = nil, nil, nil
}

// A Window is the receiving side of one kind of credit: bytes or requests.
type Window struct {
	size int64 // all credit of the window
	left int64 // credit that the peer may still use
	back int64 // credit that this end has counted with Take and not granted again
}

// NewWindow returns a window whose full credit the peer has from the beginning.
func NewWindow(size int64) Window { return Window{size: size, left: size} }

// Receive counts credit that the peer has used. It returns false if the peer had too little credit.
func (w *Window) Receive(cost int64) bool {
	w.left -= cost
	return w.left >= 0
}

// Take counts credit of messages that this end has processed. It returns the credit to grant to the
// peer now, or 0 if there is too little for a frame.
func (w *Window) Take(cost int64) (grant int64) {
	w.back += cost
	if w.back < (w.size+grantsPerWindow-1)/grantsPerWindow {
		return 0
	}
	grant, w.back = w.back, 0
	w.left += grant
	return grant
}

// grantsPerWindow is the number of grants that renew a whole window. With fewer grants, the
// sender's credit would run out while the receiver works. Each grant costs a short frame.
const grantsPerWindow = 8

// Left returns the credit that the peer may still use.
func (w *Window) Left() int64 { return w.left }

// InUse returns the credit that the peer has used, and that this end has not counted with Take.
func (w *Window) InUse() int64 { return w.size - w.left - w.back }
