package quicsocket

import (
	"bytes"
	"encoding/binary"
	"net"
	"slices"
	"sync"
	"time"
)

// admission limits the number of connections that a QUIC server sets up at the same time. quic-go
// starts every handshake at once, and refuses connections when 32 wait to be accepted. A client
// whose first datagrams are dropped retransmits only hundreds of milliseconds later. So admission
// keeps the datagrams of waiting connections, in order. It drops retransmissions of these
// datagrams, and datagrams of ended connections, which would start new handshakes.
//
// The connection ID that the client chose for the server (RFC 9000, section 7.2) identifies a
// connection. admission is a pure state machine: its caller passes the datagrams and the time.
type admission struct {
	limit   int
	maxTime time.Duration // limits how long a connection may occupy its place
	wake    func()        // called when takeDatagrams has datagrams

	mu       sync.Mutex
	byID     map[string]*pendingConn
	waiting  []*pendingConn
	admitted []*pendingConn // admitted connections that occupy a place, oldest first
	ready    []datagram
	ended    [2]map[string]struct{} // IDs of ended connections: recent ones in [0], older ones in [1]
	rotated  time.Time              // when ended[1] was last replaced
}

// pendingConn is a connection that is waiting, or is admitted and has not ended.
type pendingConn struct {
	id          string
	buffered    []datagram
	first, last time.Time // arrival times of the first and last datagram before the admission
	admitted    time.Time // time of the admission; zero while the connection waits
}

// gaveUp reports whether a client has been silent for so long that it will not retry. A client
// doubles its wait before each retry (RFC 9002, section 6.2.1).
func (p *pendingConn) gaveUp(now time.Time) bool {
	return now.Sub(p.last) > 2*(p.last.Sub(p.first)+maxFirstRetry)
}

type datagram struct {
	data, control []byte
	from          net.Addr
}

// These limits bound the admission's memory and time.
const (
	maxWaiting      = 4096            // waiting connections; the clients of further ones must retry
	maxBuffered     = 4               // datagrams per connection: a hybrid key share takes two, early data more
	endedMemoryTime = 5 * time.Second // smallest time to remember an ended connection
)

// maxFirstRetry is the longest time after which a client without an answer retries (RFC 9002,
// section 6.2.2: three times an RTT of 333 ms).
const maxFirstRetry = time.Second

func newAdmission(limit int, maxTime time.Duration, wake func()) *admission {
	return &admission{
		limit: limit, maxTime: maxTime, wake: wake, byID: map[string]*pendingConn{},
		ended: [2]map[string]struct{}{{}, {}},
	}
}

