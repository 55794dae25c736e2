package h2

import (
	"math/bits"

	"golang.org/x/net/http2"
)

// This file counts the memory that a peer makes this end keep, with all overhead. The memory has
// three parts. Config.MemoryLimit limits each part separately.
//
//	part                                  what happens at its limit
//	records: calls and their metadata     a new call is refused
//	content: received and not yet used    windows shrink; long messages take turns
//	answers: not yet read by the peer     no more calls begin (servers only)
//
// No call is refused because of messages in flight. These messages wait until there is room.

const (
	// streamCost is the memory of a stream: its struct, its context and a server's goroutine.
	streamCost = 2 << 10
	// fieldCost is the memory of a header field in a metadata map, in addition to its text.
	fieldCost = 128
	// pendingCost is the memory of an entry in a stream's queue, in addition to its payload.
	pendingCost = 256
	// maxReplies limits the bytes of replies to control frames that wait for the socket.
	maxReplies = 64 << 10
)

// Throttled reports whether the output must be written before Feed is called again, because the
// peer does not read. Answers that wait for windows do not count: only input can open windows.
func (c *Conn) Throttled() bool {
	return c.out != nil && (c.out.Answers > maxReplies || c.outputFull() && c.queued > c.cfg.MemoryLimit/8)
}

// Records.

// recordRoom returns how many more bytes streams and their metadata may use.
func (c *Conn) recordRoom() int {
	return c.cfg.MemoryLimit - c.records - c.dec.cost - c.continuation.length
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

// limitStreams tells the peer to open no more streams, because open streams fill the memory.
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
// While there is room, each stream offers the peer Config.StreamWindow. When a quarter of the limit
// is used, streams offer a small window instead. It is enough for short messages, and for the start
// of a long message, which contains its length. When there is room, the long message that arrived
// first gets a grant: its stream offers the peer a window for the rest of the message. So messages
// in flight are completed before others begin.
//
// The connection's window is renewed when content arrives, before the content is read. So no stream
// waits for the reader of another stream.

const (
	// The least and the largest small window. All streams together get half of the free room.
	minSmallWindow = 1 << 10
	maxSmallWindow = 16 << 10
	// maxGrant keeps windows, and updates of windows, within the protocol's limits.
	maxGrant = 1 << 30
)

// contentBytes returns the memory that received content uses.
func (c *Conn) contentBytes() int { return int(c.cfg.Kept.Bytes()) }

// CopyContent reports whether to copy content that is kept. A copy frees a large read buffer.
func (c *Conn) CopyContent() bool { return c.contentBytes() > c.cfg.MemoryLimit/2 }

// smallWindows reports whether the last SETTINGS made the streams' windows small.
func (c *Conn) smallWindows() bool { return c.nextWindow < c.cfg.StreamWindow }

// tuneWindow chooses the window that each stream offers. It returns false while the connection's
// window must not be renewed, because the peer has not acknowledged a smaller stream window. So the
// peer can exceed the smaller windows by at most one connection's window.
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

// onSettingsAck changes the windows of all streams, as the peer has done. It also renews windows
// that became too small: bytes that were too few to be returned to a larger window may fill a
// smaller one.
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

// ConsumePartial returns n bytes of an incomplete message to the stream's window, so that the rest
// of the message can come. missing is the number of bytes that the message lacks.
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

// CompleteMessage ends the wait for a message's rest. The Handler calls it when the rest has come.
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
// content was freed. Without room, it grants one message at a time, unless calls are parked: the
// messages of parked calls may fill the memory.
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

// offerAtLeast enlarges the stream's window to n bytes, unless it is larger.
func (c *Conn) offerAtLeast(s *Stream, n int) {
	if more := int64(n) - s.recvWindow; more > 0 {
		s.advance += int(more)
		c.offerBytes(s, more)
	}
}

// offerBytes enlarges the stream's window by n bytes.
func (c *Conn) offerBytes(s *Stream, n int64) {
	c.appendUint32(FrameHeader{Length: 4, Type: http2.FrameWindowUpdate, StreamID: s.id}, uint32(n))
	s.recvWindow += n
}

// Answers.
//
// A server cannot know how long an answer will be, and all handlers of a burst of calls may answer
// before the peer has read a byte. So a server begins calls as TCP sends packets: some at first,
// and more with each answer that the peer reads. A call that may not begin yet is parked. While
// queued answers exceed the limit, each answer that the peer reads lets only one call begin.
//
// Handlers that wait, for other calls or for events, would delay the parked calls for ever. So a
// timer calls UnblockCalls while calls are parked.

const (
	// FirstCalls limits the calls at work before the peer has read an answer.
	FirstCalls = 512
	// callsPerAnswer is the number of further calls that may begin per answer that the peer reads.
	callsPerAnswer = 2
	// callsUnread is the number of further calls that UnblockCalls lets begin if the peer has read
	// nothing.
	callsUnread = 16
	// maxCalls limits the number of calls at work, so that sums do not overflow.
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

// Park puts an open stream into the list from which Unpark takes streams.
func (c *Conn) Park(s *Stream) {
	if s.Short {
		c.parkedShort.push(s)
	} else {
		c.parked.push(s)
	}
}

func (c *Conn) anyParked() bool { return c.parked.head != nil || c.parkedShort.head != nil }

// Unpark returns the next parked stream whose call may begin, or nil. It alternates between calls
// with short answers and other calls, so that short calls do not wait for a thousand long ones.
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

// UnblockCalls lets more calls begin even if no call has ended, unless answers fill the memory. It
// lets only a few begin if answers wait and the peer has read nothing since the last UnblockCalls.
// These few are for peers that leave a thousand streams unread, and make other calls meanwhile. It
// reports whether calls are parked.
func (c *Conn) UnblockCalls() bool {
	takes := c.queued == 0 || c.contentSent != c.relievedAt
	c.relievedAt = c.contentSent
	switch free := int(c.free.Load()); {
	case !c.anyParked() || c.answersFull:
	case takes:
		c.allowCalls(c.calls / 4)
	case free < callsUnread:
		c.allowCalls(callsUnread - free)
	}
	return c.anyParked()
}

func (c *Conn) allowCalls(n int) {
	n = min(n, maxCalls-c.calls)
	c.calls += n
	c.free.Add(int64(n))
}

// A call is at work until its answer is in the output, or the call fails. A streaming call, which
// may last for ever, is at work until its header is sent, and while one of its messages is queued.

// workEnded is called when a call is no longer at work.
func (c *Conn) workEnded(s *Stream) {
	if s.working {
		s.working = false
		c.free.Add(1)
	}
}

// workResumed is called when a frame of a stream is queued. The stream is then at work.
func (c *Conn) workResumed(s *Stream) {
	if s.begun && !s.working {
		s.working = true
		c.free.Add(-1)
	}
}

// finishCall is called when a call has ended at both ends. taken says that its answer was sent.
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

// addQueued counts the memory of a queue's entry. A client does not count it, because its own
// callers fill its queues.
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

// clearQueued is called when a stream's queue has become empty.
func (c *Conn) clearQueued(s *Stream) {
	c.queued -= s.queued
	s.queued = 0
	if c.answersFull && c.queued < c.cfg.MemoryLimit/4*3 {
		c.answersFull = false
		c.free.Add(c.withheld)
	}
}
