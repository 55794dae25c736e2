package h2

import "time"

// Config says what one end offers and tolerates.
type Config struct {
	Client bool
	// StreamWindow and ConnWindow are how many bytes the peer may have under way,
	// a stream and in all. At least 65535 each.
	StreamWindow, ConnWindow int
	// UnreadLimit is how many bytes may lie unconsumed over all streams before the
	// connection window stops being renewed. It bounds the connection's memory.
	UnreadLimit int
	// MaxFrameSize is the longest frame accepted, 16 KiB to 16 MiB.
	MaxFrameSize int
	// MaxHeaderList bounds a header block, compressed and decompressed.
	MaxHeaderList int
	// MaxStreams is how many streams the peer may have open; servers only. As many
	// again may be gone but not yet released, because their handlers still run:
	// a peer that cancels calls is not refused at once, one that does so rapidly is.
	MaxStreams int
	// OutputLimit is how many bytes of DATA wait in the output before streams line
	// up: the length of the queue between the senders and the socket.
	OutputLimit int
	// ReferenceFrom is the length from which payloads are queued by reference
	// instead of copied; 0 copies all.
	ReferenceFrom int
}

// Handler receives the events of a Conn, during Feed and the Send calls. It may
// call the Conn's Send and Reset methods from within, but not Feed.
type Handler interface {
	// OnOpen asks for the stream of a new request; servers only.
	OnOpen() *Stream
	// OnHeaders delivers a request's or response's fields, or trailers. A block
	// that is TooLarge is delivered cut, for the stream to be refused.
	OnHeaders(s *Stream, block *Block, end bool)
	// OnData delivers content, valid during the call. Each byte must be given back
	// through Conn.Consume, or all of them by Conn.Release.
	OnData(s *Stream, data []byte, end bool)
	// OnReset tells of a stream's early end. Nothing follows for this stream.
	OnReset(s *Stream, why Reset)
	// OnDrained tells that all that was sent on the stream is in the output.
	OnDrained(s *Stream)
	// OnGoAway tells that the peer takes no new streams.
	OnGoAway(code ErrCode, debug []byte)
	// OnPing reports a ping of the peer's, already answered; an error ends the
	// connection.
	OnPing(now time.Duration) *ConnError
	// OnPong brings back the data of a ping sent by Conn.Ping.
	OnPong(data [8]byte)
}

// Reset says why a stream ended early.
type Reset struct {
	Code ErrCode
	// Reason is set where this end found the fault.
	Reason string
	// Unprocessed: the peer promises that it did nothing for this stream, so the
	// call may be tried again elsewhere.
	Unprocessed bool
}

// Conn is one end of one connection. It is not safe for concurrent use.
type Conn struct {
	cfg     Config
	handler Handler
	out     *Output
	spare   *Output
	enc     *encoder
	dec     *decoder

	streams    table
	nextID     uint32 // the next stream this end opens
	lastPeerID uint32 // the highest stream the peer opened
	occupied   int    // streams of the peer's not both gone and released
	ending     int    // see Ending
	line       []*Stream
	resetIDs   recentIDs

	peer         peerSettings
	sendWindow   int64
	recvWindow   int64
	owed         int64 // received, not yet given back to the connection window
	unread       int64
	settled      bool // the peer's first SETTINGS has come
	prefaced     bool
	goAwaySent   bool
	goAwayLimit  uint32 // streams above it are refused once goAwaySent
	goAwayGot    bool
	failed       *ConnError
	continuation struct {
		id    uint32 // 0 while no block is being gathered
		flags uint8
		block []byte
		count int
	}
	budget budget
	// Activity counts HEADERS and DATA frames sent, for keepalive's accounting.
	Activity uint64
	// FramesIn counts frames received.
	FramesIn uint64
}

type peerSettings struct {
	initialWindow int64
	maxFrame      int
	maxStreams    uint32
	maxHeaderList uint64
}

// NewConn puts the connection's first frames into the output and returns it.
func NewConn(cfg Config, h Handler) *Conn {
	c := &Conn{
		cfg: cfg, handler: h,
		out: new(Output), spare: new(Output),
		enc:    newEncoder(),
		dec:    newDecoder(uint32(cfg.MaxHeaderList)),
		nextID: 2, prefaced: cfg.Client,
		peer: peerSettings{
			initialWindow: defaultWindow, maxFrame: minMaxFrameSize,
			maxStreams: maxWindow, maxHeaderList: 1 << 62,
		},
		sendWindow: defaultWindow,
		recvWindow: int64(cfg.ConnWindow),
	}
	c.budget.init()
	if cfg.Client {
		c.nextID = 1
		c.out.appended(append(c.out.buf, Preface...))
	}
	c.sendFirstSettings()
	return c
}

