package h2

import (
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// quantum is how many bytes a stream sends before the next one's turn. Common messages
// fit and are sent whole, one after the other, so the slowest call stays close to the
// median.
const quantum = 64 << 10

// maxSentFrame bounds sent frames, even if the peer accepts larger ones.
const maxSentFrame = 256 << 10

func (c *Conn) frameLimit() int { return min(c.peer.maxFrame, maxSentFrame) }

// sendable returns how many bytes the stream may put into the output now, or -1 if the
// output is full.
func (c *Conn) sendable(s *Stream) int {
	if c.out.size >= c.cfg.OutputLimit {
		return -1
	}
	return int(max(0, min(s.sendWindow, c.sendWindow)))
}

func (c *Conn) enqueue(s *Stream, p pending) {
	s.queue = append(s.queue, p)
	c.schedule(s)
	c.sendScheduled()
}

func (c *Conn) schedule(s *Stream) {
	if !s.scheduled && s.open {
		s.scheduled = true
		c.sendQueue = append(c.sendQueue, s)
	}
}

// unschedule removes a closed stream from the queue; its owner may reuse it.
func (c *Conn) unschedule(s *Stream) {
	if !s.scheduled {
		return
	}
	s.scheduled = false
	for i, other := range c.sendQueue {
		if other == s {
			c.sendQueue[i] = nil
			return
		}
	}
}

// scheduleIfSendable schedules a stream unless its own window is exhausted.
func (c *Conn) scheduleIfSendable(s *Stream) {
	if len(s.queue) > 0 && (s.sendWindow > 0 || len(s.queue[0].payload.Data) == 0) {
		c.schedule(s)
	}
}

// sendScheduled lets the scheduled streams send while the output and the connection
// window allow it.
func (c *Conn) sendScheduled() {
	n := 0
	for n < len(c.sendQueue) && c.out.size < c.cfg.OutputLimit {
		s := c.sendQueue[n]
		c.sendQueue[n] = nil
		n++
		if s == nil {
			continue // unscheduled
		}
		s.scheduled = false
		if c.sendTurn(s) {
			continue
		}
		if c.sendWindow <= 0 && s.sendWindow > 0 {
			// The connection's window is exhausted: keep the order.
			n--
			c.sendQueue[n] = s
			s.scheduled = true
			break
		}
		c.scheduleIfSendable(s)
	}
	if n > 0 {
		c.sendQueue = append(c.sendQueue[:0], c.sendQueue[n:]...)
	}
}

// sendTurn sends up to a quantum of the stream's queue and reports whether it is empty.
func (c *Conn) sendTurn(s *Stream) bool {
	sent := 0
	for len(s.queue) > 0 && s.open {
		item := &s.queue[0]
		if item.trailers != nil {
			c.writeTrailers(s, item.trailers, item.extra)
			return true
		}
		left := len(item.payload.Data)
		n := min(left, c.sendable(s), c.frameLimit())
		if n < 0 || n == 0 && left > 0 || sent >= quantum {
			return false
		}
		c.writeData(s, &item.payload, n, item.end && n == left)
		sent += n
		if n == left && len(s.queue) > 0 {
			s.queue[0] = pending{}
			s.queue = s.queue[1:]
		}
	}
	if s.open {
		s.queue = nil
		c.handler.OnDrained(s)
	}
	return true
}

// writeData puts the first n bytes of p into the output as one frame. With its last
// frame, the output becomes responsible for releasing the payload.
func (c *Conn) writeData(s *Stream, p *Payload, n int, end bool) {
	h := FrameHeader{Length: n, Type: http2.FrameData, StreamID: s.id}
	if end {
		h.Flags = http2.FlagDataEndStream
	}
	data := p.Data[:n]
	p.Data = p.Data[n:]
	s.sendWindow -= int64(n)
	c.sendWindow -= int64(n)
	c.Activity++
	c.budget.earn(creditPerSentFrame)
	byReference := c.cfg.MinReferenceLen > 0 && n >= c.cfg.MinReferenceLen
	if byReference {
		c.out.appended(AppendFrameHeader(c.out.buf, h))
		c.out.reference(data)
	} else {
		c.appendFrame(h, data)
	}
	if len(p.Data) == 0 && p.Owner != nil {
		// An earlier frame may refer to the payload even if this one does not.
		c.out.owners = append(c.out.owners, p.Owner)
		p.Owner = nil
	}
	if end {
		c.ending++
		s.localClosed = true
		c.finish(s)
	}
}

func (c *Conn) writeTrailers(s *Stream, fixed *FixedFields, extra []hpack.HeaderField) {
	s.sentHeaders = true
	s.localClosed = true
	c.ending++
	c.appendBlock(s.id, fixed, extra, http2.FlagHeadersEndStream)
	c.finish(s)
}
