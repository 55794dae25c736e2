// Package link is the state machine of one connection, without the socket. It gets the peer's
// frames, returns frames to send, and passes the calls' events to a [Handler]. It has no lock and
// starts no goroutine. Package batchio feeds it and writes its output.
//
// Package credit decides what may be sent, package frame defines the frames, and package progress
// limits those that are useless.
package link

import (
	"errors"
	"fmt"
	"time"

	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
	"wirelab.dev/rpc/creditrpc/internal/link/frame"
	"wirelab.dev/rpc/creditrpc/internal/link/progress"
)

// A Config says what one end grants to its peer, and what it accepts from its peer.
type Config struct {
	Client     bool
	Window     int64 // bytes in flight on the connection, at least credit.MinWindow
	PerStream  int64 // unread bytes of a stream, at least credit.MinWindow
	Calls      int64 // calls that may be open; servers only
	MaxMessage int
	MaxMeta    int
	Room       int64 // bytes for incomplete messages longer than PerStream
	// MinReference is the least length of a payload that is not copied; 0 means copy all.
	MinReference int
}

// A Handler is called with the peer's messages and events. It must not keep the slices that it
// gets, because they are in the read buffer.
type Handler interface {
	// OnRequest begins a call; servers only. It returns a stream with an Owner, or nil if it has
	// refused the call.
	OnRequest(id uint32, method string, begin frame.RequestStart) *Stream
	// OnMessage gets a whole message.
	OnMessage(s *Stream, m Message)
	// OnTooLong is called for a message that is longer than this end accepts. Nothing else from
	// the peer follows on the stream.
	OnTooLong(s *Stream, bytes int)
	// OnEnd is called when the peer sends nothing more on the stream.
	OnEnd(s *Stream)
	// OnHeader gets the server's metadata; clients only.
	OnHeader(s *Stream, meta []byte)
	// OnStatus gets a call's status; clients only.
	OnStatus(s *Stream, ending *frame.Ending)
	// OnCancel is called on a server when the client has given up the call. It is called on a
	// client when the server has refused the call before the call began.
	OnCancel(s *Stream)
	// OnSent is called when all messages of the stream are in the output.
	OnSent(s *Stream)
	// OnGoodbye is called when the server accepts no more calls. OnCancel follows for each call
	// that the server has not begun.
	OnGoodbye()
}

// A Message is a whole received message. If Buffer is nil, Data is in the read buffer, and valid
// until OnMessage returns. Otherwise the handler owns Buffer, which holds Data.
type Message struct {
	Data         []byte
	Buffer       *batchio.Buffer // nil means that Data is in the read buffer
	Credit, Room int64           // [Link.MessageRead] makes both available again
	Last         bool            // OnEnd follows at once
}

// Release releases the buffer, if there is one.
func (m *Message) Release() {
	if m.Buffer != nil {
		m.Buffer.Release()
		m.Buffer = nil
	}
}

// A Link is one end of a connection.
type Link struct {
	cfg     Config
	handler Handler
	peer    frame.Settings
	greeted bool // the peer's Hello has come

	out      *batchio.Output
	limit    int  // the limit of the output in bytes, see SetOutputLimit
	ending   int  // calls whose last frame is in the output
	answers  int  // bytes of frames in the output that the peer has caused
	draining bool // Goodbye was sent or received
	allowed  progress.Allowance

	sender         *credit.Sender
	window         credit.Window // credit for bytes of the connection
	calls          credit.Window // credit for calls; servers only
	room           int64         // free memory for messages longer than their stream's credit
	waitingForRoom []*Stream     // streams that wait for room, the first one first
	streams        map[uint32]*Stream
	lastID         uint32            // the number of the last call that was begun
	names          []string          // names of the client's methods; servers only
	numbers        map[string]uint64 // numbers of the methods, by name; clients only
}

var _ batchio.Machine = (*Link)(nil)

const (
	// initialLimit limits the output until the socket's speed is known.
	initialLimit = 256 << 10
	// maxAnswers limits the bytes of pongs and other answers that a peer leaves unread.
	maxAnswers = 64 << 10
	// maxMethods bounds the method names that a peer can store at this end.
	maxMethods    = 4096
	maxMethodName = 1024
	// MaxMeta limits the metadata of one frame. It is half a turn, to leave room for a message.
	MaxMeta = credit.Turn / 2
	// maxCalls is the number of calls after which a client opens another connection. The calls
	// that wait for credit at that time use higher numbers.
	maxCalls = 1 << 31
)

// ErrProtocol is wrapped by errors about a peer that breaks the rules.
var ErrProtocol = errors.New("creditrpc: protocol error")

