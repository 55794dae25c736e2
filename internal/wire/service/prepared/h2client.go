package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"golang.org/x/net/http2"

	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// h2Client carries calls over HTTP/2, many at a time on a connection.
type h2Client struct {
	*dialer
	requests requests[h2Request]
	watch    *watch
	links    []*link
	next     atomic.Uint32 // the link of the next caller
	running  sync.WaitGroup
}

// h2Seat is a caller's stream, and the link that carries all its calls.
type h2Seat struct {
	h2Stream
	client *h2Client
	link   *link
}

func openHTTP2(ctx context.Context, plan service.Plan, d *dialer) (service.Client, error) {
	c := &h2Client{dialer: d, watch: newWatch(plan.Timeout)}
	encode := encodeHTTP2
	if plan.Wire == service.GRPC {
		encode = encodeGRPC
	}
	var err error
	if c.requests, err = encodeAll(plan.Definition, encode); err != nil {
		return nil, err
	}
	for range max(plan.Connections, 1) {
		c.links = append(c.links, &link{client: c})
	}
	err = conn.OpenEach(ctx, len(c.links), func(ctx context.Context, i int) error {
		_, err := c.links[i].get(ctx)
		return err
	})
	c.watch.start(c.look)
	if err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Call implements service.Client.
func (c *h2Client) Call(ctx context.Context, request *service.Request, answer *service.Answer) error {
	r, err := c.requests.find(request)
	if err != nil {
		return err
	}
	seat, _ := answer.Seat.(*h2Seat)
	if seat == nil || seat.client != c {
		seat = &h2Seat{client: c, link: c.links[int(c.next.Add(1)-1)%len(c.links)]}
		seat.done = make(chan struct{}, 1)
		answer.Seat = seat
	}
	seat.began, seat.ctx = c.watch.now.Load(), ctx
	for {
		conn, err := seat.link.get(ctx)
		if err != nil {
			return err
		}
		err = conn.call(&seat.h2Stream, r)
		switch {
		case err == nil:
			answer.Status, answer.Message = seat.status, seat.message
			answer.Bytes, answer.Messages = seat.bytes, seat.messages
			return nil
		case c.isServersDeadline(err): // which the watch may see later, if it is not let run
			return c.watch.err(ctx, late)
		case !errors.Is(err, errNotSent):
			return err
		case c.watch.isLate(seat.began, c.watch.now.Load()):
			return c.watch.err(ctx, late)
		case ctx.Err() != nil:
			return c.watch.err(ctx, cancelled)
		}
	}
}

// isServersDeadline reports whether a server of gRPC ended a call whose time was over: it was
// told how long that is, and then resets the stream (gRPC over HTTP2, "Errors").
func (c *h2Client) isServersDeadline(err error) bool {
	reset, is := errors.AsType[http2.StreamError](err)
	return is && reset.Code == http2.ErrCodeCancel && c.Wire == service.GRPC && c.watch.timeout > 0
}

// look ends the calls that are late or cancelled.
func (c *h2Client) look(now int64) {
	for _, l := range c.links {
		if conn := l.conn.Load(); conn != nil {
			conn.look(c.watch, now)
		}
		l.lookAtOld(c.watch, now)
	}
}

// Close implements service.Client.
func (c *h2Client) Close() error {
	c.endLife()
	c.watch.close()
	for _, l := range c.links {
		l.shut()
	}
	c.running.Wait()
	return nil
}

// link holds one connection after another.
type link struct {
	client *h2Client
	conn   atomic.Pointer[h2Conn]

	mu      sync.Mutex
	opening *opening
	old     []*h2Conn // that take no further call and still carry some
	closed  bool
}

// opening is an attempt to open a connection, for which all callers wait.
type opening struct {
	done chan struct{}
	err  error
}

// get returns a connection that takes calls.
func (l *link) get(ctx context.Context) (*h2Conn, error) {
	for {
		if conn := l.conn.Load(); conn != nil && !conn.gone.Load() {
			return conn, nil
		}
		l.mu.Lock()
		if conn := l.conn.Load(); conn != nil && !conn.gone.Load() {
			l.mu.Unlock()
			return conn, nil
		}
		if l.closed {
			l.mu.Unlock()
			return nil, errClosed
		}
		o, first := l.opening, l.opening == nil
		if first {
			o = &opening{done: make(chan struct{})}
			l.opening = o
		}
		l.mu.Unlock()
		if first {
			l.open(ctx, o)
		}
		select {
		case <-o.done:
		case <-ctx.Done():
			return nil, l.client.watch.err(ctx, cancelled)
		}
		if o.err != nil && (first || !errors.Is(o.err, context.Canceled)) {
			return nil, o.err
		}
	}
}

// open opens a connection for all that wait.
func (l *link) open(ctx context.Context, o *opening) {
	conn, err := l.client.openConn(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	if old := l.conn.Load(); old != nil {
		l.old = append(l.old, old)
		l.conn.Store(nil)
	}
	l.opening = nil
	if err == nil && l.closed {
		conn.Close(errClosed)
		err = errClosed
	}
	if err == nil {
		l.conn.Store(conn)
	}
	o.err = err
	close(o.done)
}

// openConn opens a connection and waits until the server has spoken HTTP/2.
func (c *h2Client) openConn(ctx context.Context) (*h2Conn, error) {
	ctx, cancel := c.within(ctx)
	defer cancel()
	nc, err := c.opener.Open(ctx)
	if err != nil {
		return nil, c.ifClosed(err)
	}
	conn := newH2Conn(nc, c.Callers/max(1, c.Connections))
	conn.Start(&c.running)
	if err := conn.lostBefore(ctx); err != nil {
		conn.Close(err)
		if errors.Is(err, io.EOF) {
			err = fmt.Errorf("the server closed the connection before it spoke HTTP/2: %w", io.ErrUnexpectedEOF)
		}
		return nil, c.ifClosed(err)
	}
	c.answered("h2")
	return conn, nil
}

// lookAtOld is look for connections that take no further call.
func (l *link) lookAtOld(w *watch, now int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	carrying := l.old[:0]
	for _, conn := range l.old {
		conn.look(w, now)
		conn.Mu.Lock()
		if conn.Err() == nil {
			carrying = append(carrying, conn)
		}
		conn.Mu.Unlock()
	}
	clear(l.old[len(carrying):])
	l.old = carrying
}

// shut closes the connections for good, and ends the calls on them.
func (l *link) shut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for _, conn := range append(l.old, l.conn.Load()) {
		if conn != nil {
			conn.Close(errClosed)
		}
	}
}
