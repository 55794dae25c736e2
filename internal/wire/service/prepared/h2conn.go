package prepared

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/rpc/batchio"
	"wirelab.dev/rpc/h2"
)

// An h2Conn carries calls over one connection. It joins a state machine and a socket.
type h2Conn struct {
	batchio.Conn
	machine *h2.Conn
	waiting []*h2Stream // streams that wait until the server accepts more
	goAway  string      // text about the server's GOAWAY, for errors
	head    answerHead  // scratch space of readHead

	gone      atomic.Bool // the connection accepts no new calls
	settled   chan struct{}
	isSettled bool        // the channel settled is closed: SETTINGS arrived or the connection ended
	ended     []*h2Stream // streams that have ended, and whose callers must be woken
	fedEnded  []*h2Stream // streams that ended in the last Feed; only the reader uses it
}

// A fedMachine wraps the state machine for the reader, and adds this package's errors.
type fedMachine struct {
	*h2.Conn
	conn *h2Conn
}

var (
	_ batchio.Machine = fedMachine{}
	_ batchio.Role    = (*h2Conn)(nil)
	_ h2.Handler      = (*h2Conn)(nil)
)

const (
	// With noPollingCallers callers or more, a connection's reader sleeps instead of polling.
	// Polling saves a wake-up with one caller, but with 50 it took a fifth of a call's CPU time.
	noPollingCallers = 8
	// maxWindow is the largest window in HTTP/2 (RFC 9113, section 6.9.1). Answers are counted and
	// not kept, so a smaller window would save nothing.
	maxWindow = math.MaxInt32
	// maxHeaderList limits a header's size, both compressed and decompressed.
	maxHeaderList = 256 << 10
	// maxFrame is the longest frame that the server may send.
	maxFrame = 64 << 10
	// controlRate limits how many useless frames per second the server may send.
	controlRate = 1000
	// memoryLimit is never reached, because this end keeps nothing of an answer.
	memoryLimit = 1 << 30
)

// newH2Conn returns a connection for the given number of callers. batchio's Start runs it.
func newH2Conn(nc net.Conn, callers int) *h2Conn {
	c := &h2Conn{settled: make(chan struct{})}
	c.Init(nc)
	if callers >= noPollingCallers {
		c.DisablePolling()
	}
	c.machine = h2.NewConn(h2.Config{
		Client: true, StreamWindow: maxWindow, ConnWindow: maxWindow, MemoryLimit: memoryLimit,
		MaxFrameSize: maxFrame, MaxHeaderList: maxHeaderList, ControlRate: controlRate,
		OutputLimit: batchio.MinOutput, MinReferenceLen: c.MinReference(),
	}, c)
	c.Attach(fedMachine{c.machine, c}, c)
	return c
}

func (f fedMachine) Feed(now time.Duration, buf []byte, maxFrames int) (int, error) {
	if !f.SettingsReceived() {
		if err := checkFirstBytes(buf); err != nil {
			return 0, err
		}
	}
	used, err := f.Conn.Feed(now, buf, maxFrames)
	f.conn.fedEnded, f.conn.ended = f.conn.ended, f.conn.fedEnded
	if fault, is := errors.AsType[*h2.ConnError](err); is {
		err = fmt.Errorf("the server broke the rules of HTTP/2: %s (%w)", fault.Reason, http2.ConnectionError(fault.Code))
		if fault.Code != http2.ErrCodeFlowControl {
			err = failure.WithClass(failure.WrongProtocol, err)
		}
	}
	return used, err
}

func checkFirstBytes(buf []byte) error {
	if err := conn.CheckCleartext(buf); err != nil {
		return err
	}
	switch {
	case len(buf) < h2.FrameHeaderLen:
		return nil
	case bytes.HasPrefix(buf, []byte("HTTP/")):
		line, _, _ := bytes.Cut(buf, []byte("\r\n"))
		return failure.WithClass(failure.WrongProtocol, fmt.Errorf("the server does not speak HTTP/2: it answered %.60q", line))
	}
	if f := h2.ParseFrameHeader(buf); f.Type != http2.FrameSettings || f.Flags.Has(http2.FlagSettingsAck) || f.Length > maxFrame {
		return failure.WithClass(failure.WrongProtocol, fmt.Errorf("the server does not speak HTTP/2: its first bytes are %.40q instead of SETTINGS", buf))
	}
	return nil
}

