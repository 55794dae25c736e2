// Package h2 implements HTTP/2 (RFC 9113) for clients and servers, as a pure state machine:
// bytes and a clock reading go in, events and bytes to send come out. It opens no socket, starts
// no goroutine and takes no lock. Package batchio owns the socket and the mutex that guards a
// [Conn].
//
// How bytes pass through it:
//
//	          socket                                          socket
//	            │ bytes                                          ^ bytes
//	            v                                                │
//	      ┌─ Conn.Feed ─┐                                 Conn.TakeOutput
//	      │   frames    │                                        ^
//	      v             v                                        │ frames
//	header blocks     control frames ── replies ───────────> batchio.Output
//	(decoder)         (budget)                                   ^
//	      │             │                                        │ windows allow,
//	      v             v                                        │ in turn
//	Handler.OnHeaders, OnData,                            streams' queues
//	OnReset, OnGoAway, …                                         ^
//	      │                                                      │
//	      v                                                      │
//	   the owner ────── Conn.Consume ──> windows                 │
//	      └──────────── Conn.SendHeaders, SendData, SendTrailers ┘
//
// A client makes a request with [Conn.Open], SendHeaders and SendData; a request without
// content with Open and SendTrailers. A server gets requests in [Handler.OnHeaders],
// answers with SendHeaders, SendData and SendTrailers, and calls [Conn.Release] when its
// handler has returned.
//
// Terms:
//
//   - Frame, stream and window have RFC 9113's meaning.
//   - A block is one complete HPACK header block.
//   - A payload is content for DATA frames, with the owner of its memory.
//   - A stream with queued payloads is scheduled unless its own window is exhausted.
//     Scheduled streams send in turn when the connection's window and output allow.
//   - A stream holds a slot from its request until its handler has returned.
//
// Everything that a peer can make this end keep or do is bounded: memory by three accounts
// (memory.go), and useless frames by a budget (frame.go).
//
// This package must not know gRPC: prefixes of messages, statuses and metadata belong to its
// owners.
package h2

import (
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"wirelab.dev/rpc/batchio"
)

// A Config sets the limits of one end.
type Config struct {
	// Client makes this end the client, which opens streams.
	Client bool
	// StreamWindow and ConnWindow are the flow-control windows offered to the peer, per
	// stream and per connection. At least 65535 each. Many streams get smaller windows.
	StreamWindow, ConnWindow int
	// MemoryLimit bounds each part of the memory that the peer can use at this end, see memory.go.
	MemoryLimit int
	// Kept counts the memory of received content that the Handler and its readers keep. It may
	// change at any time. nil means none.
	Kept *batchio.KeptMemory
	// MaxFrameSize is the longest frame accepted, 16 KiB to 16 MiB.
	MaxFrameSize int
	// MaxHeaderList bounds a block's header list, and its bytes before decompression.
	MaxHeaderList int
	// MaxStreams limits the streams that the peer may have open; servers only. The same
	// number again may be closed but not yet released, because their handlers still run.
	// So a peer may cancel calls and open others, but not rapidly (CVE-2023-44487).
	MaxStreams int
	// ControlRate limits the average number of frames per second that carry no calls, such as pings
	// and resets.
	ControlRate int
	// OutputLimit bounds the output: above this many bytes, streams queue their payloads
	// until the output has been taken.
	OutputLimit int
	// MinReferenceLen is the length from which payloads are queued by reference
	// instead of copied; 0 copies all.
	MinReferenceLen int
	// FirstStream is the first stream that a client opens, 1 if it is 0; for tests.
	FirstStream uint32
}

// A Handler receives the events of a Conn, during Feed, TakeOutput and the Send calls. It
// may call the Conn's Send, Consume and Reset methods from within, but not Feed.
type Handler interface {
	// OnOpen returns the stream for a new request; servers only.
	OnOpen() *Stream
	// OnHeaders delivers a request's or response's fields, or trailers. If the block is
	// TooLarge, it is truncated and the handler must refuse the stream.
	OnHeaders(s *Stream, block *Block, end bool)
	// OnData delivers content, which is valid during the call. Each byte must be returned
	// to the stream's window by Conn.Consume, or all of them by Conn.Release.
	OnData(s *Stream, data []byte, end bool)
	// OnReset reports that a stream ended early. It is the stream's last event.
	OnReset(s *Stream, why Reset)
	// OnDrained reports that everything sent on the stream is in the output.
	OnDrained(s *Stream)
	// OnGoAway reports that the peer accepts no new streams. OnReset follows for the streams
	// that the peer has not processed.
	OnGoAway(code http2.ErrCode, debug []byte)
	// OnPing reports a ping that the Conn has answered. An error ends the connection.
	OnPing(now time.Duration) *ConnError
	// OnPong reports the answer to a ping sent by Conn.Ping, with its data.
	OnPong(data [8]byte)
}

