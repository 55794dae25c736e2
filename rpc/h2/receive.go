package h2

import (
	"encoding/binary"
	"time"

	"golang.org/x/net/http2"
)

// onFrame handles one whole frame (RFC 9113 section 6).
func (c *Conn) onFrame(now time.Duration, h FrameHeader, p []byte) error {
	if !c.gotSettings && (h.Type != http2.FrameSettings || h.Flags.Has(http2.FlagSettingsAck)) {
		return c.failConn(http2.ErrCodeProtocol, "the first frame is not SETTINGS")
	}
	if id := c.continuation.id; id != 0 && (h.Type != http2.FrameContinuation || h.StreamID != id) {
		return c.failConn(http2.ErrCodeProtocol, "header block interrupted")
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
		return c.failConn(http2.ErrCodeProtocol, "PUSH_PROMISE where push is disabled")
	case http2.FramePing:
		return c.onPing(now, h, p)
	case http2.FrameGoAway:
		return c.onGoAway(h, p)
	case http2.FrameWindowUpdate:
		return c.onWindowUpdate(h, p)
	case http2.FrameContinuation:
		return c.onContinuation(h, p)
	}
	return c.spend("unknown frames") // ignore unknown frames (section 4.1)
}

// spend takes credit from the budget for a useless frame.
func (c *Conn) spend(what string) error { return c.spendMany(1, what) }

// spendWalk takes credit from the budget for a frame whose handling visits all streams.
func (c *Conn) spendWalk(what string) error { return c.spendMany(1+c.streams.n/64, what) }

func (c *Conn) spendMany(n int, what string) error {
	if !c.budget.spend(n) {
		return c.failConn(http2.ErrCodeEnhanceYourCalm, "too many "+what)
	}
	return nil
}

// countAnswer counts the bytes that were added to the output as an answer. before is the output's
// earlier length.
func (c *Conn) countAnswer(before int) { c.output().Answers += c.Pending() - before }

// answerReset answers a frame on a stream that is not open, with a reset.
func (c *Conn) answerReset(id uint32, code http2.ErrCode) {
	before := c.Pending()
	c.appendReset(id, code)
	c.countAnswer(before)
}

// isIdle reports whether a stream has never been opened.
func (c *Conn) isIdle(id uint32) bool {
	if c.isPeerStream(id) {
		return id > c.lastPeerID
	}
	return id >= c.nextID
}

func (c *Conn) onData(h FrameHeader, p []byte) error {
	length := int64(h.Length)
	if h.StreamID == 0 || c.isIdle(h.StreamID) {
		return c.failConn(http2.ErrCodeProtocol, "DATA on an idle stream")
	}
	if length > c.recvWindow {
		return c.failConn(http2.ErrCodeFlowControl, "DATA beyond the connection window")
	}
	c.recvWindow -= length
	c.uncredited += length
	data, ok := unpad(h, p)
	if !ok {
		return c.failConn(http2.ErrCodeProtocol, "padding longer than its frame")
	}
	end := h.Flags.Has(http2.FlagDataEndStream)
	if len(data) == 0 && !end {
		if err := c.spend("empty DATA frames"); err != nil {
			return err
		}
	}
	s := c.streams.get(h.StreamID)
	var err error
	if s == nil {
		err = c.dataOnClosed(h)
	} else {
		err = c.dataOnStream(s, data, length, end)
	}
	if err != nil {
		return err
	}
	c.renewConnIfAllowed()
	return nil
}

func (c *Conn) dataOnStream(s *Stream, data []byte, length int64, end bool) error {
	s.received += int64(len(data))
	switch {
	case s.remoteClosed:
		return c.streamError(s, http2.ErrCodeStreamClosed, "DATA after END_STREAM")
	case c.cfg.Client && !s.gotHeaders:
		return c.streamError(s, http2.ErrCodeProtocol, "DATA before response headers")
	case length > max(0, s.recvWindow):
		return c.streamError(s, http2.ErrCodeFlowControl, "DATA beyond the stream window")
	case s.declared > 0 && (s.received >= s.declared || end && s.received != s.declared-1):
		return c.streamError(s, http2.ErrCodeProtocol, "DATA does not match content-length")
	}
	s.recvWindow -= length
	if arrived := min(int(length), s.granted); arrived > 0 {
		s.granted -= arrived
		c.granted -= arrived
	}
	s.uncredited += int(length) - len(data) // return padding to the window at once
	s.unread += len(data)
	s.remoteClosed = end
	c.handler.OnData(s, data, end)
	if end {
		c.finish(s)
	}
	return nil
}

// dataOnClosed handles DATA on a closed stream (section 5.1). If this end has reset the stream, the
// peer may still use up the stream's window. Anything else is an error.
func (c *Conn) dataOnClosed(h FrameHeader) error {
	if h.Length > 0 && subtract(&c.late.bytes, int64(h.Length)) || h.Length == 0 && subtract(&c.late.ends, 1) {
		return nil
	}
	c.answerReset(h.StreamID, http2.ErrCodeStreamClosed)
	return c.spend("frames on closed streams")
}

