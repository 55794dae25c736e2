package h2

import "golang.org/x/net/http2/hpack"

// quantum is how much a stream sends before the next in line has its turn: large
// enough that common messages go out whole, one after the other, which keeps the
// slowest close to the median.
const quantum = 64 << 10

// maxSentFrame bounds a frame even where the peer would take larger ones.
const maxSentFrame = 256 << 10

func (c *Conn) frameLimit() int { return min(c.peer.maxFrame, maxSentFrame) }

// room is how much content the stream may put into the output now.
func (c *Conn) room(s *Stream) int {
	if c.out.size >= c.cfg.OutputLimit {
		return -1
	}
	return int(max(0, min(s.sendWindow, c.sendWindow)))
}

func (c *Conn) enqueue(s *Stream, p pending) {
	s.queue = append(s.queue, p)
	c.standInLine(s)
	c.pump()
}

func (c *Conn) standInLine(s *Stream) {
	if !s.inLine && s.open {
		s.inLine = true
		c.line = append(c.line, s)
	}
}

// leaveLine forgets a stream that is gone, which its owner may use again.
func (c *Conn) leaveLine(s *Stream) {
	if !s.inLine {
		return
	}
	s.inLine = false
	for i, other := range c.line {
		if other == s {
			c.line[i] = nil
			return
		}
	}
}

// unpark puts a stream back in line unless its own window keeps it back.
func (c *Conn) unpark(s *Stream) {
	if len(s.queue) > 0 && (s.sendWindow > 0 || len(s.queue[0].payload.Data) == 0) {
		c.standInLine(s)
	}
}

// pump lets the streams in line send while the output and the connection window
// have room.
func (c *Conn) pump() {
	n := 0
	for n < len(c.line) && c.out.size < c.cfg.OutputLimit {
		s := c.line[n]
		c.line[n] = nil
		n++
		if s == nil {
			continue // it left the line
		}
		s.inLine = false
		if c.turn(s) {
			continue
		}
		if c.sendWindow <= 0 && s.sendWindow > 0 {
			// The connection holds everyone back: keep the order.
			n--
			c.line[n] = s
			s.inLine = true
			break
		}
		c.unpark(s)
	}
	if n > 0 {
		c.line = append(c.line[:0], c.line[n:]...)
	}
}

// turn sends up to a quantum of the stream's queue and reports whether it is empty.
func (c *Conn) turn(s *Stream) bool {
	sent := 0
	for len(s.queue) > 0 && s.open {
		item := &s.queue[0]
		if item.trailers != nil {
			c.writeTrailers(s, item.trailers, item.extra)
			return true
		}
		left := len(item.payload.Data)
		n := min(left, c.room(s), c.frameLimit())
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

// writeData puts the first n bytes of p into the output as one frame. The last
// frame of a payload takes its owner along.
func (c *Conn) writeData(s *Stream, p *Payload, n int, end bool) {
	h := FrameHeader{Length: n, Type: FrameData, StreamID: s.id}
	if end {
		h.Flags = FlagEndStream
	}
	data := p.Data[:n]
	p.Data = p.Data[n:]
	s.sendWindow -= int64(n)
	c.sendWindow -= int64(n)
	c.Activity++
	c.budget.earn(sentFrameCredit)
	byReference := c.cfg.ReferenceFrom > 0 && n >= c.cfg.ReferenceFrom
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
	c.appendBlock(s.id, fixed, extra, FlagEndStream)
	c.finish(s)
}
