package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2/hpack"
)

// Open opens a stream of this end's; clients only, and only while there are
// Slots.
func (c *Conn) Open(s *Stream) {
	c.enter(s, c.nextID)
	c.nextID += 2
}

func (c *Conn) enter(s *Stream, id uint32) {
	s.id = id
	s.open = true
	s.sendWindow = c.peer.initialWindow
	s.recvWindow = int64(c.cfg.StreamWindow)
	c.streams.put(s)
}

// remove takes a stream out of the table; its owner keeps what it received.
func (c *Conn) remove(s *Stream) {
	if !s.open {
		return
	}
	s.open = false
	c.streams.remove(s)
	if c.peerStream(s.id) && !s.held {
		c.occupied--
	}
	for i := range s.queue {
		// The output may still refer to a payload that was sent in part.
		if owner := s.queue[i].payload.Owner; owner != nil {
			c.out.owners = append(c.out.owners, owner)
		}
	}
	s.queue = nil
	c.leaveLine(s)
}

// finish removes a stream whose two sides are closed. A server that has answered
// needs no more of the request, and a client that has its answer needs to send no
// more: either tells the peer so (section 8.1).
func (c *Conn) finish(s *Stream) {
	answered := s.remoteClosed && c.cfg.Client || s.localClosed && !c.cfg.Client
	if !s.open || !answered {
		return
	}
	if !s.localClosed || !s.remoteClosed {
		c.appendReset(s.id, CodeNo)
		c.resetIDs.add(s.id)
	}
	c.remove(s)
}

// peerStream reports whether the peer opened the stream.
func (c *Conn) peerStream(id uint32) bool { return c.cfg.Client == (id%2 == 0) }

// Release gives back whatever the stream has not consumed and, once the stream is
// gone too, its slot. A server calls it once a stream, when its handler has
// returned: so neither resets nor unread answers let a peer go beyond MaxStreams.
func (c *Conn) Release(s *Stream) {
	if s.held && !s.open {
		c.occupied--
	}
	s.held = false
	c.unread -= s.unread
	s.unread = 0
	c.creditConn()
}

// SendHeaders opens a request, or a response.
func (c *Conn) SendHeaders(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	if s.open && !s.sentHeaders {
		s.sentHeaders = true
		c.appendBlock(s.id, fixed, extra, 0)
	}
}

// SendData sends a payload after all that was sent before on the stream.
func (c *Conn) SendData(s *Stream, p Payload, end bool) {
	if !s.open || s.localClosed {
		p.release()
		return
	}
	n := len(p.Data)
	if len(s.queue) == 0 && (n == 0 || len(c.line) == 0 && c.room(s) >= n && n <= c.frameLimit()) {
		c.writeData(s, &p, n, end)
		return
	}
	c.enqueue(s, pending{payload: p, end: end})
}

// SendTrailers ends the response; servers only. Where nothing else was sent they
// are the whole response.
func (c *Conn) SendTrailers(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	if !s.open || s.localClosed {
		return
	}
	if len(s.queue) == 0 {
		c.writeTrailers(s, fixed, extra)
		return
	}
	c.enqueue(s, pending{trailers: fixed, extra: extra})
}

// CloseSend ends this side without content; clients only.
func (c *Conn) CloseSend(s *Stream) { c.SendData(s, Payload{}, true) }

// Reset ends a stream early. No event follows for it.
func (c *Conn) Reset(s *Stream, code ErrCode) {
	if s.open {
		c.appendReset(s.id, code)
		c.resetIDs.add(s.id)
		c.remove(s)
	}
}

// streamError resets a stream for a fault of the peer's. It is charged like a reset
// of the peer's own: either has this end begin work and throw it away.
func (c *Conn) streamError(s *Stream, code ErrCode, reason string) error {
	c.Reset(s, code)
	c.handler.OnReset(s, Reset{Code: code, Reason: reason})
	return c.spend("stream errors")
}

