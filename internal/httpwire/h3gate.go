package httpwire

import (
	"bytes"
	"encoding/binary"
	"net"
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
	inside  int // connections that hold a place
	known   map[string]*entrant
	waiting []*entrant
	ready   []datagram
	past    [2]map[string]struct{} // connections that are over: recently, and before
	turned  time.Time              // when past was
}

// entrant is a connection before or behind the gate.
type entrant struct {
	id     string
	kept   []datagram
	inside bool
	place  bool // still counts among those inside
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
	e, known := g.known[string(id)]
	switch {
	case known && e.inside:
		return true
	case known:
		e.keep(d)
		return false
	case g.isPast(id):
		return false
	case kind == earlyPacket: // it overtook its connection's first
		return true
	}
	e = &entrant{id: string(id)}
	if g.inside < g.room && len(g.waiting) == 0 {
		g.known[e.id] = e
		g.admit(e)
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

func (g *gate) admit(e *entrant) {
	e.inside, e.place = true, true
	g.inside++
	g.ready = append(g.ready, e.kept...)
	e.kept = nil
}

// leave gives a connection's place to the next. It may be called again.
func (g *gate) leave(id string) {
	g.mu.Lock()
	e, known := g.known[id]
	if known && e.place {
		e.place = false
		g.inside--
	}
	for g.inside < g.room && len(g.waiting) > 0 {
		next := g.waiting[0]
		g.waiting = g.waiting[1:]
		g.admit(next)
	}
	some := len(g.ready) > 0
	g.mu.Unlock()
	if some {
		g.wake()
	}
}

// end forgets a connection that is over. What may still come of one that had
// shaken hands is dropped; the client of another may begin it again.
func (g *gate) end(id string, shaken bool) {
	g.leave(id)
	g.mu.Lock()
	defer g.mu.Unlock()
	if _, known := g.known[id]; known {
		delete(g.known, id)
		if shaken {
			g.past[0][id] = struct{}{}
		}
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

func (g *gate) isPast(id []byte) bool {
	_, recent := g.past[0][string(id)]
	_, before := g.past[1][string(id)]
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
