package h2

import (
	"golang.org/x/net/http2"

	"wirelab.dev/internal/batchio"
)

// quantum is how many bytes a stream sends before the next one's turn. Common messages
// fit and are sent whole, one after the other, so the slowest call stays close to the
// median.
const quantum = 64 << 10

// maxPreferred is how many bytes streams send at their first turns before one of the
// others has its next.
const maxPreferred = 4 * quantum

// maxSentFrame bounds sent frames, even if the peer accepts larger ones.
const maxSentFrame = 256 << 10

func (c *Conn) frameLimit() int { return min(c.peer.maxFrame, maxSentFrame) }

// sendable returns how many bytes the stream may put into the output now, or -1 if the
// output is full.
func (c *Conn) sendable(s *Stream) int {
	if c.outputFull() {
		return -1
	}
	return int(max(0, min(s.sendWindow, c.sendWindow)))
}

func (c *Conn) enqueue(s *Stream, p pending) {
	if !c.cfg.Client { // a client's queues hold what its own callers sent
		n := p.cost()
		s.queued += n
		c.queued += n
		c.charge(s, n)
	}
	s.queue = append(s.queue, p)
	c.schedule(s)
	c.sendScheduled()
}

// unqueued is called when a stream's queue has become empty.
func (c *Conn) unqueued(s *Stream) {
	s.held -= s.queued
	c.held -= s.queued
	c.queued -= s.queued
	s.queue, s.queued = nil, 0
}

// schedule lets a stream send in its turn. Short messages, and headers, which need no
// window, do not wait until all streams with long messages have had theirs.
func (c *Conn) schedule(s *Stream) {
	switch {
	case s.links[sending].in != nil || !s.open:
	case s.queue[0].fields != nil || !s.hadTurn && c.sendWindow > 0:
		c.first.push(s)
	default:
		c.rest.push(s)
	}
}

// unschedule removes a closed stream from its list; its owner may reuse it.
func (c *Conn) unschedule(s *Stream) {
	if l := s.links[sending].in; l != nil {
		l.drop(s)
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
	for !c.outputFull() {
		from := &c.first
		if c.rest.head != nil && c.sendWindow > 0 && (c.first.head == nil || c.preferred >= maxPreferred) {
			from = &c.rest
			c.preferred = 0
		}
		s := from.head
		if s == nil {
			return
		}
		from.drop(s)
		before := c.Pending()
		if !c.sendTurn(s) {
			s.hadTurn = true
			c.scheduleIfSendable(s)
		}
		if from == &c.first {
			c.preferred += c.Pending() - before
		}
	}
}

// sendTurn sends up to a quantum of the stream's queue and reports whether it is empty.
func (c *Conn) sendTurn(s *Stream) bool {
	sent := 0
	for len(s.queue) > 0 && s.open {
		item := &s.queue[0]
		if item.fields != nil {
			if c.outputFull() {
				return false
			}
			item := s.queue[0]
			s.queue[0] = pending{}
			s.queue = s.queue[1:]
			c.writeFields(s, item)
			continue
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
	s.hadTurn = false
	if s.open {
		c.unqueued(s)
		c.handler.OnDrained(s)
	}
	return true
}

// writeData puts the first n bytes of p into the output as one frame. With its last
// frame, the output becomes responsible for releasing the payload.
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
	c.budget.sent(n)
	byReference := c.cfg.MinReferenceLen > 0 && n >= c.cfg.MinReferenceLen
	out := c.output()
	if byReference {
		out.SetTail(AppendFrameHeader(out.Tail(), h))
		out.Reference(data)
	} else {
		c.appendFrame(h, data)
	}
	if len(p.Data) == 0 && p.Owner != nil {
		// An earlier frame may refer to the payload even if this one does not.
		out.Own(p.Owner)
		p.Owner = nil
	}
	if end {
		c.ending++
		s.localClosed = true
		c.finish(s)
	}
}

// writeFields sends a header or trailers.
func (c *Conn) writeFields(s *Stream, p pending) {
	if !p.end {
		c.appendBlock(s.id, p.fields, p.extra, 0)
		return
	}
	s.localClosed = true
	c.ending++
	c.appendBlock(s.id, p.fields, p.extra, http2.FlagHeadersEndStream)
	c.finish(s)
}
