package h2

import (
	"encoding/binary"
	"time"
)

// frame handles one whole frame, RFC 9113 section 6.
func (c *Conn) frame(now time.Duration, h FrameHeader, p []byte) error {
	if !c.gotSettings && (h.Type != FrameSettings || h.Has(FlagAck)) {
		return c.fail(CodeProtocol, "first frame is not SETTINGS")
	}
	if id := c.continuation.id; id != 0 && (h.Type != FrameContinuation || h.StreamID != id) {
		return c.fail(CodeProtocol, "header block interrupted")
	}
	switch h.Type {
	case FrameData:
		return c.onData(h, p)
	case FrameHeaders:
		return c.onHeaders(h, p)
	case FramePriority:
		return c.onPriority(h, p)
	case FrameRSTStream:
		return c.onRSTStream(h, p)
	case FrameSettings:
		return c.onSettings(h, p)
	case FramePushPromise:
		return c.fail(CodeProtocol, "PUSH_PROMISE where push is disabled")
	case FramePing:
		return c.onPing(now, h, p)
	case FrameGoAway:
		return c.onGoAway(h, p)
	case FrameWindowUpdate:
		return c.onWindowUpdate(h, p)
	case FrameContinuation:
		return c.onContinuation(h, p)
	}
	return c.spend("unknown frames") // section 4.1: ignore them
}

// spend charges the budget for a frame without useful content.
func (c *Conn) spend(what string) error {
	if !c.budget.spend() {
		return c.fail(CodeEnhanceYourCalm, "too many "+what)
	}
	return nil
}

// isIdle reports whether a stream has never been opened.
func (c *Conn) isIdle(id uint32) bool {
	if c.cfg.Client == (id%2 == 1) { // opened by this end
		return id >= c.nextID
	}
	return id > c.lastPeerID
}

func (c *Conn) onData(h FrameHeader, p []byte) error {
	length := int64(h.Length)
	if h.StreamID == 0 || c.isIdle(h.StreamID) {
		return c.fail(CodeProtocol, "DATA on an idle stream")
	}
	if length > c.recvWindow {
		return c.fail(CodeFlowControl, "DATA beyond the connection window")
	}
	c.recvWindow -= length
	c.uncredited += length
	data, ok := unpad(h, p)
	if !ok {
		return c.fail(CodeProtocol, "padding longer than its frame")
	}
	end := h.Has(FlagEndStream)
	if len(data) == 0 && !end {
		if err := c.spend("empty DATA frames"); err != nil {
			return err
		}
	}
	s := c.streams.get(h.StreamID)
	if s == nil {
		return c.dataOnClosed(h.StreamID, len(data))
	}
	s.received += int64(len(data))
	defer c.creditConn()
	switch {
	case s.remoteClosed:
		return c.streamError(s, CodeStreamClosed, "DATA after END_STREAM")
	case c.cfg.Client && !s.gotHeaders:
		return c.streamError(s, CodeProtocol, "DATA before response headers")
	case length > s.recvWindow:
		return c.streamError(s, CodeFlowControl, "DATA beyond the stream window")
	case s.declared > 0 && (s.received >= s.declared || end && s.received != s.declared-1):
		return c.streamError(s, CodeProtocol, "DATA does not match content-length")
	}
	c.deliver(s, data, length, end)
	return nil
}

func (c *Conn) deliver(s *Stream, data []byte, length int64, end bool) {
	s.recvWindow -= length
	s.uncredited += length - int64(len(data)) // padding is consumed at once
	s.unread += int64(len(data))
	c.unread += int64(len(data))
	s.remoteClosed = end
	c.handler.OnData(s, data, end)
	if end {
		c.finish(s)
	}
}

// dataOnClosed handles DATA on a closed stream (section 5.1). It is expected after this
// end's reset: the peer may have sent a whole window of short frames before it knew, and
// they cost no more than on an open stream. Otherwise it is an error.
func (c *Conn) dataOnClosed(id uint32, length int) error {
	defer c.creditConn()
	late := c.resetIDs.has(id)
	if late && length > 0 {
		return nil
	}
	if !late {
		c.appendReset(id, CodeStreamClosed)
	}
	return c.spend("frames on closed streams")
}