// OpenStreams is how many streams are open.
func (c *Conn) OpenStreams() int { return c.streams.n }

// Occupied is how many of the peer's streams are open or not yet released.
func (c *Conn) Occupied() int { return c.occupied }

// Settled reports whether the peer's SETTINGS have been received.
func (c *Conn) Settled() bool { return c.settled }

// PeerMaxHeaderList is the largest list of fields the peer accepts.
func (c *Conn) PeerMaxHeaderList() uint64 { return c.peer.maxHeaderList }

// Slots is how many more streams the peer has room for now.
func (c *Conn) Slots() int {
	if !c.Usable() {
		return 0
	}
	return int(min(c.peer.maxStreams, maxWindow)) - c.streams.n
}

// Usable reports whether streams can still be opened, now or later.
func (c *Conn) Usable() bool {
	return !c.goAwayGot && !c.goAwaySent && c.failed == nil && c.nextID < maxWindow
}

// DropStreams removes every stream, calling f for each.
func (c *Conn) DropStreams(f func(*Stream)) {
	c.streams.each(func(s *Stream) {
		c.remove(s)
		f(s)
	})
}

// Pending is the number of bytes that wait to be written.
func (c *Conn) Pending() int { return c.out.size }

// Ending is the number of streams whose last frame of this end's is among what waits,
// which are unary calls on a client and answers on a server, and how many streams
// were open with them.
func (c *Conn) Ending() (waiting, open int) {
	if c.cfg.Client {
		return c.ending, c.streams.n
	}
	return c.ending, c.streams.n + c.ending // what is answered is gone
}

// SetOutputLimit changes Config's.
func (c *Conn) SetOutputLimit(n int) { c.cfg.OutputLimit = n }

// TakeOutput hands over all that waits. The caller writes it, calls its Recycle
// and gives it back with the next call; until then the Conn fills another.
func (c *Conn) TakeOutput(written *Output) *Output {
	if written != nil {
		c.spare = written
	}
	taken := c.out
	c.ending = 0
	if c.spare == nil {
		c.spare = new(Output)
	}
	c.out, c.spare = c.spare, nil
	c.budget.flushed()
	c.pump()
	return taken
}

// Feed reads whole frames from buf, at most maxFrames, and returns how many bytes
// it used; the rest must be presented again with more behind it. now is any
// monotonic reading. After an error the connection only has its output to write.
func (c *Conn) Feed(now time.Duration, buf []byte, maxFrames int) (int, error) {
	used := 0
	if !c.prefaced {
		n := min(len(buf), len(Preface))
		if string(buf[:n]) != Preface[:n] {
			return 0, c.fail(CodeProtocol, "bad connection preface")
		}
		if n < len(Preface) {
			return 0, nil
		}
		c.prefaced = true
		used = n
	}
	c.budget.refill(now)
	for ; maxFrames > 0 && len(buf)-used >= FrameHeaderLen; maxFrames-- {
		h := ParseFrameHeader(buf[used:])
		if h.Length > c.cfg.MaxFrameSize {
			return used, c.fail(CodeFrameSize, "frame longer than allowed")
		}
		if len(buf)-used < FrameHeaderLen+h.Length {
			break
		}
		payload := buf[used+FrameHeaderLen : used+FrameHeaderLen+h.Length]
		used += FrameHeaderLen + h.Length
		if err := c.frame(now, h, payload); err != nil {
			return used, err
		}
	}
	return used, nil
}

// Need is how long a frame that begins buf is, so that a reader can make room.
func Need(buf []byte) int {
	if len(buf) < FrameHeaderLen {
		return FrameHeaderLen
	}
	return FrameHeaderLen + ParseFrameHeader(buf).Length
}

// fail announces the end of the connection, once.
func (c *Conn) fail(code ErrCode, reason string) error {
	if c.failed == nil {
		c.failed = &ConnError{Code: code, Reason: reason}
		c.sendGoAway(c.lastPeerID, code, reason)
	}
	return c.failed
}

// Fail ends the connection for a reason of the caller's.
func (c *Conn) Fail(code ErrCode, reason string) error { return c.fail(code, reason) }
