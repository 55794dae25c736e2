package h2

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

// frame handles one whole frame, RFC 9113 section 6.
func (c *Conn) frame(now time.Duration, h FrameHeader, p []byte) error {
	if !c.gotSettings && (h.Type != http2.FrameSettings || h.Flags.Has(http2.FlagSettingsAck)) {
		return c.fail(http2.ErrCodeProtocol, "first frame is not SETTINGS")
	}
	if id := c.continuation.id; id != 0 && (h.Type != http2.FrameContinuation || h.StreamID != id) {
		return c.fail(http2.ErrCodeProtocol, "header block interrupted")
	}
	switch h.Type {
	case http2.FrameData:
		return c.onData(h, p)
	case http2.FrameHeaders:
		return c.onHeaders(h, p)
	case http2.FramePriority:
		return c.onPriority(h, p)
	case http2.FrameRSTStream:
		return c.onRSTStream(h, p)
	case http2.FrameSettings:
		return c.onSettings(h, p)
	case http2.FramePushPromise:
		return c.fail(http2.ErrCodeProtocol, "PUSH_PROMISE where push is disabled")
	case http2.FramePing:
		return c.onPing(now, h, p)
	case http2.FrameGoAway:
		return c.onGoAway(h, p)
	case http2.FrameWindowUpdate:
		return c.onWindowUpdate(h, p)
	case http2.FrameContinuation:
		return c.onContinuation(h, p)
	}
	return c.spend("unknown frames") // section 4.1: ignore them
}

// spend charges the budget for a frame without useful content.
func (c *Conn) spend(what string) error {
	if !c.budget.spend() {
		return c.fail(http2.ErrCodeEnhanceYourCalm, "too many "+what)
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
		return c.fail(http2.ErrCodeProtocol, "DATA on an idle stream")
	}
	if length > c.recvWindow {
		return c.fail(http2.ErrCodeFlowControl, "DATA beyond the connection window")
	}
	c.recvWindow -= length
	c.uncredited += length
	data, ok := unpad(h, p)
	if !ok {
		return c.fail(http2.ErrCodeProtocol, "padding longer than its frame")
	}
	end := h.Flags.Has(http2.FlagDataEndStream)
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
		return c.streamError(s, http2.ErrCodeStreamClosed, "DATA after END_STREAM")
	case c.cfg.Client && !s.gotHeaders:
		return c.streamError(s, http2.ErrCodeProtocol, "DATA before response headers")
	case length > s.recvWindow:
		return c.streamError(s, http2.ErrCodeFlowControl, "DATA beyond the stream window")
	case s.declared > 0 && (s.received >= s.declared || end && s.received != s.declared-1):
		return c.streamError(s, http2.ErrCodeProtocol, "DATA does not match content-length")
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
		c.appendReset(id, http2.ErrCodeStreamClosed)
	}
	return c.spend("frames on closed streams")
}

func (c *Conn) onHeaders(h FrameHeader, p []byte) error {
	if h.StreamID == 0 || c.cfg.Client && c.isIdle(h.StreamID) || h.StreamID%2 == 0 {
		return c.fail(http2.ErrCodeProtocol, "HEADERS on a stream that cannot have them")
	}
	block, ok := unpad(h, p)
	if ok && h.Flags.Has(http2.FlagHeadersPriority) {
		if ok = len(block) >= 5; ok {
			if binary.BigEndian.Uint32(block)&maxWindow == h.StreamID {
				return c.fail(http2.ErrCodeProtocol, "stream depends on itself")
			}
			block = block[5:]
		}
	}
	if !ok {
		return c.fail(http2.ErrCodeProtocol, "HEADERS frame too short for its flags")
	}
	if h.Flags.Has(http2.FlagHeadersEndHeaders) {
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
		return c.fail(http2.ErrCodeProtocol, "CONTINUATION without HEADERS")
	}
	cont.count++
	if cont.count > maxContinuations || len(cont.block)+len(p) > c.cfg.MaxHeaderList {
		return c.fail(http2.ErrCodeEnhanceYourCalm, "header block too long")
	}
	cont.block = append(cont.block, p...)
	if !h.Flags.Has(http2.FlagHeadersEndHeaders) {
		return nil
	}
	id := cont.id
	cont.id = 0
	return c.onBlock(id, cont.flags, cont.block)
}

func (c *Conn) onBlock(id uint32, flags http2.Flags, compressed []byte) error {
	block, err := c.dec.decode(compressed)
	if err != nil {
		return c.fail(http2.ErrCodeCompression, err.Error())
	}
	end := flags.Has(http2.FlagHeadersEndStream)
	if s := c.streams.get(id); s != nil {
		return c.onStreamBlock(s, block, end)
	}
	if !c.isIdle(id) {
		if c.cfg.Client || c.resetIDs.has(id) {
			return c.spend("headers on closed streams")
		}
		return c.fail(http2.ErrCodeStreamClosed, "HEADERS on a closed stream")
	}
	return c.onRequest(id, block, end)
}