// Consume gives back n received bytes of a stream, so that the peer may send more.
func (c *Conn) Consume(s *Stream, n int) {
	n = min(n, int(s.unread)) // the rest went with Release
	s.unread -= int64(n)
	c.unread -= int64(n)
	s.owed += int64(n)
	if s.open && !s.remoteClosed && s.owed >= int64(c.cfg.StreamWindow)/2 {
		c.appendUint32(FrameHeader{Length: 4, Type: FrameWindowUpdate, StreamID: s.id}, uint32(s.owed))
		s.recvWindow += s.owed
		s.owed = 0
	}
	c.creditConn()
}

// creditConn renews the connection window as soon as bytes have come in, not when
// they are consumed, so that one slow stream does not hold up the others; but only
// while what lies unconsumed stays within its limit.
func (c *Conn) creditConn() {
	if c.owed >= int64(c.cfg.ConnWindow)/2 && c.unread <= int64(c.cfg.UnreadLimit) {
		c.appendUint32(FrameHeader{Length: 4, Type: FrameWindowUpdate}, uint32(c.owed))
		c.recvWindow += c.owed
		c.owed = 0
	}
}

// Ping asks the peer for an answer with the same data.
func (c *Conn) Ping(data [8]byte) {
	c.appendFrame(FrameHeader{Length: 8, Type: FramePing}, data[:])
}

// GoAwaySoon announces the end while still accepting every stream, the first of
// the two steps of section 6.8.
func (c *Conn) GoAwaySoon() { c.sendGoAway(maxWindow, CodeNo, "") }

// GoAway refuses streams beyond those that have been opened.
func (c *Conn) GoAway(code ErrCode, reason string) { c.sendGoAway(c.lastPeerID, code, reason) }

func (c *Conn) sendGoAway(last uint32, code ErrCode, reason string) {
	c.goAwaySent = true
	c.goAwayLimit = last
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, uint32(code))
	payload = append(payload, reason...)
	c.appendFrame(FrameHeader{Length: len(payload), Type: FrameGoAway}, payload)
}

// Close drops all that waits, once nobody writes any more.
func (c *Conn) Close() {
	c.DropStreams(func(*Stream) {})
	c.line = nil
	c.out.Recycle()
	if c.failed == nil {
		c.failed = &ConnError{Code: CodeNo, Reason: "closed"}
	}
}

func (c *Conn) appendFrame(h FrameHeader, payload []byte) {
	c.out.appended(append(AppendFrameHeader(c.out.buf, h), payload...))
}

func (c *Conn) appendUint32(h FrameHeader, v uint32) {
	c.out.appended(binary.BigEndian.AppendUint32(AppendFrameHeader(c.out.buf, h), v))
}

func (c *Conn) appendReset(id uint32, code ErrCode) {
	c.appendUint32(FrameHeader{Length: 4, Type: FrameRSTStream, StreamID: id}, uint32(code))
}

// appendBlock writes a header block as HEADERS and, where it is longer than the
// peer's frames, CONTINUATION.
func (c *Conn) appendBlock(id uint32, fixed *FixedFields, extra []hpack.HeaderField, flags uint8) {
	c.Activity++
	c.budget.earn(sentFrameCredit)
	start := len(c.out.buf)
	h := FrameHeader{Type: FrameHeaders, Flags: flags | FlagEndHeaders, StreamID: id}
	buf := AppendFrameHeader(c.out.buf, h)
	buf = c.enc.appendBlock(buf, fixed, extra)
	h.Length = len(buf) - start - FrameHeaderLen
	if h.Length > c.peer.maxFrame {
		buf = c.splitBlock(buf[:start], append([]byte(nil), buf[start+FrameHeaderLen:]...), h)
	} else {
		AppendFrameHeader(buf[:start], h)
	}
	c.out.appended(buf)
}

func (c *Conn) splitBlock(buf, block []byte, h FrameHeader) []byte {
	for h.Flags &^= FlagEndHeaders; ; h.Type, h.Flags = FrameContinuation, 0 {
		h.Length = min(len(block), c.peer.maxFrame)
		if h.Length == len(block) {
			h.Flags |= FlagEndHeaders
		}
		buf = append(AppendFrameHeader(buf, h), block[:h.Length]...)
		if block = block[h.Length:]; len(block) == 0 {
			return buf
		}
	}
}