func (c *Conn) onHeaders(h FrameHeader, p []byte) error {
	if h.StreamID == 0 || c.cfg.Client && c.isIdle(h.StreamID) || h.StreamID%2 == 0 {
		return c.failConn(http2.ErrCodeProtocol, "HEADERS on a stream that cannot have them")
	}
	block, ok := unpad(h, p)
	if ok && h.Flags.Has(http2.FlagHeadersPriority) {
		if ok = len(block) >= 5; ok {
			if binary.BigEndian.Uint32(block)&maxWindow == h.StreamID {
				return c.failConn(http2.ErrCodeProtocol, "stream depends on itself")
			}
			block = block[5:]
		}
	}
	if !ok {
		return c.failConn(http2.ErrCodeProtocol, "HEADERS frame too short for its flags")
	}
	if h.Flags.Has(http2.FlagHeadersEndHeaders) {
		decoded, err := c.dec.decode(block)
		return c.onBlock(h.StreamID, h.Flags, decoded, err)
	}
	c.continuation.id, c.continuation.flags = h.StreamID, h.Flags
	c.continuation.add(block)
	return nil
}

// shortContinuation is the length below which a CONTINUATION frame takes credit from the budget. A
// peer that needs several frames fills each with at least 16 KiB. MaxHeaderList limits their sum.
const shortContinuation = 1 << 10

func (c *Conn) onContinuation(h FrameHeader, p []byte) error {
	cont := &c.continuation
	if cont.id == 0 {
		return c.failConn(http2.ErrCodeProtocol, "CONTINUATION without HEADERS")
	}
	if cont.length+len(p) > c.cfg.MaxHeaderList {
		return c.failConn(http2.ErrCodeEnhanceYourCalm, "header block too long")
	}
	cont.add(p)
	if !h.Flags.Has(http2.FlagHeadersEndHeaders) {
		if len(p) < shortContinuation {
			return c.spend("short CONTINUATION frames")
		}
		return nil
	}
	id := cont.id
	cont.id = 0
	block, err := c.dec.decodeFragments(&cont.fragments)
	return c.onBlock(id, cont.flags, block, err)
}

// onBlock handles a decoded block. err is the error of decoding the block.
func (c *Conn) onBlock(id uint32, flags http2.Flags, block *Block, err error) error {
	if err != nil {
		return c.failConn(http2.ErrCodeCompression, err.Error())
	}
	err = c.onFields(id, block, flags.Has(http2.FlagHeadersEndStream))
	c.dec.freeBlock()
	return err
}

func (c *Conn) onFields(id uint32, block *Block, end bool) error {
	switch s := c.streams.get(id); {
	case s != nil:
		return c.onStreamBlock(s, block, end)
	case c.isIdle(id):
		return c.onRequest(id, block, end)
	case subtract(&c.late.blocks, 1):
		return nil
	case c.cfg.Client:
		return c.spend("headers on closed streams")
	}
	return c.failConn(http2.ErrCodeStreamClosed, "HEADERS on a closed stream")
}

// onRequest opens a stream for the peer; servers only.
func (c *Conn) onRequest(id uint32, block *Block, end bool) error {
	c.lastPeerID = id
	if c.goAwaySent && id > c.goAwayLimit {
		c.late.add(int64(c.window))
		return nil // the GOAWAY says that the stream is not processed
	}
	cost := streamCost + block.cost()
	refuse := http2.ErrCodeNo
	switch {
	case c.streams.n >= c.cfg.MaxStreams, c.unreleased/2 >= c.cfg.MaxStreams:
		refuse = http2.ErrCodeRefusedStream
	case c.recordRoom() < cost:
		refuse = http2.ErrCodeRefusedStream
		c.limitStreams()
	case block.TooLarge:
	case block.check.requestFault() != "", end && block.check.contentLength > 1:
		refuse = http2.ErrCodeProtocol
	}
	if refuse != http2.ErrCodeNo {
		c.answerReset(id, refuse)
		if !end {
			c.late.add(int64(c.window))
		}
		return c.spend("refused streams")
	}
	s := c.handler.OnOpen()
	c.addStream(s, id)
	c.addRecordCost(s, cost)
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
		if fault = block.check.trailersFault(); fault == "" && !end {
			fault = "trailers without END_STREAM"
		}
	case block.TooLarge:
	default:
		fault = block.check.responseFault()
		if !s.AnyLength {
			s.declared = block.check.contentLength
		}
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
	if c.cfg.Client && !end {
		if c.recordRoom() < block.cost() {
			return c.streamError(s, http2.ErrCodeEnhanceYourCalm, "no memory for the response header")
		}
		c.addRecordCost(s, block.cost())
	}
	c.budget.addCredit(1)
	s.gotHeaders = true
	s.remoteClosed = end
	c.handler.OnHeaders(s, block, end)
	if end {
		c.finish(s)
	}
	return nil
}

func (c *Conn) onRSTStream(h FrameHeader, p []byte) error {
	switch {
	case len(p) != 4:
		return c.failConn(http2.ErrCodeFrameSize, "RST_STREAM of the wrong length")
	case h.StreamID == 0 || c.isIdle(h.StreamID):
		return c.failConn(http2.ErrCodeProtocol, "RST_STREAM on an idle stream")
	}
	if s := c.streams.get(h.StreamID); s != nil {
		code := http2.ErrCode(binary.BigEndian.Uint32(p))
		c.remove(s)
		c.handler.OnReset(s, Reset{Code: code, Unprocessed: code == http2.ErrCodeRefusedStream})
		return nil // takes no credit: the stream occupies its slot until Release
	}
	if subtract(&c.late.ends, 1) {
		return nil
	}
	return c.spend("resets")
}
