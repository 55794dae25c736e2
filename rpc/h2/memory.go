package h2

import (
	"math/bits"

	"golang.org/x/net/http2"
)

// This file counts the memory that a peer makes this end keep, at its true cost. Each of its three
// parts may have Config.MemoryLimit, so that none uses up the room of another.
//
//	part                                  what happens at its limit
//	records: calls and their metadata     a new call is refused
//	content: received and not yet used    windows shrink; long messages take turns
//	answers: not taken by the peer        no more calls begin (servers only)
//
// No call is refused because of messages in flight: they wait until there is room.

const (
	// streamCost is the memory of a stream: its record, its context and a server's goroutine.
	streamCost = 2 << 10
	// fieldCost is the memory of a field beyond its size, as metadata in a map.
	fieldCost = 128
	// pendingCost is the memory of an entry in a stream's queue beyond its payload.
	pendingCost = 256
	// maxReplies bounds the bytes of replies to control frames that wait for the socket.
	maxReplies = 64 << 10
)

// Throttled reports whether the output must be written before more is fed, because the peer does
// not read. Answers that wait for windows do not count: only more input can open those.
func (c *Conn) Throttled() bool {
	return c.out != nil && (c.out.Answers > maxReplies || c.outputFull() && c.queued > c.cfg.MemoryLimit/8)
}

// Records.

// recordRoom returns the number of bytes that the records may still take.
func (c *Conn) recordRoom() int {
	return c.cfg.MemoryLimit - c.records - c.dec.cost - cap(c.continuation.block)
}

func (c *Conn) addRecordCost(s *Stream, n int) {
	s.record += n
	c.records += n
}

func (b *Block) cost() int {
	n := len(b.Rest)
	if b.Fixed != nil {
		n += len(b.Fixed.Fields)
	}
	return int(b.size) + n*fieldCost
}

// limitStreams tells the peer to open no further streams, because their records fill the memory.
func (c *Conn) limitStreams() {
	if n := max(1, c.streams.n); n < c.maxStreams {
		c.maxStreams = n
		c.sendSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(n)})
	}
}

// recordFreed is called when one of the peer's streams has freed its memory.
func (c *Conn) recordFreed() {
	if c.maxStreams < c.cfg.MaxStreams && c.unreleased <= c.maxStreams/2 && c.failed == nil {
		c.maxStreams = c.cfg.MaxStreams
		c.sendSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: uint32(c.maxStreams)})
	}
}

// Content.
//
// While there is room, each stream offers Config.StreamWindow. When a quarter of the limit is
// used, streams offer a small window instead: enough for short messages, and for the beginnings of
// long ones, which contain their lengths. A long message then gets a grant for all of its rest, in
// the order of arrival, when there is room. So the messages in flight are completed before others
// begin.
//
// The connection's window is renewed when content arrives, not when it is used, so that no
// stream waits for another's reader.

const (
	// Bounds of a small window. Between them, all streams share half of the remaining room.
	minSmallWindow = 1 << 10
	maxSmallWindow = 16 << 10
	// maxGrant keeps a window, and each update of it, within the protocol's limits.
	maxGrant = 1 << 30
)

// contentBytes returns the memory that received content uses.
func (c *Conn) contentBytes() int { return int(c.cfg.Kept.Bytes()) }

// CopyContent reports whether to copy kept content, which frees large buffers.
func (c *Conn) CopyContent() bool { return c.contentBytes() > c.cfg.MemoryLimit/2 }

// smallWindows reports whether streams offer small windows, or will once the peer agrees.
func (c *Conn) smallWindows() bool { return c.nextWindow < c.cfg.StreamWindow }

