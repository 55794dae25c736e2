package httpwire

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"
)

// A gate stands before a QUIC server and lets new connections in as there is
// room. quic-go takes all in at once and shakes hands with each; what waits to
// be accepted beyond 32 it refuses. Dropping a client's first datagrams would
// have it wait for its own retransmission, hundreds of milliseconds after there
// is room again; so they are kept, in their order, and handed on when it is the
// connection's turn. Retransmissions of what is kept are dropped, and those that
// come when the connection is over as well: each would look like another
// connection, and cost a handshake with nobody.
//
// The gate knows a new connection by the connection ID that its client has
// invented for the server (RFC 9000, section 7.2). It is handed datagrams and
// the time, and does nothing by itself.
type gate struct {
	room int
	wake func() // something is ready to be taken

	mu      sync.Mutex
	known   map[string]*entrant
	waiting []*entrant
	places  []*entrant // those that hold one, the longest first
	ready   []datagram
	past    [2]map[string]struct{} // connections that are over: recently, and before
	turned  time.Time              // when past was
}

// entrant is a connection before or behind the gate.
type entrant struct {
	id          string
	kept        []datagram
	first, last time.Time // it was heard, while it waits
	entered     time.Time // zero: it waits
}

// silent tells a client that has given up from one that is about to ask again:
// each of its waits is twice the one before (RFC 9002, section 6.2.1).
func (e *entrant) silent(now time.Time) bool {
	return now.Sub(e.last) > 2*(e.last.Sub(e.first)+firstRetry)
}

// datagram is one that was kept.
type datagram struct {
	data, control []byte
	from          net.Addr
}

// Bounds of the gate's memory.
const (
	maxWaiting   = 4096            // connections; clients of others try again
	maxKept      = 4               // datagrams of each: a hybrid key share takes two, early data more
	rememberPast = 5 * time.Second // a client has sent its last Initial long before
)

const (
	// longestHandshake is how long a connection may keep its place: its client
	// may have given up, or its first datagram have come to nothing.
	longestHandshake = 5 * time.Second
	// firstRetry is when a client without an answer asks again, at the latest
	// (RFC 9002, section 6.2.2: three times an RTT of 333 ms).
	firstRetry = time.Second
)

func newGate(room int, wake func()) *gate {
	return &gate{
		room: room, wake: wake, known: map[string]*entrant{},
		past: [2]map[string]struct{}{{}, {}},
	}
}

// arrive decides about a datagram, which is copied where it is kept.
func (g *gate) arrive(d datagram, now time.Time) (pass bool) {
	id, kind := firstFlight(d.data)
	if kind == laterPacket {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.turn(now)
	g.fill(now)
	e, known := g.known[string(id)]
	switch {
	case known && !e.entered.IsZero():
		return true
	case known:
		e.last = now
		e.keep(d)
		return false
	case g.isPast(string(id)):
		return false
	case kind == earlyPacket: // it overtook its connection's first
		return true
	}
	e = &entrant{id: string(id), first: now, last: now}
	if len(g.places) < g.room && len(g.waiting) == 0 {
		g.known[e.id] = e
		g.admit(e, now)
		return true
	}
	if len(g.waiting) < maxWaiting {
		g.known[e.id] = e
		g.waiting = append(g.waiting, e)
		e.keep(d)
	}
	return false
}

func (e *entrant) keep(d datagram) {
	if len(e.kept) < maxKept {
		d.data, d.control = bytes.Clone(d.data), bytes.Clone(d.control)
		e.kept = append(e.kept, d)
	}
}

func (g *gate) admit(e *entrant, now time.Time) {
	e.entered = now
	g.places = append(g.places, e)
	g.ready = append(g.ready, e.kept...)
	e.kept = nil
}

// fill gives the places that are free to those who wait, and takes them from
// those who have had theirs too long: these are forgotten, and a client that is
// there after all comes anew.
func (g *gate) fill(now time.Time) {
	for len(g.places) > 0 && now.Sub(g.places[0].entered) > longestHandshake {
		delete(g.known, g.places[0].id)
		g.places = g.places[1:]
	}
	for len(g.places) < g.room && len(g.waiting) > 0 {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		if next.silent(now) || g.isPast(next.id) {
			delete(g.known, next.id)
			continue
		}
		g.admit(next, now)
	}
}

// leave gives a connection's place to the next. It may be called again.
func (g *gate) leave(id string, now time.Time) {
	g.mu.Lock()
	g.places = slices.DeleteFunc(g.places, func(e *entrant) bool { return e.id == id })
	g.fill(now)
	some := len(g.ready) > 0
	g.mu.Unlock()
	if some {
		g.wake()
	}
}

// end forgets a connection that has ended. What may still come of one that is
// over for its client too is dropped; the client of another, whose handshake
// failed, may begin it again.
func (g *gate) end(id string, over bool, now time.Time) {
	g.leave(id, now)
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, id)
	if over {
		g.past[0][id] = struct{}{}
	}
}

// take hands on what was kept of those who have been let in.
func (g *gate) take(most int) []datagram {
	g.mu.Lock()
	defer g.mu.Unlock()
	n := min(most, len(g.ready))
	taken := g.ready[:n:n]
	g.ready = g.ready[n:]
	return taken
}

func (g *gate) isPast(id string) bool {
	_, recent := g.past[0][id]
	_, before := g.past[1][id]
	return recent || before
}

func (g *gate) turn(now time.Time) {
	if now.Sub(g.turned) > rememberPast {
		g.past[0], g.past[1], g.turned = map[string]struct{}{}, g.past[0], now
	}
}

type packetKind int

const (
	laterPacket packetKind = iota // nothing that begins a connection
	initialPacket
	earlyPacket
)

// Versions of QUIC, with the bits of a long header's first byte that are the
// packet's type (RFC 9000, section 17.2; RFC 9369, section 3.2).
const (
	longHeader = 0x80
	typeBits   = 0x30

	version1, initial1, early1 = 0x00000001, 0x00, 0x10
	version2, initial2, early2 = 0x6b3343cf, 0x10, 0x20

	minInitialBytes  = 1200 // of the datagram (RFC 9000, section 14.1)
	minInventedBytes = 8    // of the connection ID (RFC 9000, section 7.2)
	maxIDBytes       = 20
)

// firstFlight tells a packet with which a client begins a connection, from what
// RFC 8999 promises of all versions and the types of those that quic-go speaks.
func firstFlight(data []byte) (id []byte, kind packetKind) {
	const head = 6 // first byte, version, the ID's length
	if len(data) < head || data[0]&longHeader == 0 {
		return nil, laterPacket
	}
	switch bits := data[0] & typeBits; {
	case binary.BigEndian.Uint32(data[1:]) == version1 && bits == initial1,
		binary.BigEndian.Uint32(data[1:]) == version2 && bits == initial2:
		kind = initialPacket
	case binary.BigEndian.Uint32(data[1:]) == version1 && bits == early1,
		binary.BigEndian.Uint32(data[1:]) == version2 && bits == early2:
		kind = earlyPacket
	default:
		return nil, laterPacket
	}
	length := int(data[head-1])
	if length < minInventedBytes || length > maxIDBytes || len(data) < head+length ||
		kind == initialPacket && len(data) < minInitialBytes {
		return nil, laterPacket // quic-go drops it, or knows it
	}
	return data[head : head+length], kind
}
