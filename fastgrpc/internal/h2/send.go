package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// Open opens a stream; clients only, and only if Slots is positive.
func (c *Conn) Open(s *Stream) {
	c.addStream(s, c.nextID)
	c.nextID += 2
}

func (c *Conn) addStream(s *Stream, id uint32) {
	s.id = id
	s.open = true
	s.sendWindow = c.peer.initialWindow
	s.recvWindow = int64(c.cfg.StreamWindow)
	c.streams.put(s)
}

// remove removes a stream from the table. Its unread bytes still count until Release.
func (c *Conn) remove(s *Stream) {
	if !s.open {
		return
	}
	s.open = false
	c.streams.remove(s)
	if c.isPeerStream(s.id) && !s.holdsSlot {
		c.unreleased--
	}
	for i := range s.queue {
		// The output may refer to a payload that was sent in part.
		if owner := s.queue[i].payload.Owner; owner != nil {
			c.out.owners = append(c.out.owners, owner)
		}
	}
	s.queue = nil
	c.unschedule(s)
}

// finish removes a stream whose response is complete. If the request is not, a reset
// with NO_ERROR tells the peer that the rest of it is not needed (section 8.1).
func (c *Conn) finish(s *Stream) {
	answered := s.remoteClosed && c.cfg.Client || s.localClosed && !c.cfg.Client
	if !s.open || !answered {
		return
	}
	if !s.localClosed || !s.remoteClosed {
		c.appendReset(s.id, http2.ErrCodeNo)
		c.resetIDs.add(s.id)
	}
	c.remove(s)
}

// peerStream reports whether the peer opened the stream.
func (c *Conn) isPeerStream(id uint32) bool { return c.cfg.Client == (id%2 == 0) }

// Release returns the stream's unconsumed bytes to the connection window and frees its
// slot, if the stream is closed. A server calls it once per stream, when the handler has
// returned, so that a peer cannot exceed MaxStreams by resets or by not reading.
func (c *Conn) Release(s *Stream) {
	if s.holdsSlot && !s.open {
		c.unreleased--
	}
	s.holdsSlot = false
	c.unread -= s.unread
	s.unread = 0
	c.creditConn()
}

// SendHeaders sends the header of a request or a response.
func (c *Conn) SendHeaders(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	if s.open && !s.sentHeaders {
		s.sentHeaders = true
		c.appendBlock(s.id, fixed, extra, 0)
	}
}

// SendData sends a payload in order, or queues it until flow control allows it.
func (c *Conn) SendData(s *Stream, p Payload, end bool) {
	if !s.open || s.localClosed {
		p.release()
		return
	}
	n := len(p.Data)
	if len(s.queue) == 0 && (n == 0 || len(c.sendQueue) == 0 && c.sendable(s) >= n && n <= c.frameLimit()) {
		c.writeData(s, &p, n, end)
		return
	}
	c.enqueue(s, pending{payload: p, end: end})
}

// SendTrailers ends the response; servers only. Without a header before, they are the
// whole response.
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

// CloseSend ends the request without more content; clients only.
func (c *Conn) CloseSend(s *Stream) { c.SendData(s, Payload{}, true) }

// Reset ends a stream early. The Handler gets no more events for it.
func (c *Conn) Reset(s *Stream, code http2.ErrCode) {
	if s.open {
		c.appendReset(s.id, code)
		c.resetIDs.add(s.id)
		c.remove(s)
	}
}

// streamError resets a stream because the peer broke the protocol. It costs budget like
// a reset by the peer: both make this end begin work and discard it.
func (c *Conn) streamError(s *Stream, code http2.ErrCode, reason string) error {
	c.Reset(s, code)
	c.handler.OnReset(s, Reset{Code: code, Reason: reason})
	return c.spend("stream errors")
}

// Consume returns n received bytes to the stream's window, so that the peer may send
// more.
func (c *Conn) Consume(s *Stream, n int) {
	n = min(n, int(s.unread)) // Release has returned the rest
	s.unread -= int64(n)
	c.unread -= int64(n)
	s.uncredited += int64(n)
	if s.open && !s.remoteClosed && s.uncredited >= int64(c.cfg.StreamWindow)/2 {
		c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate, StreamID: s.id}, uint32(s.uncredited))
		s.recvWindow += s.uncredited
		s.uncredited = 0
	}
	c.creditConn()
}

// creditConn renews the connection window when bytes are received, not when they are
// consumed, so that one slow stream does not block the others. It stops while the
// unconsumed bytes exceed UnreadLimit.
func (c *Conn) creditConn() {
	if c.uncredited >= int64(c.cfg.ConnWindow)/2 && c.unread <= int64(c.cfg.UnreadLimit) {
		c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate}, uint32(c.uncredited))
		c.recvWindow += c.uncredited
		c.uncredited = 0
	}
}

// Ping sends a ping; OnPong gets the answer with the same data.
func (c *Conn) Ping(data [8]byte) {
	c.appendFrame(FrameHeader{Length: 8, Type: http2.FramePing}, data[:])
}

// GoAwaySoon announces the end but still accepts all streams: the first of the two
// steps of section 6.8.
func (c *Conn) GoAwaySoon() { c.sendGoAway(maxWindow, http2.ErrCodeNo, "") }

// GoAway accepts no streams beyond those already opened.
func (c *Conn) GoAway(code http2.ErrCode, reason string) { c.sendGoAway(c.lastPeerID, code, reason) }

func (c *Conn) sendGoAway(last uint32, code http2.ErrCode, reason string) {
	c.goAwaySent = true
	c.goAwayLimit = last
	payload := binary.BigEndian.AppendUint32(nil, last)
	payload = binary.BigEndian.AppendUint32(payload, uint32(code))
	payload = append(payload, reason...)
	c.appendFrame(FrameHeader{Length: len(payload), Type: http2.FrameGoAway}, payload)
}

// Close drops the output and all streams. No write may be in progress.
func (c *Conn) Close() {
	c.DropStreams(func(*Stream) {})
	c.sendQueue = nil
	c.out.Recycle()
	if c.failed == nil {
		c.failed = &ConnError{Code: http2.ErrCodeNo, Reason: "closed"}
	}
}

func (c *Conn) appendFrame(h FrameHeader, payload []byte) {
	c.out.appended(append(AppendFrameHeader(c.out.buf, h), payload...))
}

func (c *Conn) appendUint32(h FrameHeader, v uint32) {
	c.out.appended(binary.BigEndian.AppendUint32(AppendFrameHeader(c.out.buf, h), v))
}

func (c *Conn) appendReset(id uint32, code http2.ErrCode) {
	c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameRSTStream, StreamID: id}, uint32(code))
}

// appendBlock writes a header block as HEADERS and, if it is longer than the peer's
// maximum frame, CONTINUATION.
func (c *Conn) appendBlock(id uint32, fixed *FixedFields, extra []hpack.HeaderField, flags http2.Flags) {
	c.Activity++
	c.budget.earn(creditPerSentFrame)
	start := len(c.out.buf)
	h := FrameHeader{Type: http2.FrameHeaders, Flags: flags | http2.FlagHeadersEndHeaders, StreamID: id}
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
	for h.Flags &^= http2.FlagHeadersEndHeaders; ; h.Type, h.Flags = http2.FrameContinuation, 0 {
		h.Length = min(len(block), c.peer.maxFrame)
		if h.Length == len(block) {
			h.Flags |= http2.FlagHeadersEndHeaders
		}
		buf = append(AppendFrameHeader(buf, h), block[:h.Length]...)
		if block = block[h.Length:]; len(block) == 0 {
			return buf
		}
	}
}