// tuneWindow chooses the window that each stream offers. It is called before each renewal of the
// connection's window and reports whether that is allowed: not before the peer has acknowledged a
// smaller window. So the excess is at most one connection's window.
func (c *Conn) tuneWindow() bool {
	if c.nextWindow != c.window {
		return c.nextWindow > c.window
	}
	window, content := c.window, c.contentBytes()
	switch {
	case content > c.cfg.MemoryLimit/4:
		share := max(1, (c.cfg.MemoryLimit-content-c.cfg.ConnWindow)/2/max(1, c.streams.n))
		small := min(max(1<<(bits.Len(uint(share))-1), minSmallWindow), maxSmallWindow, c.cfg.StreamWindow)
		if small < window || small >= 4*window {
			window = small
		}
	case content < c.cfg.MemoryLimit/8:
		window = c.cfg.StreamWindow
	}
	if window == c.window {
		return true
	}
	c.nextWindow = window
	c.sendSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(window)})
	return window > c.window
}

// onSettingsAck changes the windows of all streams, as the peer has done. A stream whose reader
// waits may have used up its smaller window with bytes that were too few to be returned to the
// larger window.
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
		switch {
		case !c.smallWindows():
			c.consumeDeferred(s)
		case s.granted > 0:
			c.offerAtLeast(s, s.granted)
		case s.missing > 0:
			c.awaitGrant(s)
		default:
			c.consume(s, 0)
		}
	})
	c.GrantContent()
	c.renewConn()
	return nil
}

// ConsumePartial returns n bytes of an incomplete message to the stream's window, like
// Consume, so that the message can grow. The message lacks missing bytes.
func (c *Conn) ConsumePartial(s *Stream, n, missing int) {
	s.missing, s.waited = missing, true
	if !c.smallWindows() {
		c.consume(s, n)
		return
	}
	s.deferred += n
	if s.recvWindow < int64(missing) {
		c.awaitGrant(s)
		c.GrantContent()
	}
}

// CompleteMessage ends the wait for the rest of a message, which is complete. The Handler calls it.
func (c *Conn) CompleteMessage(s *Stream) {
	s.missing = 0
	c.granted -= s.granted
	s.granted = 0
	c.growing.drop(s)
	c.consumeDeferred(s)
}

func (c *Conn) consumeDeferred(s *Stream) {
	n := s.deferred
	s.deferred = 0
	c.consume(s, n)
}

func (c *Conn) awaitGrant(s *Stream) {
	if s.links[growingList].in == nil && s.granted == 0 {
		c.growing.push(s)
	}
}

// GrantContent lets the rest of incomplete messages come, if there is room. It must be called after
// content was freed. Without room, one message at a time may come, unless complete messages fill
// the memory because their calls are parked.
func (c *Conn) GrantContent() {
	for s := c.growing.head; s != nil; s = c.growing.head {
		room := c.cfg.MemoryLimit - c.granted - s.missing
		if c.contentBytes() > room && (c.granted > 0 || c.anyParked()) {
			c.cfg.Kept.WakeBelow(int64(max(1, room)))
			return
		}
		c.growing.drop(s)
		s.granted = min(s.missing, maxGrant)
		c.granted += s.granted
		c.offerAtLeast(s, s.granted)
	}
}

// offerAtLeast lets the peer send n bytes on the stream.
func (c *Conn) offerAtLeast(s *Stream, n int) {
	if more := int64(n) - s.recvWindow; more > 0 {
		s.advance += int(more)
		c.offerBytes(s, more)
	}
}

// offerBytes lets the peer send n more bytes on the stream.
func (c *Conn) offerBytes(s *Stream, n int64) {
	c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate, StreamID: s.id}, uint32(n))
	s.recvWindow += n
}

// Answers.
//
// A server cannot know how long an answer will be, and all handlers of a burst of calls may answer
// before the peer has read a byte. So calls begin as packets do in TCP: some at first, and more
// with each answer that the peer reads. A call that may not begin yet is parked. While more
// answers than the limit wait for the peer, each answer that it reads lets one call begin.
//
// Handlers that wait, for each other or for events, would delay the parked calls for ever. So the
// owner's timer calls UnblockCalls while calls are parked.

