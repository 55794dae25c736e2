package prepared

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"wirelab.dev/internal/wire/service"
)

// An h1Client carries calls over HTTP/1.1, one at a time per connection. With as many
// connections as callers, callers share nothing that they write: each finds the slot of its last
// call free. With fewer, they wait for a slot, first come first served.
type h1Client struct {
	*dialer
	requests requests[h1Request]
	slots    []*h1Slot

	waiting atomic.Int64 // callers in the queue, or about to be
	mu      sync.Mutex
	queue   []*h1Caller
	next    int // the slot to look at first
}

// An h1Caller holds a caller's place in the queue, and the slot that it used last.
type h1Caller struct {
	client *h1Client
	slot   *h1Slot
	began  int64
	ctx    context.Context // context of the waiting call
	turn   chan verdict    // receives idle when slot is the caller's, or why the wait ended
}

func newH1Client(d *dialer) (*h1Client, error) {
	c := &h1Client{dialer: d}
	for range d.places() {
		c.slots = append(c.slots, &h1Slot{})
	}
	var err error
	c.requests, err = encodeAll(d.Definition, encodeHTTP1)
	return c, err
}

func (c *h1Client) open(ctx context.Context, slot int) error {
	return c.slots[slot].open(ctx, c.dialer)
}

func (c *h1Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	r, err := c.requests.find(request)
	if err != nil {
		return err
	}
	began := c.watch.now.Load()
	s, err := c.take(ctx, answer, began)
	if err != nil {
		return err
	}
	err = s.carry(ctx, c, h1Call{h1Request: r, began: began}, answer)
	c.release(s)
	return err
}

// take returns a slot that nobody else uses until release.
func (c *h1Client) take(ctx context.Context, answer *service.Answer, began int64) (*h1Slot, error) {
	caller, _ := answer.CallerState.(*h1Caller)
	if caller == nil || caller.client != c {
		caller = &h1Caller{client: c, turn: make(chan verdict, 1)}
		answer.CallerState = caller
	}
	if s := caller.slot; s != nil && c.waiting.Load() == 0 && s.busy.CompareAndSwap(false, true) {
		return s, nil
	}
	c.mu.Lock()
	c.waiting.Add(1) // first, so that a slot released from here on is seen, or handed over
	if len(c.queue) == 0 {
		if s := c.takeFree(); s != nil {
			c.waiting.Add(-1)
			c.mu.Unlock()
			caller.slot = s
			return s, nil
		}
	}
	caller.began, caller.ctx = began, ctx
	c.queue = append(c.queue, caller)
	c.mu.Unlock()
	if v := <-caller.turn; v != idle {
		return nil, c.watch.err(ctx, v)
	}
	return caller.slot, nil
}

// takeFree returns a free slot, or nil. The lock is held.
func (c *h1Client) takeFree() *h1Slot {
	for range c.slots {
		s := c.slots[c.next]
		if c.next++; c.next == len(c.slots) {
			c.next = 0
		}
		if s.busy.CompareAndSwap(false, true) {
			return s
		}
	}
	return nil
}

// release gives the slot to the caller that has waited longest.
func (c *h1Client) release(s *h1Slot) {
	if c.waiting.Load() == 0 {
		s.busy.Store(false)
		if c.waiting.Load() == 0 || !s.busy.CompareAndSwap(false, true) {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		s.busy.Store(false)
		return
	}
	c.queue[0].slot = s
	c.leave(0, idle)
}

// leave ends the wait of caller i. The lock is held.
func (c *h1Client) leave(i int, v verdict) {
	caller := c.queue[i]
	caller.ctx = nil
	c.queue = slices.Delete(c.queue, i, i+1)
	c.waiting.Add(-1)
	caller.turn <- v
}

func (c *h1Client) look(now int64) {
	for _, s := range c.slots {
		s.look(c.watch, now)
	}
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.queue) - 1; i >= 0; i-- {
		if why := c.watch.judge(c.queue[i].ctx, c.queue[i].began, now); why != idle {
			c.leave(i, why)
		}
	}
}

