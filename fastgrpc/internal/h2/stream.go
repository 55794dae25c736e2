package h2

import (
	"slices"

	"golang.org/x/net/http2/hpack"
)

// Stream is one request and its response. Its owner embeds it or points to it; only the
// Conn changes it. The zero value is ready to use.
type Stream struct {
	id uint32
	// Owner is for the Handler, to find its own data when an event arrives.
	Owner any

	sendWindow   int64
	recvWindow   int64
	uncredited   int64 // consumed, not yet returned to the stream window
	unread       int64
	received     int64 // content bytes so far, against content-length
	declared     int64 // content-length plus one, or 0
	queue        []pending
	open         bool // in the Conn's table
	scheduled    bool
	localClosed  bool
	remoteClosed bool
	sentHeaders  bool
	gotHeaders   bool
	holdsSlot    bool // occupies a slot until Release
}

// ID returns the stream's identifier; it is 0 before the stream is opened.
func (s *Stream) ID() uint32 { return s.id }

// Open reports whether the stream is still in the connection's table.
func (s *Stream) Open() bool { return s.open }

// Queued reports whether something sent on the stream is not in the output yet.
func (s *Stream) Queued() bool { return len(s.queue) > 0 }

// pending is a payload or trailers that wait for a window or for room in the output.
// Trailers are encoded when they are sent, because header blocks must reach the peer in
// the order in which they were encoded.
type pending struct {
	payload  Payload
	end      bool
	trailers *FixedFields
	extra    []hpack.HeaderField
}

// recentIDs holds the streams that this end reset last. The peer may still send frames
// on them without breaking the protocol.
type recentIDs struct {
	ids  [256]uint32
	next uint8
}

func (r *recentIDs) add(id uint32) {
	r.ids[r.next] = id
	r.next++
}

func (r *recentIDs) has(id uint32) bool { return slices.Contains(r.ids[:], id) }

// table holds the open streams by identifier. Identifiers grow by two and most streams
// are short, so nearly all streams are in a ring, indexed by the identifier's low bits.
// A stream moves to the map when a newer one needs its place.
type table struct {
	ring  [tableRing]*Stream
	older map[uint32]*Stream
	n     int
}

const tableRing = 256

func (t *table) slot(id uint32) **Stream { return &t.ring[id/2%tableRing] }

func (t *table) get(id uint32) *Stream {
	if s := *t.slot(id); s != nil && s.id == id {
		return s
	}
	if len(t.older) == 0 {
		return nil
	}
	return t.older[id]
}

// put adds a stream that is newer than all others.
func (t *table) put(s *Stream) {
	slot := t.slot(s.id)
	if old := *slot; old != nil {
		if t.older == nil {
			t.older = make(map[uint32]*Stream)
		}
		t.older[old.id] = old
	}
	*slot = s
	t.n++
}

func (t *table) remove(s *Stream) {
	if slot := t.slot(s.id); *slot == s {
		*slot = nil
	} else {
		delete(t.older, s.id)
	}
	t.n--
}

// each calls f for every stream; f may remove it.
func (t *table) each(f func(*Stream)) {
	for _, s := range t.ring[:] {
		if s != nil {
			f(s)
		}
	}
	for _, s := range t.older {
		f(s)
	}
}