const (
	// FirstCalls limits the calls at work before the peer has read an answer.
	FirstCalls = 512
	// callsPerAnswer is the number of further calls that may begin per answer that the peer reads.
	callsPerAnswer = 2
	// maxCalls bounds the calls at work, so that the sum does not overflow.
	maxCalls = 1 << 20
)

// BeginCall reports whether the handler of the stream's call may run. It may be called without
// the lock that guards the Conn. If it returns false, Park must be called next.
func (c *Conn) BeginCall(s *Stream) bool {
	for {
		free := c.free.Load()
		if free <= 0 {
			return false
		}
		if c.free.CompareAndSwap(free, free-1) {
			s.begun, s.working = true, true
			return true
		}
	}
}

// Park keeps an open stream until Unpark returns it.
func (c *Conn) Park(s *Stream) {
	if s.Short {
		c.parkedShort.push(s)
	} else {
		c.parked.push(s)
	}
}

func (c *Conn) anyParked() bool { return c.parked.head != nil || c.parkedShort.head != nil }

// Unpark returns the next parked stream whose call may begin, or nil. Calls with short
// answers alternate with the others, so that they do not wait behind a thousand long ones.
func (c *Conn) Unpark() *Stream {
	from := &c.parked
	if c.parkedShort.head != nil && (c.shortNext || from.head == nil) {
		from = &c.parkedShort
	}
	s := from.head
	if s == nil || !c.BeginCall(s) {
		return nil
	}
	c.shortNext = from == &c.parked
	from.drop(s)
	return s
}

// UnblockCalls lets more calls begin although none has ended, unless answers wait and the peer has
// read nothing since the last UnblockCalls. It reports whether any call is still parked.
func (c *Conn) UnblockCalls() bool {
	takes := c.queued == 0 || c.contentSent != c.relievedAt
	c.relievedAt = c.contentSent
	if c.anyParked() && !c.answersFull && takes {
		c.allowCalls(c.calls / 4)
	}
	return c.anyParked()
}

func (c *Conn) allowCalls(n int) {
	n = min(n, maxCalls-c.calls)
	c.calls += n
	c.free.Add(int64(n))
}

// A call is at work until its answer is in the output, or cannot come any more. A stream, which
// may last for ever, is at work until its header is sent, and while one of its messages waits.

// workEnded is called when a call is no longer at work.
func (c *Conn) workEnded(s *Stream) {
	if s.working {
		s.working = false
		c.free.Add(1)
	}
}

// workResumed is called when a stream's frame must wait before it is sent.
func (c *Conn) workResumed(s *Stream) {
	if s.begun && !s.working {
		s.working = true
		c.free.Add(-1)
	}
}

// finishCall is called when a call has ended at both ends. taken says that the peer has its answer.
func (c *Conn) finishCall(s *Stream, taken bool) {
	c.workEnded(s)
	if s.begun && taken && !c.answersFull {
		c.allowCalls(callsPerAnswer)
	}
	s.begun = false
}

func (p *queueEntry) cost() int {
	n := pendingCost + cap(p.payload.Data)
	for _, f := range p.extra {
		n += int(f.Size())
	}
	return n
}

// addQueued counts an entry of a server's queue. A client's own callers fill its queues.
func (c *Conn) addQueued(s *Stream, p *queueEntry) {
	if c.cfg.Client {
		return
	}
	c.workResumed(s)
	n := p.cost()
	s.queued += n
	c.queued += n
	if c.queued > c.cfg.MemoryLimit && !c.answersFull {
		c.answersFull = true
		c.withheld = max(0, c.free.Load())
		c.free.Add(-c.withheld)
	}
}

// clearQueued is called when a stream has nothing queued any more.
func (c *Conn) clearQueued(s *Stream) {
	c.queued -= s.queued
	s.queued = 0
	if c.answersFull && c.queued < c.cfg.MemoryLimit/4*3 {
		c.answersFull = false
		c.free.Add(c.withheld)
	}
}