func (c *h1Client) Close() error {
	c.endLife()
	c.watch.close()
	for _, s := range c.slots {
		s.shut()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		c.leave(0, shut)
	}
	return nil
}

// An h1Slot carries one call at a time, over one connection after another.
type h1Slot struct {
	_    [64]byte // the watch and other callers read the neighbouring memory
	busy atomic.Bool
	// call is the stamp of the running call, idle, or the verdict of the watch on it.
	call     atomic.Uint64
	sequence uint64
	conn     *h1Conn // nil if it must be opened
	_        [64]byte

	mu     sync.Mutex // guards the fields below, which the caller writes and the watch reads
	nc     net.Conn   // the socket of conn
	ctx    context.Context
	closed bool
}

// An h1Call is a request and the tick at which its call began.
type h1Call struct {
	*h1Request
	began int64
}

// A stamp holds a call's first tick, and sequenceBits bits that distinguish it from the next
// call.
const sequenceBits = 20

// carry makes a call on the slot's connection, which it opens if needed.
func (s *h1Slot) carry(ctx context.Context, c *h1Client, call h1Call, answer *service.Answer) error {
	again := call.repeatable
	for {
		if s.conn == nil {
			again = false
			if err := s.open(ctx, c.dialer); err != nil {
				return err
			}
		}
		stamp := s.begin(ctx, call.began)
		err := s.conn.exchange(call.h1Request)
		if verdict := s.end(stamp); verdict != idle {
			s.drop()
			return c.watch.err(ctx, verdict)
		}
		if err == nil {
			answer.Status, answer.Bytes = s.conn.parser.Status, s.conn.parser.Bytes
			if !s.conn.answered {
				s.conn.answered = true
				c.answered("h1")
			}
			if call.close || !s.conn.canGoOn() {
				s.drop()
			}
			return nil
		}
		// A server may end a connection at any time between two calls.
		ended := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		again = again && ended && s.conn.answered && s.conn.isFresh()
		s.drop()
		if !again {
			return err
		}
	}
}

// begin publishes the call to the watch.
func (s *h1Slot) begin(ctx context.Context, began int64) (stamp uint64) {
	if s.ctx != ctx {
		s.mu.Lock()
		s.ctx = ctx
		s.mu.Unlock()
	}
	s.sequence++
	stamp = uint64(began)<<sequenceBits | s.sequence&(1<<sequenceBits-1)
	s.call.Store(stamp)
	return stamp
}

func (s *h1Slot) end(stamp uint64) verdict {
	if s.call.CompareAndSwap(stamp, uint64(idle)) {
		return idle
	}
	return verdict(s.call.Swap(uint64(idle)))
}

// look ends the call if it is late or cancelled. Under the lock the connection cannot change.
func (s *h1Slot) look(w *watch, now int64) {
	stamp := s.call.Load()
	if stamp < uint64(verdicts) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	why := w.judge(s.ctx, int64(stamp>>sequenceBits), now)
	if why != idle && s.call.CompareAndSwap(stamp, uint64(why)) {
		_ = s.nc.SetDeadline(time.Unix(1, 0)) // long past
	}
}

// open opens the slot's connection.
func (s *h1Slot) open(ctx context.Context, d *dialer) error {
	nc, err := d.dial(ctx)
	if err != nil {
		return err
	}
	conn, err := newH1Conn(nc, &s.call)
	if err != nil {
		_ = nc.Close()
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		_ = nc.Close()
		return errClosed
	}
	s.conn, s.nc = conn, nc
	return nil
}

// drop closes the connection; the next call opens another.
func (s *h1Slot) drop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.nc.Close()
	s.conn, s.nc = nil, nil
}

// shut closes the connection for good, and ends the call on it.
func (s *h1Slot) shut() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if stamp := s.call.Load(); stamp >= uint64(verdicts) {
		s.call.CompareAndSwap(stamp, uint64(shut))
	}
	if s.nc != nil {
		_ = s.nc.Close()
	}
}
