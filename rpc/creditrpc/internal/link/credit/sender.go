package credit

import "iter"

// A Sender is the sending side of a connection: it knows which streams wait, in which order. It
// has no lock.
type Sender struct {
	bytes, requests int64

	opening queue // streams that wait for the credit of a request
	sending queue // streams whose turn comes
}

// A Stream is the sending side of one call, which sends one message at a time. Its zero value
// has nothing to send and no credit.
type Stream struct {
	// Of is the owner of the stream, for callers of [Sender.Next].
	Of any

	credit int64
	left   int  // bytes of the message; meaningless while not has
	least  int  // that its next turn must have
	has    bool // a message, which may have no bytes
	opens  bool // the next turn begins a call
	may    bool // it has the credit for that

	in         *queue // it waits here; nil: it has nothing to send, or no credit of its own
	prev, next *Stream
}

// NewSender returns a sender with the credit that the peer grants at first.
func NewSender(bytes, requests int64) *Sender { return &Sender{bytes: bytes, requests: requests} }

// Begin prepares the stream: its next message begins a call.
func (s *Stream) Begin(credit int64) { *s = Stream{Of: s.Of, credit: credit, opens: true} }

// Accept prepares the stream to answer a call.
func (s *Stream) Accept(credit int64) { *s = Stream{Of: s.Of, credit: credit} }

// Bears reports whether the stream's own credit is enough for a number of bytes in one turn.
func (s *Stream) Bears(bytes int) bool { return s.credit >= Cost(bytes) }

// Busy reports whether the stream still has a message to send.
func (s *Stream) Busy() bool { return s.has }

// Send gives the stream a message with a number of bytes. Its first turn has at least
// first of them. The stream must not be busy.
func (c *Sender) Send(s *Stream, bytes, first int) {
	s.left, s.least, s.has = bytes, first, true
	if s.opens && !s.may {
		c.opening.push(s)
		c.admit()
		return
	}
	c.enqueue(s)
}

// Cancel drops what the stream has not sent. It reports whether the peer knows of the call.
func (c *Sender) Cancel(s *Stream) (begun bool) {
	s.in.drop(s)
	s.has = false
	if s.opens && s.may {
		s.may = false
		c.requests++
		c.admit()
	}
	return !s.opens
}

// Next returns the stream whose turn it is, and the number of bytes that it must send now. It
// returns nil if no stream may send.
func (c *Sender) Next() (s *Stream, bytes int) {
	for {
		s = c.sending.head
		if s == nil {
			return nil, 0
		}
		bytes = min(s.left, Turn)
		// A stream sends as much as its own credit allows. Without credit it waits apart, so that it
		// stops no other.
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
			s.has = false
		} else {
			c.enqueue(s)
		}
		return s, bytes
	}
}

// most bounds credit, so that sums of grants do not overflow. Credit beyond it is lost.
const most = 1 << 60

// Grant adds credit of the connection.
func (c *Sender) Grant(bytes, requests int64) {
	c.bytes = min(c.bytes+bytes, most)
	c.requests = min(c.requests+requests, most)
	c.admit()
}

// GrantStream adds credit of a stream.
func (c *Sender) GrantStream(s *Stream, bytes int64) {
	s.credit = min(s.credit+bytes, most)
	if s.has && s.in == nil {
		c.enqueue(s)
	}
}

// Waiting counts the calls that wait to begin.
func (c *Sender) Waiting() int { return c.opening.count }

// All returns the streams that wait for a turn.
func (c *Sender) All() iter.Seq[*Stream] {
	return func(yield func(*Stream) bool) {
		for _, q := range []*queue{&c.opening, &c.sending} {
			for s := q.head; s != nil; s = s.next {
				if !yield(s) {
					return
				}
			}
		}
	}
}

// admit lets calls begin, in the order in which they were made.
func (c *Sender) admit() {
	for c.requests > 0 && c.opening.head != nil {
		s := c.opening.head
		c.opening.drop(s)
		c.requests--
		s.may = true
		c.enqueue(s)
	}
}

// enqueue lets a stream wait for its turn, if its own credit allows one.
func (c *Sender) enqueue(s *Stream) {
	if bears := s.credit - Overhead; bears > 0 && bears >= int64(s.least) || bears == 0 && s.left == 0 {
		c.sending.push(s)
	}
}

// A queue is a list of streams. A nil queue is empty.
type queue struct {
	head, tail *Stream
	count      int
}

func (q *queue) push(s *Stream) {
	s.in, s.prev, s.next = q, q.tail, nil
	if q.tail == nil {
		q.head = s
	} else {
		q.tail.next = s
	}
	q.tail = s
	q.count++
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
	q.count--
}