// StartCalls wakes callers after the lock is released, so that they need not wait for it.
func (c *h2Conn) StartCalls() {
	c.fedEnded = wakeCallers(c.fedEnded)
}

// wake wakes the callers of streams that ended outside Feed. The caller must hold the lock.
func (c *h2Conn) wake() { c.ended = wakeCallers(c.ended) }

func wakeCallers(ended []*h2Stream) []*h2Stream {
	for i, s := range ended {
		ended[i] = nil
		s.done <- struct{}{}
	}
	return ended[:0]
}

// end ends a stream's call. The caller wakes after the state machine has returned.
func (c *h2Conn) end(s *h2Stream, err error) {
	s.err = err
	c.ended = append(c.ended, s)
}

// errNotSent means that this connection accepts no more calls. Another connection may accept the
// call.
var errNotSent = errors.New("the connection accepts no more calls")

// start sends a call's request. If the server accepts no more streams now, the call waits.
func (c *h2Conn) start(s *h2Stream, r *h2Request) error {
	if c.Err() != nil || !c.machine.Usable() {
		return errNotSent
	}
	s.begin(r)
	if len(c.waiting) > 0 || c.machine.FreeSlots() <= 0 {
		c.waiting = append(c.waiting, s)
	} else {
		c.send(s)
	}
	return nil
}

func (c *h2Conn) send(s *h2Stream) {
	c.machine.Open(&s.stream)
	r := s.request
	if len(r.body) == 0 {
		c.machine.SendTrailers(&s.stream, r.fields, nil)
		return
	}
	c.machine.SendHeaders(&s.stream, r.fields, nil)
	c.machine.SendData(&s.stream, batchio.Payload{Data: r.body}, true)
}

func (c *h2Conn) StreamsChanged() {
	if c.machine.SettingsReceived() {
		c.markSettled()
	}
	for len(c.waiting) > 0 && c.machine.FreeSlots() > 0 {
		s := c.waiting[0]
		c.waiting = slices.Delete(c.waiting, 0, 1)
		c.send(s)
	}
	if c.machine.Usable() || c.Err() != nil {
		return
	}
	c.gone.Store(true)
	c.dropWaiting()
	if c.machine.OpenStreams() == 0 {
		c.CloseLocked(errDrained)
	}
}

// dropWaiting ends the calls whose requests were not sent. Another connection then carries them.
func (c *h2Conn) dropWaiting() {
	for _, s := range c.waiting {
		c.end(s, errNotSent)
	}
	c.waiting = nil
	c.wake()
}

func (c *h2Conn) markSettled() {
	if !c.isSettled {
		c.isSettled = true
		close(c.settled)
	}
}

// errDrained ends a connection that carries no call and that the server wants to end.
var errDrained = errors.New("the server is closing the connection")

func (c *h2Conn) ConnLost(err error) {
	c.gone.Store(true)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	if c.goAway != "" {
		err = failure.WithClass(failure.GoAway, fmt.Errorf("the server ended the connection%s: %w", c.goAway, err))
	}
	c.machine.DropStreams(func(stream *h2.Stream) { c.end(stream.Owner.(*h2Stream), err) })
	c.dropWaiting()
	c.markSettled()
	c.wake()
}

func (c *h2Conn) OnClosed() {}

// call makes a call, which the watch can end. After errNotSent, try another connection.
func (c *h2Conn) call(s *h2Stream, r *h2Request) error {
	c.Mu.Lock()
	err := c.start(s, r)
	if err == nil {
		c.FlushBatch()
	} else {
		c.StreamsChanged() // this call may have been the last that the connection accepts
	}
	c.Mu.Unlock()
	if err != nil {
		return err
	}
	<-s.done
	return s.err
}

