package h2

import (
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// A Stream is one request and its response. Its owner embeds it or points to it; only the
// Conn changes it. The zero value is ready to use.
type Stream struct {
	id uint32
	// Owner lets the Handler find its own data when an event arrives.
	Owner any
	// Streaming means that the peer reads the answer in parts, and Short that the answer is likely
	// to be short. See Conn.BeginCall and Conn.Unpark.
	Streaming, Short bool
	// AnyLength means that the owner checks content-length. Set it where a response may
	// announce content that it does not have: after HEAD, and with status 304.
	AnyLength bool

	open         bool // in the Conn's table
	begun        bool // its call has begun, see BeginCall
	working      bool // its call is at work, see workEnded
	localClosed  bool
	remoteClosed bool
	sentHeaders  bool
	gotHeaders   bool
	holdsSlot    bool // occupies a slot until Release
	waited       bool // a field after advance was used
	sendWindow   int64
	recvWindow   int64
	uncredited   int // bytes consumed, not yet returned to the stream window
	unread       int
	received     int64 // content bytes so far, for comparison with content-length
	declared     int64 // content-length plus one, or 0
	record       int   // the cost of its record and metadata
	queue        []queueEntry
	advance      int // bytes offered before others were consumed

	deferred int // consumed when the message is complete, see ConsumePartial
	missing  int // bytes that an incomplete message lacks
	granted  int // bytes of that message that the peer may still send
	queued   int // the cost of its queue
	links    [3]listLink
	stint    int // bytes of its queue sent in this stint, see schedule
}

// ID returns the stream's identifier; it is 0 before the stream is opened.
func (s *Stream) ID() uint32 { return s.id }

// Open reports whether the stream is still in the connection's table.
func (s *Stream) Open() bool { return s.open }

// Queued reports whether a part of the sent frames is not yet in the output.
func (s *Stream) Queued() bool { return len(s.queue) > 0 }

// Granted reports whether the rest of an incomplete message may come, see GrantContent.
func (s *Stream) Granted() bool { return s.granted > 0 }

// A queueEntry holds a payload or header fields that wait for a window or for room in the
// output. Fields are encoded when they are sent, because header blocks must reach the
// peer in the order in which they were encoded.
type queueEntry struct {
	payload batchio.Payload
	end     bool // the entry ends the stream
	fields  *FixedFields
	extra   []hpack.HeaderField
}

// A streamList is a doubly linked list of streams. A stream can be in one list of each kind.
type streamList struct {
	head, tail *Stream
	n          int
	kind       int
}

// The kinds of lists.
const (
	sendingList = iota
	growingList
	parkedList
)

type listLink struct {
	in         *streamList
	prev, next *Stream
}

func (l *streamList) push(s *Stream) {
	s.waited = true
	l.n++
	s.links[l.kind] = listLink{in: l, prev: l.tail}
	if l.tail != nil {
		l.tail.links[l.kind].next = s
	} else {
		l.head = s
	}
	l.tail = s
}

// drop removes a stream, if it is in the list.
func (l *streamList) drop(s *Stream) {
	at := s.links[l.kind]
	if at.in != l {
		return
	}
	l.n--
	s.links[l.kind] = listLink{}
	if at.prev != nil {
		at.prev.links[l.kind].next = at.next
	} else {
		l.head = at.next
	}
	if at.next != nil {
		at.next.links[l.kind].prev = at.prev
	} else {
		l.tail = at.prev
	}
}

// A lateFrames counts the frames that a correct peer may still send on streams that this end has
// reset, before it learns of the resets. It adds up all such streams, so it takes no memory per
// stream.
type lateFrames struct {
	bytes  int64 // bytes of content
	blocks int   // header blocks
	ends   int   // frames without content, or resets
}

// add counts a stream that offered a window to the peer.
func (l *lateFrames) add(window int64) {
	l.bytes += max(0, window)
	l.blocks += 2 // a response's header and its trailers
	l.ends++
}

// subtract subtracts n frames or bytes from left, and reports whether left was large enough.
func subtract[T int | int64](left *T, n T) bool {
	if *left < n {
		return false
	}
	*left -= n
	return true
}

// A streamTable holds the open streams by identifier. Nearly all are in a ring, indexed by the
// identifier's low bits, which grows with their number: identifiers grow by two, and most
// streams are short. Beyond the largest ring, a stream moves to the map when a newer one needs
// its place.
type streamTable struct {
	ring  []*Stream
	older map[uint32]*Stream
	n     int
}

const (
	minRing = 8 // a power of two, as all sizes are
	maxRing = 256
)

func (t *streamTable) slot(id uint32) **Stream { return &t.ring[id/2&uint32(len(t.ring)-1)] }

func (t *streamTable) get(id uint32) *Stream {
	if t.n == 0 {
		return nil
	}
	if s := *t.slot(id); s != nil && s.id == id {
		return s
	}
	if len(t.older) == 0 {
		return nil
	}
	return t.older[id]
}

// put adds a stream that is newer than all others.
func (t *streamTable) put(s *Stream) {
	if t.ring == nil {
		t.ring = make([]*Stream, minRing)
	}
	t.n++
	for *t.slot(s.id) != nil && len(t.ring) < maxRing {
		smaller := t.ring
		t.ring = make([]*Stream, 2*len(smaller))
		for _, old := range smaller { // streams in different places stay in different places
			if old != nil {
				*t.slot(old.id) = old
			}
		}
	}
	slot := t.slot(s.id)
	if old := *slot; old != nil {
		if t.older == nil {
			t.older = make(map[uint32]*Stream)
		}
		t.older[old.id] = old
	}
	*slot = s
}

func (t *streamTable) remove(s *Stream) {
	if slot := t.slot(s.id); *slot == s {
		*slot = nil
	} else if delete(t.older, s.id); len(t.older) == 0 {
		t.older = nil // a map keeps the memory of its largest size
	}
	t.n--
}

// each calls f for every stream; f may remove it.
func (t *streamTable) each(f func(*Stream)) {
	for _, s := range t.ring {
		if s != nil {
			f(s)
		}
	}
	for _, s := range t.older {
		f(s)
	}
}
