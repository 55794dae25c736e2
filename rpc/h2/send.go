package h2

import (
	"encoding/binary"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// Open opens a stream. Only a client may call it, and only if FreeSlots is positive.
func (c *Conn) Open(s *Stream) {
	c.addStream(s, c.nextID)
	c.nextID += 2
}

func (c *Conn) addStream(s *Stream, id uint32) {
	s.id = id
	s.open = true
	s.sendWindow = c.peer.initialWindow
	s.recvWindow = int64(c.window)
	c.streams.put(s)
}

// remove removes a stream from the table. The stream's unread bytes count until Release.
func (c *Conn) remove(s *Stream) {
	if !s.open {
		return
	}
	s.open = false
	c.streams.remove(s)
	if s.waited {
		c.endWaits(s)
	}
	c.freeRecord(s)
	c.GrantContent()
}

// endWaits removes a closed stream from all lists, and drops its queue.
func (c *Conn) endWaits(s *Stream) {
	for i := range s.queue {
		s.queue[i].payload.Release() // outputs have their own references, see writeData
	}
	s.queue = nil
	c.clearQueued(s)
	for _, at := range s.links { // because the stream's owner may reuse the stream
		if at.in != nil {
			at.in.drop(s)
		}
	}
	c.CompleteMessage(s)
}

// freeRecord stops counting the memory of a stream if the stream is both closed and released.
func (c *Conn) freeRecord(s *Stream) {
	if s.open || s.holdsSlot {
		return
	}
	c.addRecordCost(s, -s.record)
	c.finishCall(s, s.localClosed)
	if c.isPeerStream(s.id) {
		c.unreleased--
		c.recordFreed()
	}
}

// finish removes a stream whose response is complete. If the request is incomplete, finish sends a
// reset with NO_ERROR: this end does not need the rest of the request (section 8.1).
func (c *Conn) finish(s *Stream) {
	answered := s.remoteClosed && c.cfg.Client || s.localClosed && !c.cfg.Client
	if !s.open || !answered {
		return
	}
	if !s.localClosed || !s.remoteClosed {
		c.resetStream(s, http2.ErrCodeNo)
	}
	c.remove(s)
}

// isPeerStream reports whether the peer opened the stream.
func (c *Conn) isPeerStream(id uint32) bool { return c.cfg.Client == (id%2 == 0) }

// Release ends the Handler's use of the stream's content. If the stream is closed, Release also
// frees its slot. A server calls Release once per stream, when the handler has returned. So a peer
// cannot exceed MaxStreams by resets or by not reading.
func (c *Conn) Release(s *Stream) {
	held := s.holdsSlot
	s.holdsSlot = false
	s.unread = 0
	if held {
		c.freeRecord(s)
	}
	c.GrantContent()
}

// SendHeaders sends the header of a request or a response.
func (c *Conn) SendHeaders(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	if s.open && !s.sentHeaders {
		s.sentHeaders = true
		c.sendFields(s, fixed, extra, false)
	}
}

// sendFields writes fields. A server queues fields while the output is full, because the peer may
// not read answers. A client does not queue them, because it must send requests in order.
func (c *Conn) sendFields(s *Stream, fixed *FixedFields, extra []hpack.HeaderField, end bool) {
	if len(s.queue) == 0 && (c.cfg.Client || !c.outputFull()) {
		c.writeFields(s, fixed, extra, end)
		return
	}
	c.enqueue(s, queueEntry{fields: fixed, extra: extra, end: end})
}

// SendData sends a payload in order, or queues it until flow control allows it.
func (c *Conn) SendData(s *Stream, p batchio.Payload, end bool) {
	if !s.open || s.localClosed {
		p.Release()
		return
	}
	n := len(p.Data)
	if len(s.queue) == 0 && (n == 0 || c.nothingScheduled() && c.sendable(s) >= n && n <= c.frameLimit()) {
		c.writeData(s, &p, n, end)
		return
	}
	c.enqueue(s, queueEntry{payload: p, end: end})
}

// SendTrailers ends the response. Without an earlier header, the fields are the whole response. A
// client calls it to send a request without content.
func (c *Conn) SendTrailers(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	if !s.open || s.localClosed {
		return
	}
	s.sentHeaders = true
	c.sendFields(s, fixed, extra, true)
}

// CloseSend ends the request without more content; clients only.
func (c *Conn) CloseSend(s *Stream) { c.SendData(s, batchio.Payload{}, true) }

// Reset ends a stream early. The Handler gets no more events for it.
func (c *Conn) Reset(s *Stream, code http2.ErrCode) {
	if s.open {
		c.resetStream(s, code)
		c.remove(s)
	}
}

// resetStream sends a reset. Before the reset arrives, the peer may use up the stream's window.
func (c *Conn) resetStream(s *Stream, code http2.ErrCode) {
	c.appendReset(s.id, code)
	if !s.remoteClosed {
		c.late.add(s.recvWindow)
	}
}

// streamError resets a stream because the peer broke the protocol. Like a reset by the peer, this
// takes credit from the budget, because this end has done useless work.
func (c *Conn) streamError(s *Stream, code http2.ErrCode, reason string) error {
	before := c.Pending()
	c.Reset(s, code)
	c.countAnswer(before)
	c.handler.OnReset(s, Reset{Code: code, Reason: reason})
	return c.spend("stream errors")
}

// Consume returns n received bytes to the stream's window, so that the peer may send more.
func (c *Conn) Consume(s *Stream, n int) {
	c.consume(s, n)
	c.GrantContent()
}

func (c *Conn) consume(s *Stream, n int) {
	n = min(n, s.unread) // there are no unread bytes after Release
	s.unread -= n
	early := min(n, s.advance)
	s.advance -= early
	s.uncredited += n - early
	if s.open && !s.remoteClosed && s.uncredited >= min(c.window, c.nextWindow)/2 {
		c.offerBytes(s, int64(s.uncredited))
		s.uncredited = 0
	}
}

// renewConnIfAllowed renews the connection's window for received bytes, even if they are unread.
func (c *Conn) renewConnIfAllowed() {
	if c.uncredited >= int64(c.cfg.ConnWindow)/2 && c.tuneWindow() {
		c.renewConn()
	}
}

func (c *Conn) renewConn() {
	if c.uncredited < int64(c.cfg.ConnWindow)/2 {
		return
	}
	c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate}, uint32(c.uncredited))
	c.recvWindow += c.uncredited
	c.uncredited = 0
}