// onRequest opens a stream for the peer; servers only.
func (c *Conn) onRequest(id uint32, block *Block, end bool) error {
	c.lastPeerID = id
	if c.goAwaySent && id > c.goAwayLimit {
		return nil // the GOAWAY has told the peer that it is not processed
	}
	refuse := http2.ErrCodeNo
	switch {
	case c.streams.n >= c.cfg.MaxStreams, c.unreleased >= 2*c.cfg.MaxStreams:
		refuse = http2.ErrCodeRefusedStream
	case block.TooLarge:
	case block.check.request() != "", end && block.check.contentLength > 1:
		refuse = http2.ErrCodeProtocol
	}
	if refuse != http2.ErrCodeNo {
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
		return c.streamError(s, http2.ErrCodeStreamClosed, "HEADERS after END_STREAM")
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
		return c.streamError(s, http2.ErrCodeProtocol, fault)
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
		return c.fail(http2.ErrCodeProtocol, "PRIORITY on stream 0")
	case len(p) != 5:
		return c.fail(http2.ErrCodeFrameSize, "PRIORITY of the wrong length")
	case binary.BigEndian.Uint32(p)&maxWindow == h.StreamID:
		return c.fail(http2.ErrCodeProtocol, "stream depends on itself")
	}
	return c.spend("priorities")
}

func (c *Conn) onRSTStream(h FrameHeader, p []byte) error {
	switch {
	case len(p) != 4:
		return c.fail(http2.ErrCodeFrameSize, "RST_STREAM of the wrong length")
	case h.StreamID == 0 || c.isIdle(h.StreamID):
		return c.fail(http2.ErrCodeProtocol, "RST_STREAM on an idle stream")
	}
	if s := c.streams.get(h.StreamID); s != nil {
		code := http2.ErrCode(binary.BigEndian.Uint32(p))
		c.remove(s)
		c.handler.OnReset(s, Reset{Code: code, Unprocessed: code == http2.ErrCodeRefusedStream})
	}
	return c.spend("resets")
}

func (c *Conn) onPing(now time.Duration, h FrameHeader, p []byte) error {
	switch {
	case len(p) != 8:
		return c.fail(http2.ErrCodeFrameSize, "PING of the wrong length")
	case h.StreamID != 0:
		return c.fail(http2.ErrCodeProtocol, "PING on a stream")
	case h.Flags.Has(http2.FlagPingAck):
		c.handler.OnPong([8]byte(p))
		return c.spend("pongs")
	}
	c.appendFrame(FrameHeader{Length: 8, Type: http2.FramePing, Flags: http2.FlagPingAck}, p)
	if err := c.handler.OnPing(now); err != nil {
		return c.fail(err.Code, err.Reason)
	}
	if !c.budget.reply() {
		return c.fail(http2.ErrCodeEnhanceYourCalm, "answers are not read")
	}
	return c.spend("pings")
}

func (c *Conn) onGoAway(h FrameHeader, p []byte) error {
	switch {
	case h.StreamID != 0:
		return c.fail(http2.ErrCodeProtocol, "GOAWAY on a stream")
	case len(p) < 8:
		return c.fail(http2.ErrCodeFrameSize, "GOAWAY too short")
	}
	last := binary.BigEndian.Uint32(p) & maxWindow
	code := http2.ErrCode(binary.BigEndian.Uint32(p[4:]))
	c.goAwayReceived = true
	if c.cfg.Client {
		c.streams.each(func(s *Stream) {
			if s.id > last {
				c.remove(s)
				c.handler.OnReset(s, Reset{Code: http2.ErrCodeRefusedStream, Reason: "connection going away", Unprocessed: true})
			}
		})
	}
	c.handler.OnGoAway(code, p[8:])
	return c.spend("GOAWAYs")
}

func (c *Conn) onWindowUpdate(h FrameHeader, p []byte) error {
	if len(p) != 4 {
		return c.fail(http2.ErrCodeFrameSize, "WINDOW_UPDATE of the wrong length")
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
		return c.fail(http2.ErrCodeProtocol, "WINDOW_UPDATE on an idle stream")
	}
	c.sendScheduled()
	return c.spend("window updates")
}

func windowErrCode(increment int64) http2.ErrCode {
	if increment == 0 {
		return http2.ErrCodeProtocol
	}
	return http2.ErrCodeFlowControl
}
