package h2

import (
	"math/bits"

	"golang.org/x/net/http2"
)

// What a peer makes this end keep is counted in bytes of memory, not in those it sends:
//
//   - a stream's record and metadata, until the stream is closed and released;
//   - what waits in a server's streams, because the client does not read;
//   - an incomplete header block, and the decoder's cache;
//   - received content that nobody has read: the Handler counts it in Config.Kept.
//
// Three rules hold the sum below Config.MemoryLimit, and none makes one stream wait for
// another's reader:
//
//   - The connection's window is renewed when content arrives. Streams share what memory
//     is left: see tuneWindow.
//   - While an answer to the peer waits for the socket, and too many do, the caller must
//     not read (see Throttled). The peer's own frames then wait in the peer.
//   - Where reading on cannot help, new streams are refused and the peer is told how many
//     it may have.
const (
	// streamCost is what a stream costs without its metadata: its record, its context
	// and, on a server, its handler's goroutine.
	streamCost = 2 << 10
	// fieldCost is what a field costs beyond its size, as metadata in a map.
	fieldCost = 128
	// pendingCost is what an entry of a stream's queue costs beyond its payload.
	pendingCost = 256
	// minStreamWindow lets each stream make progress, however many there are.
	minStreamWindow = 1 << 10
	// maxAnswers bounds the bytes of answers that wait for the socket.
	maxAnswers = 64 << 10
	// maxUnacked is how often the connection's window may be renewed, each time by half of
	// it, before the peer has acknowledged a smaller stream window. A window's worth may be
	// under way when the peer gets the SETTINGS, which come before all renewals.
	maxUnacked = 4
)

// Held returns the bytes of memory that the peer makes this end keep.
func (c *Conn) Held() int {
	held := c.held + c.dec.cost + cap(c.continuation.block)
	if c.cfg.Kept != nil {
		held += int(c.cfg.Kept.Load())
	}
	return held
}

// room returns how much more the peer may make this end keep.
func (c *Conn) room() int { return c.cfg.MemoryLimit - c.Held() }

// Tight reports whether so much is held that a copy pays which lets a large buffer go.
func (c *Conn) Tight() bool { return c.room() < c.cfg.MemoryLimit/2 }

// Throttled reports whether the caller must let the output be written before it feeds
// more: too much that the peer does not read waits there, or in the queues of a server's
// streams. What waits for windows does not count, as only feeding more can end that.
func (c *Conn) Throttled() bool {
	if c.out == nil {
		return false
	}
	return c.out.Answers > maxAnswers || c.outputFull() && c.queued > c.cfg.MemoryLimit/8
}

func (c *Conn) charge(s *Stream, n int) {
	s.held += n
	c.held += n
}

func (c *Conn) discharge(s *Stream) {
	c.held -= s.held
	s.held = 0
}

func (b *Block) cost() int {
	n := len(b.Rest)
	if b.Fixed != nil {
		n += len(b.Fixed.Fields)
	}
	return int(b.size) + n*fieldCost
}

func (p *pending) cost() int {
	n := pendingCost + cap(p.payload.Data)
	for _, f := range p.extra {
		n += int(f.Size())
	}
	return n
}

// tuneWindow sets the window that each stream offers to half of its share of the
// memory that is left, so that streams which nobody reads cannot use it up: a byte may
// cost more than one. All windows together still exceed the connection's. It is called
// before each renewal of the connection's window, so a peer sends at most that window
// before it learns of a change.
func (c *Conn) tuneWindow() error {
	if c.nextWindow != c.window {
		if c.unackedCredits++; c.nextWindow < c.window && c.unackedCredits > maxUnacked {
			return c.fail(http2.ErrCodeSettingsTimeout, "SETTINGS not acknowledged")
		}
		return nil
	}
	share := max(minStreamWindow, (c.room()-2*c.cfg.ConnWindow)/2/max(1, c.streams.n))
	window := min(c.cfg.StreamWindow, 1<<(bits.Len(uint(share))-1))
	if window < c.window || window >= 4*c.window {
		c.nextWindow, c.unackedCredits = window, 0
		c.sendSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(window)})
	}
	return nil
}

// onSettingsAck shifts the windows of all streams: the peer has done so too. A stream
// whose reader waits may have used up a smaller window with what was not worth returning
// to the larger one.
func (c *Conn) onSettingsAck() error {
	if c.unacked == 0 {
		return c.spend("settings")
	}
	if c.unacked--; c.unacked > 0 || c.nextWindow == c.window {
		return nil
	}
	delta := int64(c.nextWindow - c.window)
	c.window = c.nextWindow
	c.streams.each(func(s *Stream) {
		s.recvWindow += delta
		c.consume(s, 0)
	})
	return nil
}

// limitStreams tells the peer that it may have no more streams than now, because its
// streams use up the memory.
func (c *Conn) limitStreams() {
	if n := max(1, c.streams.n); n < c.maxStreams {
		c.maxStreams = n
		c.sendSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(n)})
	}
}

// freed is called when a stream of the peer's has freed its memory.
func (c *Conn) freed() {
	if c.maxStreams < c.cfg.MaxStreams && c.unreleased <= c.maxStreams/2 && c.failed == nil {
		c.maxStreams = c.cfg.MaxStreams
		c.sendSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.maxStreams)})
	}
}

// ConsumePartial returns n bytes of an incomplete message to the stream's window, like
// Consume, so that the message can grow to its limit. While memory is short, one
// stream's message grows at a time: many would all stop before their ends.
func (c *Conn) ConsumePartial(s *Stream, n int) {
	s.deferred += n
	if s.links[growing].in == nil {
		if c.room() >= c.cfg.MemoryLimit/4 {
			c.consumeDeferred(s)
			return
		}
		c.growing.push(s)
	}
	c.grow()
}

// Complete is called when a stream's message is complete.
func (c *Conn) Complete(s *Stream) {
	if c.growing.drop(s) {
		c.consumeDeferred(s)
		c.grow()
	}
}

func (c *Conn) consumeDeferred(s *Stream) {
	n := s.deferred
	s.deferred = 0
	c.consume(s, n)
}

// grow lets the first of the incomplete messages grow, and all of them when there is
// memory again.
func (c *Conn) grow() {
	for s := c.growing.head; s != nil; s = c.growing.head {
		c.consumeDeferred(s)
		if c.room() < c.cfg.MemoryLimit/4 {
			return
		}
		c.growing.drop(s)
	}
}
