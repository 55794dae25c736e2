package prepared

import (
	"context"
	"sync"
	"sync/atomic"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// An h1Client carries calls over HTTP/1.1, one at a time per connection. With as many
// connections as callers, callers share nothing that they write: each finds the slot of its
// last call free. With fewer, they wait for a slot, first come first served.
type h1Client struct {
	*dialer
	requests requests[h1Request]
	watch    *watch
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
	ctx    context.Context // of the call that waits
	turn   chan verdict    // receives idle when slot is the caller's, or why the wait ended
}

func openHTTP1(ctx context.Context, plan service.Plan, d *dialer) (service.Client, error) {
	c := &h1Client{dialer: d, watch: newWatch(plan.Timeout)}
	var err error
	if c.requests, err = encodeAll(plan.Definition, encodeHTTP1); err != nil {
		return nil, err
	}
	for range max(plan.Connections, 1) {
		c.slots = append(c.slots, &h1Slot{})
	}
	err = conn.OpenEach(ctx, len(c.slots), func(ctx context.Context, i int) error { return c.slots[i].open(ctx, d) })
	c.watch.start(c.look)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Call implements service.Client.
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
	err = s.carry(ctx, c, call{h1Request: r, began: began}, answer)
	c.release(s)
	return err
}

// take returns a slot that nobody else uses until release.
func (c *h1Client) take(ctx context.Context, answer *service.Answer, began int64) (*h1Slot, error) {
	caller, _ := answer.Seat.(*h1Caller)
	if caller == nil || caller.client != c {
		caller = &h1Caller{client: c, turn: make(chan verdict, 1)}
		answer.Seat = caller
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
	caller := c.queue[0]
	c.leave(0)
	caller.slot = s
	caller.turn <- idle
}

// leave removes caller i from the queue. The lock is held.
func (c *h1Client) leave(i int) {
	c.queue[i].ctx = nil
	copy(c.queue[i:], c.queue[i+1:])
	c.queue[len(c.queue)-1] = nil
	c.queue = c.queue[:len(c.queue)-1]
	c.waiting.Add(-1)
}

// look ends the calls that are late or cancelled.
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
		caller := c.queue[i]
		switch {
		case c.watch.isLate(caller.began, now):
			c.leave(i)
			caller.turn <- late
		case caller.ctx.Err() != nil:
			c.leave(i)
			caller.turn <- cancelled
		}
	}
}

// Close implements service.Client.
func (c *h1Client) Close() error {
	c.endLife()
	c.watch.close()
	for _, s := range c.slots {
		s.shut()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.queue) > 0 {
		caller := c.queue[0]
		c.leave(0)
		caller.turn <- shut
	}
	return nil
}
