package h2

import (
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"wirelab.dev/rpc/batchio"
)

// Short messages are sent whole, one after the other, so that the slowest call is not much slower
// than the median. Only a few long messages at a time are sent in turns, because the peer must keep
// every message that has begun until the message is complete.
const (
	// turnBytes is the number of bytes that a stream sends per turn. Short messages fit into one.
	turnBytes = ShortMessage
	// maxPreferred is the number of bytes of short messages before a long message has a turn.
	maxPreferred = 4 * turnBytes
	// maxActive is the number of long messages that take turns.
	maxActive = 4
	// maxStint is the number of bytes of long messages that a stream sends before another stream
	// becomes active. It is the usual limit of a message's length.
	maxStint = 4 << 20
)

// ShortMessage is the largest length of a message that is sent whole, before long messages.
const ShortMessage = 64 << 10

// maxSentFrame limits the length of sent frames, even if the peer accepts longer frames.
const maxSentFrame = 256 << 10

func (c *Conn) frameLimit() int { return min(c.peer.maxFrame, maxSentFrame) }

// sendable returns the bytes that the stream may send now, or -1 if the output is full.
func (c *Conn) sendable(s *Stream) int {
	if c.outputFull() {
		return -1
	}
	return int(max(0, min(s.sendWindow, c.sendWindow)))
}

func (c *Conn) nothingScheduled() bool {
	return c.first.head == nil && c.short.head == nil && c.active.head == nil && c.rest.head == nil
}

func (c *Conn) enqueue(s *Stream, p queueEntry) {
	c.addQueued(s, &p)
	s.queue, s.waited = append(s.queue, p), true
	c.schedule(s)
	c.sendScheduled()
}

// schedule puts a stream into the list from which it sends in its turn. Header fields and ends come
// first, because they need no window, and then short messages. A stream whose long message has
// begun stays active until it has sent maxStint bytes.
func (c *Conn) schedule(s *Stream) {
	if s.links[sendingList].in != nil || !s.open {
		return
	}
	head := &s.queue[0]
	switch {
	case head.fields != nil, len(head.payload.Data) == 0:
		c.first.push(s)
	case len(head.payload.Data) <= turnBytes:
		c.short.push(s)
	case s.stint > 0 && s.stint < maxStint:
		c.active.push(s)
	default:
		s.stint = 0
		c.rest.push(s)
	}
}

// scheduleIfSendable schedules a stream unless its own window is exhausted.
func (c *Conn) scheduleIfSendable(s *Stream) {
	if len(s.queue) > 0 && (s.sendWindow > 0 || len(s.queue[0].payload.Data) == 0) {
		c.schedule(s)
	}
}

// sendScheduled lets scheduled streams send while the output and the connection's window have room.
func (c *Conn) sendScheduled() {
	for !c.outputFull() {
		from := c.nextList()
		s := from.head
		if s == nil {
			return
		}
		from.drop(s)
		before := c.Pending()
		if !c.sendTurn(s) {
			c.scheduleIfSendable(s)
		}
		if from != &c.active {
			c.preferred += c.Pending() - before
		}
	}
}

// nextList returns the list from which the next stream sends. The list may be empty.
func (c *Conn) nextList() *streamList {
	if c.sendWindow <= 0 {
		return &c.first
	}
	if c.preferred >= maxPreferred || c.first.head == nil && c.short.head == nil {
		c.preferred = 0
		if s := c.rest.head; s != nil && c.active.n < maxActive {
			c.rest.drop(s)
			c.active.push(s)
		}
		if c.active.head != nil {
			return &c.active
		}
	}
	if c.first.head != nil {
		return &c.first
	}
	return &c.short
}

// sendTurn sends up to turnBytes of the stream's queue and reports whether the queue is empty.
func (c *Conn) sendTurn(s *Stream) bool {
	sent := 0
	for len(s.queue) > 0 && s.open {
		item := &s.queue[0]
		if item.fields != nil {
			if c.outputFull() {
				return false
			}
			item := s.queue[0]
			s.queue[0] = queueEntry{}
			s.queue = s.queue[1:]
			c.writeFields(s, item.fields, item.extra, item.end)
			if len(s.queue) > 0 && len(s.queue[0].payload.Data) > turnBytes {
				return false // a long message, which waits for its turn
			}
			continue
		}
		left := len(item.payload.Data)
		n := min(left, c.sendable(s), c.frameLimit())
		if n < 0 || n == 0 && left > 0 || sent >= turnBytes {
			return false
		}
		c.writeData(s, &item.payload, n, item.end && n == left)
		sent += n
		s.stint += n
		if n == left && len(s.queue) > 0 {
			s.queue[0] = queueEntry{}
			s.queue = s.queue[1:]
		}
	}
	s.stint = 0
	if s.open {
		s.queue = nil
		c.clearQueued(s)
		if s.Streaming {
			c.workEnded(s)
		}
		c.handler.OnDrained(s)
	}
	return true
}

// writeData puts the first n bytes of p into the output as one frame. If the output refers to these
// bytes, it gets a reference to p's owner. So a stream may release its queued payloads although the
// peer does not take the output. With the last frame, writeData ends p's own reference.
func (c *Conn) writeData(s *Stream, p *batchio.Payload, n int, end bool) {
	h := FrameHeader{Length: n, Type: http2.FrameData, StreamID: s.id}
	if end {
		h.Flags = http2.FlagDataEndStream
	}
	data := p.Data[:n]
	p.Data = p.Data[n:]
	s.sendWindow -= int64(n)
	c.sendWindow -= int64(n)
	c.Activity++
	c.contentSent += uint64(n)
	c.budget.addForSentFrame(n)
	byReference := c.cfg.MinReferenceLen > 0 && n >= c.cfg.MinReferenceLen
	out := c.output()
	if byReference {
		out.SetTail(AppendFrameHeader(out.Tail(), h))
		out.Reference(data)
		if p.Owner != nil {
			p.Owner.Retain()
			out.AddOwner(p.Owner)
		}
	} else {
		c.appendFrame(h, data)
	}
	if len(p.Data) == 0 {
		p.Release()
		p.Owner = nil
	}
	if end {
		c.ending++
		s.localClosed = true
		c.finish(s)
	}
}

// writeFields sends a header or trailers.
func (c *Conn) writeFields(s *Stream, fixed *FixedFields, extra []hpack.HeaderField, end bool) {
	if s.Streaming {
		c.workEnded(s)
	}
	if !end {
		c.appendBlock(s.id, fixed, extra, 0)
		return
	}
	s.localClosed = true
	c.ending++
	c.appendBlock(s.id, fixed, extra, http2.FlagHeadersEndStream)
	c.finish(s)
}