// A Reset describes why a stream ended early.
type Reset struct {
	Code http2.ErrCode
	// Reason is set if this end detected the error.
	Reason string
	// Unprocessed means that the peer did not process the stream (RFC 9113 section 8.7),
	// so the call may be retried elsewhere.
	Unprocessed bool
}

var _ batchio.Machine = (*Conn)(nil)

// A Conn is one end of one connection. It is not safe for concurrent use.
type Conn struct {
	cfg     Config
	handler Handler
	out     *batchio.Output // nil when empty
	enc     *encoder
	dec     *decoder

	streams    streamTable
	nextID     uint32 // the next stream this end opens
	lastPeerID uint32 // the highest stream the peer opened
	unreleased int    // the peer's streams that are open or not released
	maxStreams int    // the announced limit of the peer's streams
	ending     int    // see Ending
	// The lists of scheduled streams, see schedule.
	first, short, active, rest streamList
	preferred                  int // bytes of first and short sent since a long message's turn
	late                       lateFrames

	// The account of memory, see memory.go.
	records     int          // the cost of streams' records and metadata
	growing     streamList   // streams whose incomplete messages wait for a grant
	granted     int          // bytes that the peer may still send of granted messages
	parked      streamList   // streams whose calls may not begin yet
	parkedShort streamList   // the same, for calls that are likely to have short answers
	shortNext   bool         // Unpark takes from parkedShort
	contentSent uint64       // bytes of DATA frames
	relievedAt  uint64       // contentSent at the last UnblockCalls
	calls       int          // limits the calls at work, see BeginCall
	free        atomic.Int64 // the number of calls that may begin
	withheld    int64        // the value of free when answers reached their limit
	queued      int          // the cost of answers that wait for the peer
	answersFull bool         // queued is above the limit, or has not yet shrunk enough since

	peer           peerSettings
	sendWindow     int64
	recvWindow     int64
	uncredited     int64 // received, not yet returned to the connection window
	window         int   // the window of each stream, as last acknowledged by the peer
	nextWindow     int   // the window of each stream in the last SETTINGS
	unacked        int   // SETTINGS sent and not acknowledged
	gotSettings    bool  // the peer's first SETTINGS has come
	gotPreface     bool
	goAwaySent     bool
	goAwayLimit    uint32 // after goAwaySent, higher streams are refused
	goAwayReceived bool
	goAwayLast     uint32 // the lowest last stream in the peer's GOAWAYs
	failed         *ConnError
	continuation   struct {
		id    uint32 // stream of the incomplete block; 0: none
		flags http2.Flags
		block []byte
	}
	budget budget
	// Activity counts HEADERS and DATA frames sent, for keepalive's accounting.
	Activity uint64
}

type peerSettings struct {
	initialWindow int64
	maxFrame      int
	maxStreams    uint32
	maxHeaderList uint64
}

// NewConn returns a connection whose output holds its first frames.
func NewConn(cfg Config, h Handler) *Conn {
	c := &Conn{
		cfg: cfg, handler: h,
		enc:    newEncoder(),
		dec:    newDecoder(uint32(cfg.MaxHeaderList)),
		nextID: 2, gotPreface: cfg.Client,
		peer: peerSettings{
			initialWindow: defaultWindow, maxFrame: minMaxFrameSize,
			maxStreams: maxWindow, maxHeaderList: 1 << 62,
		},
		sendWindow: defaultWindow,
		recvWindow: int64(cfg.ConnWindow),
		window:     cfg.StreamWindow, nextWindow: cfg.StreamWindow,
		maxStreams:  cfg.MaxStreams,
		goAwayLimit: maxWindow, goAwayLast: maxWindow,
		growing: streamList{kind: growingList}, parked: streamList{kind: parkedList}, parkedShort: streamList{kind: parkedList}, calls: FirstCalls,
		budget: budget{credit: budgetMax},
	}
	c.free.Store(FirstCalls)
	if cfg.Kept == nil {
		c.cfg.Kept = new(batchio.KeptMemory)
	}
	if cfg.Client {
		c.nextID = max(1, cfg.FirstStream)
		c.output().SetTail(append(c.out.Tail(), http2.ClientPreface...))
	}
	c.sendFirstSettings()
	return c
}

