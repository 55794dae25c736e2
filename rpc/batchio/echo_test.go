package batchio

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"
)

// echoMachine answers each frame with itself. A frame is its length in four bytes and
// its payload. Long payloads retain the chunk that they were received in.
type echoMachine struct {
	conn  *Conn
	out   *Output
	calls int // whose answers are in the output
	limit int
	lost  error
	gone  chan struct{}
}

var (
	_ Machine = (*echoMachine)(nil)
	_ Role    = (*echoMachine)(nil)
)

const (
	echoHeader   = 4
	longestFrame = 1 << 20
)

var errTooLong = errors.New("frame is too long")

func (m *echoMachine) Pending() int {
	if m.out == nil {
		return 0
	}
	return m.out.Len()
}

func (m *echoMachine) TakeOutput() *Output {
	taken := m.out
	m.out, m.calls = nil, 0
	return taken
}

func (m *echoMachine) SetOutputLimit(n int)        { m.limit = n }
func (m *echoMachine) Ending() (waiting, open int) { return m.calls, m.calls }
func (m *echoMachine) OpenStreams() int            { return m.calls }
func (m *echoMachine) Throttled() bool             { return m.Pending() > longestFrame }

func (*echoMachine) FrameLen(buf []byte) int {
	if len(buf) < echoHeader {
		return echoHeader
	}
	return echoHeader + int(binary.BigEndian.Uint32(buf))
}

func (m *echoMachine) Feed(_ time.Duration, buf []byte, maxFrames int) (used int, err error) {
	for ; maxFrames > 0; maxFrames-- {
		frame := m.FrameLen(buf[used:])
		if frame > longestFrame {
			return used, errTooLong
		}
		if len(buf)-used < echoHeader || len(buf)-used < frame {
			break
		}
		m.answer(buf[used+echoHeader : used+frame])
		used += frame
	}
	return used, nil
}

func (m *echoMachine) answer(payload []byte) {
	if m.out == nil {
		m.out = NewOutput()
	}
	m.calls++
	m.out.SetTail(binary.BigEndian.AppendUint32(m.out.Tail(), uint32(len(payload))))
	if len(payload) < MinReferenceLen {
		m.out.SetTail(append(m.out.Tail(), payload...))
		return
	}
	m.conn.Chunk().Retain()
	m.out.Reference(payload)
	m.out.AddOwner(m.conn.Chunk())
}

func (m *echoMachine) Close() {
	if m.out != nil {
		m.out.Recycle()
		m.out = nil
	}
}

func (*echoMachine) StreamsChanged()      {}
func (*echoMachine) StartCalls()          {}
func (m *echoMachine) ConnLost(err error) { m.lost = err }
func (m *echoMachine) OnClosed()          { close(m.gone) }

// serveEcho attaches an echoMachine to nc.
func serveEcho(nc net.Conn, running *sync.WaitGroup) *echoMachine {
	c := new(Conn)
	m := &echoMachine{conn: c, gone: make(chan struct{})}
	c.Init(nc)
	c.Attach(m, m)
	c.Start(running)
	return m
}
