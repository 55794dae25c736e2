package http2

import (
	"encoding/binary"
	"fmt"
	"math"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/rpc/batchio"
)

// Kind says what answers are.
type Kind int

// The kinds of answers.
const (
	HTTP Kind = iota
	GRPC
)

// Config describes a connection.
type Config struct {
	Kind Kind
	// MinReference is the length from which bodies are referenced and not copied; 0: never.
	MinReference int
}

const (
	maxWindow     = math.MaxInt32
	defaultWindow = 65535 // RFC 9113, section 6.9.2
	tableSize     = 4096  // RFC 9113, section 6.5.2
	// maxFrame is the longest frame that the server may send.
	maxFrame = 64 << 10
	// creditAt is how many bytes the server may use of a window before it is opened again.
	creditAt = maxWindow / 2
	// maxAnswers is how many bytes of answers to the server's frames may wait to be written
	// before it is read again.
	maxAnswers = 64 << 10
	minTable   = 64
)

// Machine is one connection's state. A batchio.Conn feeds it; its lock guards it.
type Machine struct {
	config Config
	out    *batchio.Output
	limit  int // of bytes in it, from which bodies are kept back
	ending int // streams whose last frame is in it
	began  bool

	// table finds streams by their number's lower bits. A number whose place is taken is
	// left out: a slow call does not make the table grow.
	table   []*Stream
	open    int
	nextID  uint32
	waiting []*Stream // for the server to take more streams
	senders []*Stream // which have more of a body to send, and a window
	ended   []*Stream

	peer struct {
		settled    bool // its SETTINGS have come
		maxStreams int
		maxFrame   int
		window     int64 // of new streams
	}
	sendWindow int64 // of the connection
	recvWindow int64
	closing    bool   // no further stream may be opened
	goAway     string // what the server's GOAWAY says

	decoder *decoder
	partial struct { // a block whose CONTINUATION has not come
		id    uint32
		flags http2.Flags
		block []byte
	}
	credit int
}

var _ batchio.Machine = (*Machine)(nil)

// New returns the state of a connection, with the client's preface in the output.
func New(config Config) *Machine {
	m := &Machine{
		config: config, limit: batchio.MinOutput, nextID: 1, table: make([]*Stream, minTable),
		sendWindow: defaultWindow, recvWindow: maxWindow, decoder: newDecoder(), credit: firstCredit,
	}
	m.peer.maxStreams, m.peer.maxFrame, m.peer.window = math.MaxInt32, minMaxFrame, defaultWindow
	tail := append(m.output().Tail(), http2.ClientPreface...)
	settings := []http2.Setting{
		{ID: http2.SettingEnablePush, Val: 0},
		{ID: http2.SettingInitialWindowSize, Val: maxWindow},
		{ID: http2.SettingMaxFrameSize, Val: maxFrame},
		{ID: http2.SettingMaxHeaderListSize, Val: maxFields},
	}
	const settingBytes = 6
	tail = appendFrame(tail, frame{length: settingBytes * len(settings), kind: http2.FrameSettings})
	for _, s := range settings {
		tail = binary.BigEndian.AppendUint16(tail, uint16(s.ID))
		tail = binary.BigEndian.AppendUint32(tail, s.Val)
	}
	m.out.SetTail(appendNumber(tail, frame{kind: http2.FrameWindowUpdate}, maxWindow-defaultWindow))
	return m
}

// Settled reports whether the server's SETTINGS have come.
func (m *Machine) Settled() bool { return m.peer.settled }

// Closing reports whether the connection takes no further stream.
func (m *Machine) Closing() bool { return m.closing }

// Idle reports whether no stream is open.
func (m *Machine) Idle() bool { return m.open == 0 }

// TakeEnded returns the streams that have ended since it was called last, in the memory of
// its argument, and keeps that of the last result.
func (m *Machine) TakeEnded(into []*Stream) []*Stream {
	out := m.ended
	m.ended = into[:0]
	return out
}

// Each calls visit with all streams that have not ended. It may call Cancel with them.
func (m *Machine) Each(visit func(*Stream)) {
	for _, s := range m.table {
		if s != nil {
			visit(s)
		}
	}
	for i := len(m.waiting) - 1; i >= 0; i-- {
		visit(m.waiting[i])
	}
}

// Lose ends all streams, because the connection has ended.
func (m *Machine) Lose(err error) {
	m.closing = true
	if m.goAway != "" {
		err = failure.As(failure.GoAway, fmt.Errorf("the server ended the connection%s: %w", m.goAway, err))
	}
	m.senders = nil
	for i, s := range m.table {
		if s != nil {
			m.table[i] = nil
			m.open--
			m.end(s, err)
		}
	}
	m.dropWaiting()
}

// dropWaiting leaves the streams that were not sent to another connection.
func (m *Machine) dropWaiting() {
	for _, s := range m.waiting {
		m.end(s, ErrNotSent)
	}
	m.waiting = nil
}

// end hands a stream back to its caller.
func (m *Machine) end(s *Stream, err error) {
	s.state, s.Err, s.unsent = ended, err, nil
	m.ended = append(m.ended, s)
}

func (m *Machine) output() *batchio.Output {
	if m.out == nil {
		m.out = batchio.NewOutput()
	}
	return m.out
}

// Pending implements batchio.Machine.
func (m *Machine) Pending() int {
	if m.out == nil {
		return 0
	}
	return m.out.Len()
}

// TakeOutput implements batchio.Machine.
func (m *Machine) TakeOutput() *batchio.Output {
	out := m.out
	m.out, m.ending = nil, 0
	m.sendBodies()
	return out
}

// SetOutputLimit implements batchio.Machine.
func (m *Machine) SetOutputLimit(bytes int) { m.limit = bytes }

// Ending implements batchio.Machine.
func (m *Machine) Ending() (waiting, open int) { return m.ending, m.open }

// OpenStreams implements batchio.Machine.
func (m *Machine) OpenStreams() int { return m.open }

// Throttled implements batchio.Machine.
func (m *Machine) Throttled() bool { return m.out != nil && m.out.Answers > maxAnswers }

// Close implements batchio.Machine.
func (m *Machine) Close() {
	if m.out != nil {
		m.out.Recycle()
		m.out = nil
	}
}

// answer appends a frame that the server's frames have provoked.
func (m *Machine) answer(f frame, payload []byte) {
	f.length = len(payload)
	out := m.output()
	out.SetTail(append(appendFrame(out.Tail(), f), payload...))
	out.Answers += frameHeader + len(payload)
}

func (m *Machine) answerNumber(f frame, n uint32) {
	out := m.output()
	out.SetTail(appendNumber(out.Tail(), f, n))
	out.Answers += frameHeader + 4
}

// appendNumber appends a frame whose content is a number.
func appendNumber(to []byte, f frame, n uint32) []byte {
	f.length = 4
	return binary.BigEndian.AppendUint32(appendFrame(to, f), n)
}