func (c *Conn) onHeaders(h FrameHeader, p []byte) error {
	if h.StreamID == 0 || c.cfg.Client && c.isIdle(h.StreamID) || h.StreamID%2 == 0 {
		return c.fail(CodeProtocol, "HEADERS on a stream that cannot have them")
	}
	block, ok := unpad(h, p)
	if ok && h.Has(FlagPriority) {
		if ok = len(block) >= 5; ok {
			if binary.BigEndian.Uint32(block)&maxWindow == h.StreamID {
				return c.fail(CodeProtocol, "stream depends on itself")
			}
			block = block[5:]
		}
	}
	if !ok {
		return c.fail(CodeProtocol, "HEADERS frame too short for its flags")
	}
	if h.Has(FlagEndHeaders) {
		return c.onBlock(h.StreamID, h.Flags, block)
	}
	c.continuation.id, c.continuation.flags, c.continuation.count = h.StreamID, h.Flags, 0
	c.continuation.block = append(c.continuation.block[:0], block...)
	return nil
}

// maxContinuations bounds the CONTINUATION frames of a block. MaxHeaderList bounds
// their bytes.
const maxContinuations = 64

func (c *Conn) onContinuation(h FrameHeader, p []byte) error {
	cont := &c.continuation
	if cont.id == 0 {
		return c.fail(CodeProtocol, "CONTINUATION without HEADERS")
	}
	cont.count++
	if cont.count > maxContinuations || len(cont.block)+len(p) > c.cfg.MaxHeaderList {
		return c.fail(CodeEnhanceYourCalm, "header block too long")
	}
	cont.block = append(cont.block, p...)
	if !h.Has(FlagEndHeaders) {
		return nil
	}
	id := cont.id
	cont.id = 0
	return c.onBlock(id, cont.flags, cont.block)
}

func (c *Conn) onBlock(id uint32, flags uint8, compressed []byte) error {
	block, err := c.dec.decode(compressed)
	if err != nil {
		return c.fail(CodeCompression, err.Error())
	}
	end := flags&FlagEndStream != 0
	if s := c.streams.get(id); s != nil {
		return c.onStreamBlock(s, block, end)
	}
	if !c.isIdle(id) {
		if c.cfg.Client || c.resetIDs.has(id) {
			return c.spend("headers on closed streams")
		}
		return c.fail(CodeStreamClosed, "HEADERS on a closed stream")
	}
	return c.onRequest(id, block, end)
}

// onRequest opens a stream for the peer; servers only.
func (c *Conn) onRequest(id uint32, block *Block, end bool) error {
	c.lastPeerID = id
	if c.goAwaySent && id > c.goAwayLimit {
		return nil // the GOAWAY has told the peer that it is not processed
	}
	refuse := CodeNo
	switch {
	case c.streams.n >= c.cfg.MaxStreams, c.unreleased >= 2*c.cfg.MaxStreams:
		refuse = CodeRefusedStream
	case block.TooLarge:
	case block.check.request() != "", end && block.check.contentLength > 1:
		refuse = CodeProtocol
	}
	if refuse != CodeNo {
		c.appendReset(id, refuse)
		c.resetIDs.add(id)
		return c.spend("refused streams")
	}
	s := c.handler.OnOpen()
	c.addStream(s, id)
	s.holdsSlot = true
	c.unreleased++
	s.gotHeaders = true
	s.remoteClosed = end
	s.declared = block.check.contentLength
	c.handler.OnHeaders(s, block, end)
	if end {
		c.finish(s)
	}
	return nil
}

// onStreamBlock handles a response header, an informational response or trailers.
func (c *Conn) onStreamBlock(s *Stream, block *Block, end bool) error {
	if s.remoteClosed {
		return c.streamError(s, CodeStreamClosed, "HEADERS after END_STREAM")
	}
	fault := ""
	switch {
	case s.gotHeaders:
		if fault = block.check.trailers(); fault == "" && !end {
			fault = "trailers without END_STREAM"
		}
	case block.TooLarge:
	default:
		fault = block.check.response()
		s.declared = block.check.contentLength
	}
	if fault == "" && end && s.declared > 0 && s.received != s.declared-1 {
		fault = "content does not match content-length"
	}
	if fault == "" && !s.gotHeaders && end && block.check.informational {
		fault = "informational response with END_STREAM"
	}
	if fault != "" {
		return c.streamError(s, CodeProtocol, fault)
	}
	if !s.gotHeaders && block.check.informational {
		return c.spend("informational responses")
	}
	c.budget.earn(1)
	s.gotHeaders = true
	s.remoteClosed = end
	c.handler.OnHeaders(s, block, end)
	if end {
		c.finish(s)
	}
	return nil
}