// OpenStreams returns the number of open streams.
func (c *Conn) OpenStreams() int { return c.streams.n }

// UnreleasedStreams counts the peer's streams that are open or not yet released.
func (c *Conn) UnreleasedStreams() int { return c.unreleased }

// SettingsReceived reports whether the peer's SETTINGS have been received.
func (c *Conn) SettingsReceived() bool { return c.gotSettings }

// PeerMaxHeaderList returns the size of the largest header list that the peer accepts.
func (c *Conn) PeerMaxHeaderList() uint64 { return c.peer.maxHeaderList }

// FreeSlots returns the number of further streams that the peer accepts now. It may be negative.
func (c *Conn) FreeSlots() int {
	if !c.Usable() {
		return 0
	}
	return int(min(c.peer.maxStreams, maxWindow)) - c.streams.n
}

// Usable reports whether streams can still be opened, now or later.
func (c *Conn) Usable() bool {
	return !c.goAwayReceived && !c.goAwaySent && c.failed == nil && c.nextID < lastStream
}

// lastStream is 75 % of the largest identifier. grpc-go ends a connection there, too.
const lastStream = maxWindow / 4 * 3

// EachStream calls f for every open stream. f may reset the stream.
func (c *Conn) EachStream(f func(*Stream)) { c.streams.each(f) }

// DropStreams removes every stream, calling f for each.
func (c *Conn) DropStreams(f func(*Stream)) {
	c.streams.each(func(s *Stream) {
		c.remove(s)
		f(s)
	})
}

// Pending implements batchio.Machine, as the methods below do.
func (c *Conn) Pending() int { return c.out.Len() }

func (c *Conn) outputFull() bool { return c.Pending() >= c.cfg.OutputLimit }

// output returns the output, for appending.
func (c *Conn) output() *batchio.Output {
	if c.out == nil {
		c.out = batchio.NewOutput()
	}
	return c.out
}

// Ending counts the unary calls of a client that are about to end, or a server's responses.
func (c *Conn) Ending() (waiting, open int) {
	if c.cfg.Client {
		return c.ending, c.streams.n
	}
	return c.ending, c.streams.n + c.ending // the table no longer holds the streams that ended
}

// SetOutputLimit changes Config.OutputLimit.
func (c *Conn) SetOutputLimit(n int) { c.cfg.OutputLimit = n }

// TakeOutput returns the output, or nil if there is none.
func (c *Conn) TakeOutput() *batchio.Output {
	taken := c.out
	c.out, c.ending = nil, 0
	c.sendScheduled()
	return taken
}

// Feed reads frames. now is a monotonic time with any zero.
func (c *Conn) Feed(now time.Duration, buf []byte, maxFrames int) (int, error) {
	used := 0
	if !c.gotPreface {
		n := min(len(buf), len(http2.ClientPreface))
		if string(buf[:n]) != http2.ClientPreface[:n] {
			return 0, c.failConn(http2.ErrCodeProtocol, "the connection does not begin with the HTTP/2 preface")
		}
		if n < len(http2.ClientPreface) {
			return 0, nil
		}
		c.gotPreface = true
		used = n
	}
	c.budget.refill(now, c.cfg.ControlRate)
	for ; maxFrames > 0 && len(buf)-used >= FrameHeaderLen; maxFrames-- {
		h := ParseFrameHeader(buf[used:])
		if h.Length > c.cfg.MaxFrameSize {
			return used, c.failConn(http2.ErrCodeFrameSize, "frame longer than allowed")
		}
		if len(buf)-used < FrameHeaderLen+h.Length {
			break
		}
		payload := buf[used+FrameHeaderLen : used+FrameHeaderLen+h.Length]
		used += FrameHeaderLen + h.Length
		if err := c.onFrame(now, h, payload); err != nil {
			return used, err
		}
	}
	return used, nil
}

// FrameLen returns the length of a frame.
func (*Conn) FrameLen(buf []byte) int {
	if len(buf) < FrameHeaderLen {
		return FrameHeaderLen
	}
	return FrameHeaderLen + ParseFrameHeader(buf).Length
}

// failConn sends a GOAWAY and ends the connection, once.
func (c *Conn) failConn(code http2.ErrCode, reason string) error {
	if c.failed == nil {
		c.failed = &ConnError{Code: code, Reason: reason}
		c.sendGoAway(c.lastPeerID, code, reason)
	}
	return c.failed
}