func (c *h2Conn) endOverdue(w *watch, now int64) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.machine.EachStream(func(stream *h2.Stream) {
		s := stream.Owner.(*h2Stream)
		if why := w.judge(s.ctx, s.began, now); why != idle {
			c.machine.Reset(stream, http2.ErrCodeCancel)
			c.end(s, w.err(s.ctx, why))
		}
	})
	c.waiting = slices.DeleteFunc(c.waiting, func(s *h2Stream) bool {
		why := w.judge(s.ctx, s.began, now)
		if why != idle {
			c.end(s, w.err(s.ctx, why))
		}
		return why != idle
	})
	c.wake()
	c.StreamsChanged()
	c.Flush()
}

// awaitSettings waits until the server has sent SETTINGS, or the connection has ended.
func (c *h2Conn) awaitSettings(ctx context.Context) error {
	select {
	case <-c.settled:
	case <-ctx.Done():
		return fmt.Errorf("wait for the server's SETTINGS: %w", ctx.Err())
	}
	c.Mu.Lock()
	defer c.Mu.Unlock()
	if err := c.Err(); !errors.Is(err, errDrained) {
		return err
	}
	return nil
}

// OnOpen is never called: servers open no streams.
func (c *h2Conn) OnOpen() *h2.Stream { return new(h2.Stream) }

func (c *h2Conn) OnHeaders(stream *h2.Stream, block *h2.Block, end bool) {
	s := stream.Owner.(*h2Stream)
	if block.TooLarge {
		c.failMalformed(s, fmt.Errorf("the answer's header has more than %d bytes", maxHeaderList))
		return
	}
	head := readHead(block, &c.head)
	if err := s.onHead(head); err != nil {
		c.failMalformed(s, err)
	} else if end {
		c.end(s, s.complete(head))
	}
}

func (c *h2Conn) OnData(stream *h2.Stream, data []byte, end bool) {
	c.machine.Consume(stream, len(data))
	s := stream.Owner.(*h2Stream)
	if err := s.onData(data); err != nil {
		c.failMalformed(s, err)
	} else if end {
		c.end(s, s.complete(nil))
	}
}

func (c *h2Conn) failMalformed(s *h2Stream, err error) {
	c.machine.Reset(&s.stream, http2.ErrCodeProtocol)
	c.end(s, malformedAnswer(err))
}

func (c *h2Conn) OnReset(stream *h2.Stream, why h2.Reset) {
	s := stream.Owner.(*h2Stream)
	code := http2.StreamError{StreamID: stream.ID(), Code: why.Code}
	switch {
	case why.Reason == "":
		c.end(s, fmt.Errorf("the server reset the call: %w", code))
	case why.Unprocessed:
		c.end(s, failure.WithClass(failure.StreamRefused, fmt.Errorf(
			"the server refused the call and ended the connection%s: %w", c.goAway, code)))
	default:
		c.end(s, malformedAnswer(errors.New(why.Reason)))
	}
}

// OnDrained does nothing, because no goroutine waits until a request has been sent.
func (c *h2Conn) OnDrained(*h2.Stream) {}

// OnGoAway stores the server's reason, which the errors of later calls show.
func (c *h2Conn) OnGoAway(code http2.ErrCode, debug []byte) {
	const maxQuoted = 200
	c.goAway = fmt.Sprintf(" with GOAWAY %s", code)
	if len(debug) > 0 {
		c.goAway += fmt.Sprintf(" %q", debug[:min(len(debug), maxQuoted)])
	}
}

// OnPing does nothing: the state machine answers pings.
func (c *h2Conn) OnPing(time.Duration) *h2.ConnError { return nil }

// OnPong does nothing: this end sends no pings.
func (c *h2Conn) OnPong([8]byte) {}

func malformedAnswer(err error) error {
	return failure.WithClass(failure.WrongProtocol, fmt.Errorf("the server's answer is malformed: %w", err))
}