// New returns a link whose output begins with its Hello.
func New(cfg Config, handler Handler) *Link {
	l := &Link{
		cfg: cfg, handler: handler, limit: initialLimit, streams: map[uint32]*Stream{},
		allowed: progress.New(),
		sender:  credit.NewSender(0, 0), window: credit.NewWindow(cfg.Window), calls: credit.NewWindow(cfg.Calls), room: cfg.Room,
	}
	if cfg.Client {
		l.numbers = map[string]uint64{}
	}
	l.output().SetTail(frame.AppendHello(l.out.Tail(), frame.Settings{
		Version: frame.Version, Window: uint64(cfg.Window), PerStream: uint64(cfg.PerStream), Calls: uint64(cfg.Calls),
		MaxMessage: uint64(cfg.MaxMessage), MaxMeta: uint64(cfg.MaxMeta),
	}))
	return l
}

// Peer returns the settings in the peer's Hello. They are zero before the Hello has come.
func (l *Link) Peer() frame.Settings { return l.peer }

// Draining reports whether no more calls may begin.
func (l *Link) Draining() bool { return l.draining || l.cfg.Client && l.lastID >= maxCalls }

func (l *Link) output() *batchio.Output {
	if l.out == nil {
		l.out = batchio.NewOutput()
	}
	return l.out
}

// appendFrame writes a frame that needs no credit.
func (l *Link) appendFrame(head frame.Head, payload []byte) {
	out := l.output()
	out.SetTail(head.AppendFrame(out.Tail(), payload))
	if head.Type == frame.Status {
		l.allowed.AddFrame()
	}
	if !l.cfg.Client || head.Type == frame.Ping { // the peer has caused these frames
		l.answers += frame.HeaderLen + len(payload)
	}
}

// sendGrant gives the peer credit on a stream, or on the connection if stream is 0.
func (l *Link) sendGrant(stream uint32, g frame.Grant) {
	if g != (frame.Grant{}) {
		var numbers [20]byte
		l.appendFrame(frame.Head{Type: frame.Credit, Stream: stream}, g.Append(numbers[:0]))
	}
}

// Pending implements batchio.Machine, as the methods below do.
func (l *Link) Pending() int { return l.out.Len() }

// TakeOutput returns the output. It fills the next output with frames that waited for room.
func (l *Link) TakeOutput() *batchio.Output {
	taken := l.out
	l.out, l.ending, l.answers = nil, 0, 0
	l.fillOutput()
	return taken
}

// SetOutputLimit limits the bytes in the output. Above the limit, messages wait.
func (l *Link) SetOutputLimit(bytes int) { l.limit = bytes }

// Ending returns the number of calls whose last frame is in the output, and of all open calls.
func (l *Link) Ending() (waiting, open int) {
	if l.cfg.Client {
		return l.ending, len(l.streams)
	}
	return l.ending, len(l.streams) + l.ending // the map no longer holds the calls that ended
}

// OpenStreams returns the number of open calls.
func (l *Link) OpenStreams() int { return len(l.streams) }

// Throttled reports whether answers must be written before Feed is called again.
func (l *Link) Throttled() bool { return l.answers > maxAnswers }

// FrameLen returns the length of a frame.
func (*Link) FrameLen(buf []byte) int { return frame.Len(buf) }

// Close drops the output and forgets all streams.
func (l *Link) Close() {
	l.out.Recycle()
	l.out = nil
}

// Feed reads at most maxFrames whole frames. now is a monotonic time, which may count from any
// instant.
func (l *Link) Feed(now time.Duration, buf []byte, maxFrames int) (used int, err error) {
	l.allowed.AddTime(now)
	for ; maxFrames > 0 && len(buf)-used >= frame.HeaderLen; maxFrames-- {
		head, err := frame.ReadHead(buf[used:])
		if err != nil {
			return used, l.protocolError("%v", err)
		}
		if most := l.maxPayload(head.Type); head.Length > most {
			return used, l.protocolError("a frame of type %d has %d bytes, at most %d are allowed", head.Type, head.Length, most)
		}
		if len(buf)-used < frame.HeaderLen+head.Length {
			break
		}
		payload := buf[used+frame.HeaderLen:][:head.Length:head.Length]
		used += frame.HeaderLen + head.Length
		if !l.greeted && head.Type != frame.Hello {
			return used, l.protocolError("the first frame is of type %d: the peer does not speak creditrpc", head.Type)
		}
		if err := l.receive(head, payload); err != nil {
			return used, err
		}
	}
	l.fillOutput()
	return used, nil
}

// maxPayload returns the longest payload that this end accepts in a frame of type t.
func (l *Link) maxPayload(t frame.FrameType) int {
	switch t {
	case frame.Request, frame.Data:
		return frame.MaxPayload
	case frame.Header, frame.Status:
		return frame.MaxOtherPayload + l.cfg.MaxMeta
	}
	return frame.MaxOtherPayload
}

func (l *Link) protocolError(format string, values ...any) error {
	return fmt.Errorf("%w: %s", ErrProtocol, fmt.Sprintf(format, values...))
}
