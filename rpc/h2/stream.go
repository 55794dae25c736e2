package h2

import (
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// A Stream is one request and its response. The owner embeds the Stream or points to it, but only
// the Conn changes its fields. The zero value is ready to use.
type Stream struct {
	id uint32
	// Owner lets the Handler find its own data when an event arrives.
	Owner any
	// Streaming means that the peer reads the answer in parts. Short means that the answer is
	// likely to be short, see Conn.Unpark.
	Streaming, Short bool
	// AnyLength means that the Conn does not check content-length. Set it if a response may
	// announce content that it does not have: after HEAD, and with status 304.
	AnyLength bool

	open         bool // the stream is in the Conn's table
	begun        bool // the stream's call has begun, and not ended at both ends
	working      bool // the call is at work: its answer is not yet in the output
	localClosed  bool
	remoteClosed bool
	sentHeaders  bool
	gotHeaders   bool
	holdsSlot    bool // the stream occupies a slot until Release
	waited       bool // the stream has waited, so endWaits must run
	sendWindow   int64
	recvWindow   int64
	uncredited   int // bytes consumed and not yet returned to the stream's window
	unread       int
	received     int64 // bytes of content so far, to compare with content-length
	declared     int64 // value of content-length plus one; 0 without that field
	record       int   // bytes of memory for the stream and its metadata
	queue        []queueEntry
	advance      int // bytes offered to the peer in addition to consumed bytes

	deferred int // bytes to consume when the message is complete, see ConsumePartial
	missing  int // bytes that an incomplete message lacks
	granted  int // bytes of the incomplete message that the peer may still send
	queued   int // bytes of memory for the queue
	links    [3]listLink
	stint    int // bytes sent since the stream became active, see maxStint
}

// ID returns the stream's identifier; it is 0 before the stream is opened.
func (s *Stream) ID() uint32 { return s.id }

// Open reports whether the stream is still in the connection's table.
func (s *Stream) Open() bool { return s.open }

// Queued reports whether some of the stream's sent data is not yet in the output.
func (s *Stream) Queued() bool { return len(s.queue) > 0 }

// Granted reports whether the peer may send the rest of an incomplete message, see GrantContent.
func (s *Stream) Granted() bool { return s.granted > 0 }

// A queueEntry holds a payload or header fields that wait for a window or for room in the output.
// Fields are encoded only when they leave the queue, because the peer must receive header blocks in
// the order in which they were encoded.
type queueEntry struct {
	payload batchio.Payload
	end     bool // this is the last entry of the stream
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

// A lateFrames counts the frames that a correct peer may still send on reset streams, because it
// does not yet know of this end's resets. It holds sums over all reset streams, so it takes no
// memory per stream.
type lateFrames struct {
	bytes  int64 // bytes of content
	blocks int   // header blocks
	ends   int   // empty DATA frames, or resets
}

// add adds the frames that the peer may still send on a stream with this window.
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

// A streamTable holds the open streams by identifier. Nearly all streams are in a ring, whose index
// is the identifier's low bits: identifiers grow by two, and most streams are short. The ring grows
// with the number of streams, up to maxRing. Then a stream moves to the map when a newer stream
// needs its place.
type streamTable struct {
	ring  []*Stream
	older map[uint32]*Stream
	n     int
}

const (
	minRing = 8 // a power of two, like all sizes of the ring
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
		for _, old := range smaller { // no two streams get the same place
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
		t.older = nil // frees memory, because a map never shrinks
	}
	t.n--
}

// each calls f for every stream. f may remove that stream.
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
