package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/wire/service"
)

// An h2Client carries calls over HTTP/2. One connection carries many calls at a time.
type h2Client struct {
	*dialer
	requests encodedRequests[h2Request]
	slots    []*h2Slot
	next     atomic.Uint32 // index of the next caller's slot
	running  sync.WaitGroup
}

// An h2Caller holds a caller's stream, and the slot that carries all its calls.
type h2Caller struct {
	h2Stream
	client *h2Client
	slot   *h2Slot
}

func newH2Client(d *dialer) (*h2Client, error) {
	c := &h2Client{dialer: d}
	for range max(d.Connections, 1) {
		c.slots = append(c.slots, &h2Slot{client: c})
	}
	encode := encodeHTTP2
	if d.Wire == service.GRPC {
		encode = encodeGRPC
	}
	var err error
	c.requests, err = encodeAll(d.Definition, encode)
	return c, err
}

func (c *h2Client) open(ctx context.Context, slot int) error {
	_, err := c.slots[slot].usableConn(ctx)
	return err
}

func (c *h2Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	r, err := c.requests.find(request)
	if err != nil {
		return err
	}
	caller, _ := answer.CallerState.(*h2Caller)
	if caller == nil || caller.client != c {
		caller = &h2Caller{client: c, slot: c.slots[int(c.next.Add(1)-1)%len(c.slots)]}
		caller.done = make(chan struct{}, 1)
		answer.CallerState = caller
	}
	caller.began, caller.ctx = c.watch.now.Load(), ctx
	for {
		conn, err := caller.slot.usableConn(ctx)
		if err != nil {
			return err
		}
		err = conn.call(&caller.h2Stream, r)
		switch {
		case err == nil:
			answer.Status, answer.Message = caller.status, caller.message
			answer.Bytes, answer.Messages = caller.bytes, caller.messages
			return nil
		case c.isServersDeadline(err): // on a busy machine the server may notice the timeout first
			return c.watch.err(ctx, late)
		case !errors.Is(err, errNotSent):
			return err
		}
		if why := c.watch.judge(ctx, caller.began, c.watch.now.Load()); why != idle {
			return c.watch.err(ctx, why)
		}
	}
}

// isServersDeadline reports whether a gRPC server reset a call's stream because the timeout had
// passed. The request tells the server the timeout (gRPC over HTTP2, "Errors").
func (c *h2Client) isServersDeadline(err error) bool {
	reset, is := errors.AsType[http2.StreamError](err)
	return is && reset.Code == http2.ErrCodeCancel && c.Wire == service.GRPC && c.watch.timeout > 0
}

func (c *h2Client) endOverdue(now int64) {
	for _, s := range c.slots {
		if conn := s.conn.Load(); conn != nil {
			conn.endOverdue(c.watch, now)
		}
		s.endOverdueOnOld(c.watch, now)
	}
}

func (c *h2Client) Close() error {
	c.endLife()
	c.watch.close()
	for _, s := range c.slots {
		s.close()
	}
	c.running.Wait()
	return nil
}

// An h2Slot has at most one connection that accepts new calls.
type h2Slot struct {
	client *h2Client
	conn   atomic.Pointer[h2Conn]

	mu      sync.Mutex
	opening *connAttempt
	old     []*h2Conn // connections that accept no new calls but still carry calls
	closed  bool
}

// A connAttempt is an attempt to open a connection, for which all callers of the slot wait.
type connAttempt struct {
	done chan struct{}
	err  error
}

// usableConn returns a connection that accepts calls.
func (s *h2Slot) usableConn(ctx context.Context) (*h2Conn, error) {
	for {
		if conn := s.conn.Load(); conn != nil && !conn.gone.Load() {
			return conn, nil
		}
		s.mu.Lock()
		if conn := s.conn.Load(); conn != nil && !conn.gone.Load() {
			s.mu.Unlock()
			return conn, nil
		}
		if s.closed {
			s.mu.Unlock()
			return nil, errClosed
		}
		o, first := s.opening, s.opening == nil
		if first {
			o = &connAttempt{done: make(chan struct{})}
			s.opening = o
		}
		s.mu.Unlock()
		if first {
			s.open(ctx, o)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, s.client.watch.err(ctx, cancelled)
		}
		if o.err != nil && (first || !errors.Is(o.err, context.Canceled)) {
			return nil, o.err
		}
	}
}

// open opens a connection for all callers that wait.
func (s *h2Slot) open(ctx context.Context, o *connAttempt) {
	conn, err := s.client.openConn(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.conn.Load(); old != nil {
		s.old = append(s.old, old)
		s.conn.Store(nil)
	}
	s.opening = nil
	if err == nil && s.closed {
		conn.Close(errClosed)
		err = errClosed
	}
	if err == nil {
		s.conn.Store(conn)
	}
	o.err = err
	close(o.done)
}

// openConn opens a connection and waits until the server has sent SETTINGS.
func (c *h2Client) openConn(ctx context.Context) (*h2Conn, error) {
	ctx, cancel := c.callContext(ctx)
	defer cancel()
	nc, err := c.opener.Open(ctx)
	if err != nil {
		return nil, c.orErrClosed(err)
	}
	conn := newH2Conn(nc, c.Callers/max(1, c.Connections))
	conn.Start(&c.running)
	if err := conn.awaitSettings(ctx); err != nil {
		conn.Close(err)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the server closed the connection before it spoke HTTP/2: %w", io.ErrUnexpectedEOF)
		}
		return nil, c.orErrClosed(err)
	}
	c.reportProtocol("h2")
	return conn, nil
}

// endOverdueOnOld ends the late and cancelled calls on old connections.
func (s *h2Slot) endOverdueOnOld(w *watch, now int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	carrying := s.old[:0]
	for _, conn := range s.old {
		conn.endOverdue(w, now)
		conn.Mu.Lock()
		if conn.Err() == nil {
			carrying = append(carrying, conn)
		}
		conn.Mu.Unlock()
	}
	clear(s.old[len(carrying):])
	s.old = carrying
}

// close ends all calls and closes all connections. The slot opens no further connection.
func (s *h2Slot) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, conn := range append(s.old, s.conn.Load()) {
		if conn != nil {
			conn.Close(errClosed)
		}
	}
}