func (c *Conn) onPriority(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID == 0:
		return c.fail(CodeProtocol, "PRIORITY on stream 0")
	case len(p) != 5:
		return c.fail(CodeFrameSize, "PRIORITY of the wrong length")
	case binary.BigEndian.Uint32(p)&maxWindow == h.StreamID:
		return c.fail(CodeProtocol, "stream depends on itself")
	}
	return c.spend("priorities")
}

func (c *Conn) onRSTStream(h FrameHeader, p []byte) error {
	switch {
	case len(p) != 4:
		return c.fail(CodeFrameSize, "RST_STREAM of the wrong length")
	case h.StreamID == 0 || c.isIdle(h.StreamID):
		return c.fail(CodeProtocol, "RST_STREAM on an idle stream")
	}
	if s := c.streams.get(h.StreamID); s != nil {
		code := ErrCode(binary.BigEndian.Uint32(p))
		c.remove(s)
		c.handler.OnReset(s, Reset{Code: code, Unprocessed: code == CodeRefusedStream})
	}
	return c.spend("resets")
}

func (c *Conn) onPing(now time.Duration, h FrameHeader, p []byte) error {
	switch {
	case len(p) != 8:
		return c.fail(CodeFrameSize, "PING of the wrong length")
	case h.StreamID != 0:
		return c.fail(CodeProtocol, "PING on a stream")
	case h.Has(FlagAck):
		c.handler.OnPong([8]byte(p))
		return c.spend("pongs")
	}
	c.appendFrame(FrameHeader{Length: 8, Type: FramePing, Flags: FlagAck}, p)
	if err := c.handler.OnPing(now); err != nil {
		return c.fail(err.Code, err.Reason)
	}
	if !c.budget.reply() {
		return c.fail(CodeEnhanceYourCalm, "answers are not read")
	}
	return c.spend("pings")
}

func (c *Conn) onGoAway(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID != 0:
		return c.fail(CodeProtocol, "GOAWAY on a stream")
	case len(p) < 8:
		return c.fail(CodeFrameSize, "GOAWAY too short")
	}
	last := binary.BigEndian.Uint32(p) & maxWindow
	code := ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.goAwayReceived = true
	if c.cfg.Client {
		c.streams.each(func(s *Stream) {
			if s.id > last {
				c.remove(s)
				c.handler.OnReset(s, Reset{Code: CodeRefusedStream, Reason: "connection going away", Unprocessed: true})
			}
		})
	}
	c.handler.OnGoAway(code, p[8:])
	return c.spend("GOAWAYs")
}

func (c *Conn) onWindowUpdate(h FrameHeader, p []byte) error {
	if len(p) != 4 {
		return c.fail(CodeFrameSize, "WINDOW_UPDATE of the wrong length")
	}
	n := int64(binary.BigEndian.Uint32(p) & maxWindow)
	if h.StreamID == 0 {
		c.sendWindow += n
		if n == 0 || c.sendWindow > maxWindow {
			return c.fail(windowErrCode(n), "bad connection WINDOW_UPDATE")
		}
	} else if s := c.streams.get(h.StreamID); s != nil {
		s.sendWindow += n
		if n == 0 || s.sendWindow > maxWindow {
			return c.streamError(s, windowErrCode(n), "bad WINDOW_UPDATE")
		}
		c.scheduleIfSendable(s)
	} else if c.isIdle(h.StreamID) {
		return c.fail(CodeProtocol, "WINDOW_UPDATE on an idle stream")
	}
	c.sendScheduled()
	return c.spend("window updates")
}

func windowErrCode(increment int64) ErrCode {
	if increment == 0 {
		return CodeProtocol
	}
	return CodeFlowControl
}