// receive reports whether quic-go may get a datagram now. If not, receive keeps a copy or drops it.
func (a *admission) receive(d datagram, now time.Time) (pass bool) {
	id, kind := parseFirstPacket(d.data)
	if kind == otherPacket {
		return true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if now.Sub(a.rotated) > endedMemoryTime {
		a.ended[0], a.ended[1], a.rotated = map[string]struct{}{}, a.ended[0], now
	}
	a.admitWaiting(now)
	e, known := a.byID[string(id)]
	switch {
	case known && !e.admitted.IsZero():
		return true
	case known:
		e.last = now
		e.buffer(d)
		return false
	case a.hasEnded(string(id)):
		return false
	case kind == earlyPacket: // this packet arrived before its connection's first packet
		return true
	}
	e = &pendingConn{id: string(id), first: now, last: now}
	if len(a.admitted) < a.limit && len(a.waiting) == 0 {
		a.byID[e.id] = e
		a.admit(e, now)
		return true
	}
	if len(a.waiting) < maxWaiting {
		a.byID[e.id] = e
		a.waiting = append(a.waiting, e)
		e.buffer(d)
	}
	return false
}

func (p *pendingConn) buffer(d datagram) {
	if len(p.buffered) < maxBuffered {
		d.data, d.control = bytes.Clone(d.data), bytes.Clone(d.control)
		p.buffered = append(p.buffered, d)
	}
}

func (a *admission) admit(e *pendingConn, now time.Time) {
	e.admitted = now
	a.admitted = append(a.admitted, e)
	a.ready = append(a.ready, e.buffered...)
	e.buffered = nil
}

// admitWaiting removes connections that have occupied a place for too long, and admits waiting
// connections. The clients of removed connections can start again.
func (a *admission) admitWaiting(now time.Time) {
	for len(a.admitted) > 0 && now.Sub(a.admitted[0].admitted) > a.maxTime {
		delete(a.byID, a.admitted[0].id)
		a.admitted = a.admitted[1:]
	}
	for len(a.admitted) < a.limit && len(a.waiting) > 0 {
		next := a.waiting[0]
		a.waiting = a.waiting[1:]
		if next.gaveUp(now) || a.hasEnded(next.id) {
			delete(a.byID, next.id)
			continue
		}
		a.admit(next, now)
	}
}

// release frees a connection's place. Later calls for the same connection do nothing.
func (a *admission) release(id string, now time.Time) {
	a.mu.Lock()
	a.admitted = slices.DeleteFunc(a.admitted, func(e *pendingConn) bool { return e.id == id })
	a.admitWaiting(now)
	some := len(a.ready) > 0
	a.mu.Unlock()
	if some {
		a.wake()
	}
}

// remove deletes a connection that has ended. If over is set, the client knows of the end, so later
// datagrams are dropped. Otherwise the client may start the connection again.
func (a *admission) remove(id string, over bool, now time.Time) {
	a.release(id, now)
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.byID, id)
	if over {
		a.ended[0][id] = struct{}{}
	}
}

// takeDatagrams removes and returns the kept datagrams of admitted connections.
func (a *admission) takeDatagrams(most int) []datagram {
	a.mu.Lock()
	defer a.mu.Unlock()
	n := min(most, len(a.ready))
	taken := a.ready[:n:n]
	a.ready = a.ready[n:]
	return taken
}

func (a *admission) hasEnded(id string) bool {
	_, recent := a.ended[0][id]
	_, before := a.ended[1][id]
	return recent || before
}

type packetKind int

const (
	otherPacket packetKind = iota // does not begin a connection
	initialPacket
	earlyPacket
)

// These constants are versions of QUIC, and the bits that hold the packet type in the first byte
// of a long header (RFC 9000, section 17.2; RFC 9369, section 3.2).
const (
	longHeader = 0x80
	typeBits   = 0x30

	version1, initialTypeV1, earlyTypeV1 = 0x00000001, 0x00, 0x10
	version2, initialTypeV2, earlyTypeV2 = 0x6b3343cf, 0x10, 0x20

	minInitialBytes  = 1200 // smallest size of the first datagram (RFC 9000, section 14.1)
	minClientIDBytes = 8    // smallest length of the client's ID (RFC 9000, section 7.2)
	maxIDBytes       = 20
)

// parseFirstPacket recognises a packet that begins a connection. It reads the version-independent
// header (RFC 8999) and the packet types of quic-go's versions.
func parseFirstPacket(data []byte) (id []byte, kind packetKind) {
	const head = 6 // bytes before the ID: first byte, version, the ID's length
	if len(data) < head || data[0]&longHeader == 0 {
		return nil, otherPacket
	}
	switch bits := data[0] & typeBits; {
	case binary.BigEndian.Uint32(data[1:]) == version1 && bits == initialTypeV1,
		binary.BigEndian.Uint32(data[1:]) == version2 && bits == initialTypeV2:
		kind = initialPacket
	case binary.BigEndian.Uint32(data[1:]) == version1 && bits == earlyTypeV1,
		binary.BigEndian.Uint32(data[1:]) == version2 && bits == earlyTypeV2:
		kind = earlyPacket
	default:
		return nil, otherPacket
	}
	length := int(data[head-1])
	if length < minClientIDBytes || length > maxIDBytes || len(data) < head+length ||
		kind == initialPacket && len(data) < minInitialBytes {
		return nil, otherPacket // quic-go drops the packet, or already knows the connection
	}
	return data[head : head+length], kind
}