// Close drops the output and all streams. No write may be in progress.
func (c *Conn) Close() {
	c.DropStreams(func(*Stream) {})
	c.out.Recycle()
	c.out = nil
	if c.failed == nil {
		c.failed = &ConnError{Code: http2.ErrCodeNo, Reason: "closed"}
	}
}

func (c *Conn) appendFrame(h FrameHeader, payload []byte) {
	out := c.output()
	out.SetTail(append(AppendFrameHeader(out.Tail(), h), payload...))
}

func (c *Conn) appendUint32(h FrameHeader, v uint32) {
	out := c.output()
	out.SetTail(binary.BigEndian.AppendUint32(AppendFrameHeader(out.Tail(), h), v))
}

func (c *Conn) appendReset(id uint32, code http2.ErrCode) {
	c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameRSTStream, StreamID: id}, uint32(code))
}

// appendBlock writes a header block as a HEADERS frame and, if needed, CONTINUATION frames.
func (c *Conn) appendBlock(id uint32, fixed *FixedFields, extra []hpack.HeaderField, flags http2.Flags) {
	c.Activity++
	c.budget.addForSentFrame(0)
	out := c.output()
	start := len(out.Tail())
	h := FrameHeader{Type: http2.FrameHeaders, Flags: flags | http2.FlagHeadersEndHeaders, StreamID: id}
	buf := AppendFrameHeader(out.Tail(), h)
	buf = c.enc.appendBlock(buf, fixed, extra)
	h.Length = len(buf) - start - FrameHeaderLen
	if h.Length > c.peer.maxFrame {
		buf = c.splitBlock(buf[:start], append([]byte(nil), buf[start+FrameHeaderLen:]...), h)
	} else {
		AppendFrameHeader(buf[:start], h)
	}
	out.SetTail(buf)
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
