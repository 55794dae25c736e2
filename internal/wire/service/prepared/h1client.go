package prepared

import (
	"context"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// An h1Client carries calls over HTTP/1.1, one at a time per connection. If there is a connection
// per caller, each caller uses its own slot, and callers share no memory that they write. With
// fewer connections, callers wait for a slot in order.
type h1Client struct {
	*dialer
	requests encodedRequests[h1Request]
	slots    []*h1Slot
	// closesKept says that the server has closed a connection between two calls.
	closesKept atomic.Bool

	waiting atomic.Int64 // number of callers that wait or will soon wait
	mu      sync.Mutex
	queue   []*h1Caller
	next    int // index of the slot to try first
}

// An h1Caller holds a caller's place in the queue, and its last slot.
type h1Caller struct {
	client *h1Client
	slot   *h1Slot
	began  int64
	ctx    context.Context // context of the waiting call
	turn   chan verdict    // receives idle if the caller got a slot, otherwise why the wait ended
}

func newH1Client(d *dialer) (*h1Client, error) {
	c := &h1Client{dialer: d}
	for range d.slotCount() {
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
	s, err := c.takeSlot(ctx, answer, began)
	if err != nil {
		return err
	}
	err = s.makeCall(ctx, c, h1Call{h1Request: r, began: began}, answer)
	c.releaseSlot(s)
	return err
}

// takeSlot returns a slot that only this caller uses until releaseSlot.
func (c *h1Client) takeSlot(ctx context.Context, answer *service.Answer, began int64) (*h1Slot, error) {
	caller, _ := answer.CallerState.(*h1Caller)
	if caller == nil || caller.client != c {
		caller = &h1Caller{client: c, turn: make(chan verdict, 1)}
		answer.CallerState = caller
	}
	if s := caller.slot; s != nil && c.waiting.Load() == 0 && s.busy.CompareAndSwap(false, true) {
		return s, nil
	}
	c.mu.Lock()
	c.waiting.Add(1) // count this caller first, so that it cannot miss a slot that is released now
	if len(c.queue) == 0 {
		if s := c.takeFreeSlot(); s != nil {
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

// takeFreeSlot returns a free slot, or nil. The caller must hold the lock.
func (c *h1Client) takeFreeSlot() *h1Slot {
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

// releaseSlot gives the slot to the caller that has waited longest.
func (c *h1Client) releaseSlot(s *h1Slot) {
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
	c.endWait(0, idle)
}

// endWait ends the wait of caller i in the queue, and sends the verdict to the caller. The caller
// must hold the lock.
func (c *h1Client) endWait(i int, v verdict) {
	caller := c.queue[i]
	caller.ctx = nil
	c.queue = slices.Delete(c.queue, i, i+1)
	c.waiting.Add(-1)
	caller.turn <- v
}

func (c *h1Client) endOverdue(now int64) {
	for _, s := range c.slots {
		s.endOverdue(c.watch, now)
	}
	if c.waiting.Load() == 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := len(c.queue) - 1; i >= 0; i-- {
		if why := c.watch.judge(c.queue[i].ctx, c.queue[i].began, now); why != idle {
			c.endWait(i, why)
		}
	}
}

func (c *h1Client) Close() error {
	c.endLife()
	c.watch.close()
	for _, s := range c.slots {
		s.close()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		c.endWait(0, clientClosed)
	}
	return nil
}

// An h1Slot carries one call at a time. It has one connection at a time.
type h1Slot struct {
	_    [64]byte // padding: the watch and other callers read the memory beside it
	busy atomic.Bool
	// call holds the running call's stamp or the watch's verdict on it; idle if no call runs.
	call     atomic.Uint64
	sequence uint64
	conn     *h1Conn // nil means that the next call opens a connection
	last     int64   // instant at which the last call began
	_        [64]byte

	mu     sync.Mutex // guards the fields below: the caller writes them, and the watch reads them
	nc     net.Conn   // the socket of conn
	ctx    context.Context
	closed bool
}

// An h1Call is a request and the tick at which the call began.
type h1Call struct {
	*h1Request
	began int64
}

// sequenceBits is the size of a call's number in its stamp. A stamp identifies a call: it consists
// of the call's first tick and the last bits of its number.
const sequenceBits = 20

// unwatchedTime is the time after the begin of a call in which the slot does not look whether the server has closed
// the connection. To look costs half a microsecond, which callers without pauses need not pay.
const unwatchedTime = int64(10 * time.Millisecond)

// makeCall makes a call on the slot's connection. It opens a connection if there is none, or if the
// server has closed the connection since the last call. It looks after a pause, and always once the server
// has closed one.
func (s *h1Slot) makeCall(ctx context.Context, c *h1Client, call h1Call, answer *service.Answer) error {
	now := clock.Now()
	if s.conn != nil && (now-s.last >= unwatchedTime || c.closesKept.Load()) && conn.HasPeerClosed(s.nc) {
		c.closesKept.Store(true)
		s.dropConn() // the call has not begun on it
	}
	s.last = now
	if s.conn == nil {
		if err := s.openForCall(ctx, c.dialer); err != nil {
			return err
		}
	}
	stamp := s.begin(ctx, call.began)
	err := s.conn.exchange(call.h1Request)
	if verdict := s.end(stamp); verdict != idle {
		s.dropConn()
		return c.watch.err(ctx, verdict)
	}
	if err != nil {
		if err = s.conn.explainEnd(err); failure.Of(err) == failure.IdleClosed {
			c.closesKept.Store(true)
		}
		s.dropConn()
		return err
	}
	answer.Status, answer.Bytes = s.conn.parser.Status, s.conn.parser.Bytes
	answer.SentHeaderBytes, answer.ReceivedHeaderBytes = call.header, s.conn.used-answer.Bytes
	if !s.conn.answered {
		s.conn.answered = true
		c.reportProtocol("h1")
	}
	if call.close || c.Lifecycle != conn.Kept || !s.conn.isReusable() {
		s.dropConn()
	}
	return nil
}

// begin makes the call visible to the watch.
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

// endOverdue ends the call if it is late or cancelled. The lock keeps the connection the same.
func (s *h1Slot) endOverdue(w *watch, now int64) {
	stamp := s.call.Load()
	if stamp < uint64(verdictCount) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	why := w.judge(s.ctx, int64(stamp>>sequenceBits), now)
	if why != idle && s.call.CompareAndSwap(stamp, uint64(why)) {
		_ = s.nc.SetDeadline(time.Unix(1, 0)) // a deadline in the past ends reads and writes at once
	}
}

// openForCall opens a connection as a part of a call. If calls share no connection, it times the
// call's first byte.
func (s *h1Slot) openForCall(ctx context.Context, d *dialer) error {
	begin := time.Now()
	err := s.open(ctx, d)
	if err == nil && d.Lifecycle != conn.Kept {
		s.conn.onFirstByte = func() { d.Dialer.FirstByte(time.Since(begin)) }
	}
	return err
}

func (s *h1Slot) open(ctx context.Context, d *dialer) error {
	nc, err := d.dial(ctx)
	if err != nil {
		return err
	}
	opened, err := newH1Conn(nc, &s.call)
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
	s.conn, s.nc = opened, nc
	return nil
}

func (s *h1Slot) dropConn() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.nc.Close()
	s.conn, s.nc = nil, nil
}

// close ends the call and closes the connection. The slot opens no further connection.
func (s *h1Slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	if stamp := s.call.Load(); stamp >= uint64(verdictCount) {
		s.call.CompareAndSwap(stamp, uint64(clientClosed))
	}
	if s.nc != nil {
		_ = s.nc.Close()
	}
}
