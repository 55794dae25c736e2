package h2

import "golang.org/x/net/http2/hpack"

// Stream is one request and its response. Its owner embeds or points to it; the
// Conn alone changes it. The zero value is ready.
type Stream struct {
	id uint32
	// Owner is whatever the shell needs to find when an event arrives.
	Owner any

	sendWindow   int64
	recvWindow   int64
	owed         int64 // consumed, not yet given back to the stream window
	unread       int64
	received     int64 // content bytes so far, against content-length
	declared     int64 // content-length plus one, or 0
	queue        []pending
	open         bool // in the Conn's table
	inLine       bool
	localClosed  bool
	remoteClosed bool
	sentHeaders  bool
	gotHeaders   bool
	held         bool // occupies a slot until Release
}

// ID is the stream's number, 0 before it is opened.
func (s *Stream) ID() uint32 { return s.id }

// Open reports whether the stream is still in the connection's table.
func (s *Stream) Open() bool { return s.open }

// Queued reports whether something sent on the stream waits for a window.
func (s *Stream) Queued() bool { return len(s.queue) > 0 }

// RemoteClosed reports whether the peer has ended its side.
func (s *Stream) RemoteClosed() bool { return s.remoteClosed }

// LocalClosed reports whether this end has ended its side.
func (s *Stream) LocalClosed() bool { return s.localClosed }

// pending is something to send that a window or the output's length holds back:
// either a payload or trailers. Trailers are encoded only when their turn comes,
// because header blocks must reach the peer in the order of their encoding.
type pending struct {
	payload  Payload
	end      bool
	trailers *FixedFields
	extra    []hpack.HeaderField
}

// recentIDs remembers the streams that this end reset last, whose late frames are
// no fault of the peer's.
type recentIDs struct {
	ids  [256]uint32
	next uint8
}

func (r *recentIDs) add(id uint32) {
	r.ids[r.next] = id
	r.next++
}

func (r *recentIDs) has(id uint32) bool {
	for _, v := range r.ids {
		if v == id {
			return true
		}
	}
	return false
}
