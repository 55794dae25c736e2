// Package h2 implements HTTP/2 (RFC 9113) for clients and servers, as a pure state machine. Its
// input is received bytes and the time. Its output is events and bytes to send. It opens no socket,
// starts no goroutine and takes no lock. Package batchio owns the socket and the mutex that guards
// a [Conn].
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
// A client makes a request with [Conn.Open], SendHeaders and SendData. If the request has no
// content, it calls Open and SendTrailers. A server gets requests in [Handler.OnHeaders]. It
// answers with SendHeaders, SendData and SendTrailers, and calls [Conn.Release] when its handler
// has returned.
//
// Terms:
//
//   - Frame, stream and window have RFC 9113's meaning.
//   - A block is one complete HPACK header block.
//   - A payload is content for DATA frames, with the owner of its memory.
//   - A stream with queued payloads is scheduled unless its own window is exhausted.
//     Scheduled streams send in turn when the connection's window and output allow that.
//   - A stream occupies a slot from its request until its handler has returned.
//
// The package limits what a peer can make this end keep or do. It counts three kinds of memory
// (memory.go), and useless frames (frame.go).
//
// This package must not know gRPC, with its message prefixes, statuses and metadata.
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
	// StreamWindow and ConnWindow are the flow-control windows of a stream and of the connection,
	// at least 65535 each. While many streams are open, their windows are smaller.
	StreamWindow, ConnWindow int
	// MemoryLimit limits each of the three kinds of memory that the peer can use, see memory.go.
	MemoryLimit int
	// Kept counts the memory of received content that the Handler and its readers keep. The count
	// may change at any time. nil means that they keep none.
	Kept *batchio.KeptMemory
	// MaxFrameSize is the longest frame accepted, 16 KiB to 16 MiB.
	MaxFrameSize int
	// MaxHeaderList limits the size of a header list, and of its compressed block.
	MaxHeaderList int
	// MaxStreams limits the open streams of the peer; servers only. As many closed streams may
	// still have running handlers. So a peer may cancel calls and open others, but not
	// rapidly (CVE-2023-44487).
	MaxStreams int
	// ControlRate limits the average number of frames per second that carry no calls, such as pings
	// and resets.
	ControlRate int
	// OutputLimit limits the bytes in the output. Above the limit, streams queue their payloads
	// until TakeOutput is called.
	OutputLimit int
	// MinReferenceLen is the least length of a payload that is not copied. 0 means that all
	// payloads are copied.
	MinReferenceLen int
	// FirstStream is for tests: the number of a client's first stream. 0 means 1.
	FirstStream uint32
}

// A Handler receives the events of a Conn during Feed, TakeOutput and the Send methods. Its methods
// may call the Conn's Send, Consume and Reset methods, but not Feed.
type Handler interface {
	// OnOpen returns the stream for a new request; servers only.
	OnOpen() *Stream
	// OnHeaders delivers the fields of a request, a response or trailers. If the block is
	// TooLarge, fields are missing, and the handler must refuse the stream.
	OnHeaders(s *Stream, block *Block, end bool)
	// OnData delivers content, which is valid during the call. The handler must return each byte
	// to the stream's window with Conn.Consume, or all bytes with Conn.Release.
	OnData(s *Stream, data []byte, end bool)
	// OnReset reports that a stream ended early. It is the stream's last event.
	OnReset(s *Stream, why Reset)
	// OnDrained reports that the stream's queue is empty: its sent data is in the output.
	OnDrained(s *Stream)
	// OnGoAway reports that the peer accepts no new streams. OnReset follows for the streams
	// that the peer has not processed.
	OnGoAway(code http2.ErrCode, debug []byte)
	// OnPing reports a ping that the Conn has answered. An error ends the connection.
	OnPing(now time.Duration) *ConnError
	// OnPong reports that the peer has answered Conn.Ping. data is the data of that ping.
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
	nextID     uint32 // the identifier of the next stream that this end opens
	lastPeerID uint32 // the highest identifier of a stream that the peer has opened
	unreleased int    // number of the peer's streams that are open or not released
	maxStreams int    // the limit of the peer's streams in the last SETTINGS
	ending     int    // number of calls whose last frame is in the output
	// The lists of scheduled streams, see schedule.
	first, short, active, rest streamList
	preferred                  int // bytes that first and short sent since a long message's turn
	late                       lateFrames

	// Memory that the peer uses, see memory.go.
	records     int          // bytes that open streams and their metadata use
	growing     streamList   // streams whose incomplete messages wait for a grant
	granted     int          // bytes that the peer may still send of granted messages
	parked      streamList   // streams whose calls may not begin yet
	parkedShort streamList   // parked streams whose answers are likely to be short
	shortNext   bool         // the next Unpark takes a stream from parkedShort
	contentSent uint64       // bytes of sent DATA frames
	relievedAt  uint64       // value of contentSent at the last UnblockCalls
	calls       int          // the largest number of calls at work, see workEnded
	free        atomic.Int64 // the number of calls that may begin
	withheld    int64        // value of free when answersFull became true
	queued      int          // bytes of queued answers
	answersFull bool         // queued has exceeded the limit, and not shrunk enough since

	peer           peerSettings
	sendWindow     int64
	recvWindow     int64
	uncredited     int64 // bytes received and not yet returned to the connection's window
	window         int   // the window of each stream, as last acknowledged by the peer
	nextWindow     int   // the window of each stream in the last SETTINGS
	unacked        int   // number of SETTINGS sent and not acknowledged
	gotSettings    bool  // the peer's first SETTINGS has come
	goAwaySent     bool
	goAwayLimit    uint32 // if goAwaySent, streams above this identifier are refused
	goAwayReceived bool
	goAwayLast     uint32 // the lowest stream identifier in the peer's GOAWAYs
	failed         *ConnError
	continuation   struct {
		id    uint32 // stream of the incomplete block; 0 means that there is none
		flags http2.Flags
		fragments
	}
	budget budget
	// Activity counts the HEADERS and DATA frames sent. Keepalive reads it.
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
		nextID: 2,
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

// UnreleasedStreams returns the number of the peer's streams that are open or not yet released.
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

// Usable reports whether this end can still open streams, now or later.
func (c *Conn) Usable() bool {
	return !c.goAwayReceived && !c.goAwaySent && c.failed == nil && c.nextID < lastStream
}

// lastStream is the last identifier for streams: 75 % of the largest, as in grpc-go.
const lastStream = maxWindow / 4 * 3

// EachStream calls f for every open stream. f may reset the stream.
func (c *Conn) EachStream(f func(*Stream)) { c.streams.each(f) }

// DropStreams removes every stream and calls f for each. It also drops an incomplete header block,
// because the connection is lost.
func (c *Conn) DropStreams(f func(*Stream)) {
	c.continuation.fragments = fragments{}
	c.streams.each(func(s *Stream) {
		c.remove(s)
		f(s)
	})
}

// Pending implements batchio.Machine, as the methods below do.
func (c *Conn) Pending() int { return c.out.Len() }

func (c *Conn) outputFull() bool { return c.Pending() >= c.cfg.OutputLimit }

// output returns the output, and makes one if there is none.
func (c *Conn) output() *batchio.Output {
	if c.out == nil {
		c.out = batchio.NewOutput()
	}
	return c.out
}

// Ending implements batchio.Machine. waiting counts calls whose last frame is in the output.
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

// Feed reads frames. The owner of a server's Conn reads the client's preface, which comes before the
// first frame. now is a monotonic time, which may count from any instant.
func (c *Conn) Feed(now time.Duration, buf []byte, maxFrames int) (used int, err error) {
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
