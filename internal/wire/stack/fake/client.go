package fake

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
)

type client struct {
	script   script
	scripted bool // whether the script has an effect
	calls    atomic.Int64
	time     *timekeeper // nil if the script never delays calls
	dialer   *conn.Dialer
	conns    []net.Conn // the kept connections
	perCall  string     // server's address if each call opens a connection; otherwise ""
	closed   chan struct{}

	placeMu sync.Mutex
	places  []int64 // times when each place for a call becomes free; nil means no limit
	next    int
	closing sync.Once
}

var errClosed = status.Error(codes.Canceled, "fake: the client is closed")

func newClient(s script, dialer *conn.Dialer) *client {
	c := &client{dialer: dialer, script: s, scripted: s != script{}, closed: make(chan struct{})}
	if s.delaysCalls() {
		c.time = startTimekeeper()
	}
	if s.parallel > 0 {
		c.places = make([]int64, s.parallel)
	}
	return c
}

// open opens the kept connections. Without kept connections, it checks that a server listens.
func (c *client) open(ctx context.Context, target stack.Target) error {
	c.dialer.UsedProtocol("fake")
	if target.Lifecycle != conn.Kept {
		c.perCall = target.Address
		return c.openAndClose(ctx)
	}
	for range max(target.Connections, 1) {
		conn, err := c.dialer.DialContext(ctx, "tcp", target.Address)
		if err != nil {
			return err
		}
		c.conns = append(c.conns, conn)
	}
	return nil
}

func (c *client) openAndClose(ctx context.Context) error {
	conn, err := c.dialer.DialContext(ctx, "tcp", c.perCall)
	if err != nil {
		return stack.FailContext(ctx, err)
	}
	return conn.Close()
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if c.scripted {
		return c.runScript(ctx, method, args, reply)
	}
	select {
	case <-c.closed:
		return errClosed
	default:
	}
	if err := ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if c.perCall != "" {
		if err := c.openAndClose(ctx); err != nil {
			return err
		}
	}
	return copyRequest(method, args, reply)
}

func (c *client) runScript(ctx context.Context, method string, args, reply any) error {
	number := c.calls.Add(1)
	var ready <-chan struct{} // nil means that the call never becomes ready
	switch {
	case c.script.hangsAt(number):
	case c.time != nil:
		ready = c.time.wakeAt(c.answerTime())
	default:
		ready = readyNow
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-c.closed:
		return errClosed
	}
	if c.perCall != "" {
		if err := c.openAndClose(ctx); err != nil {
			return err
		}
	}
	if c.script.failsAt(number) {
		return status.Error(codes.Unavailable, "fake: the option fail-every makes this call fail")
	}
	err := copyRequest(method, args, reply)
	if err == nil && c.script.corruptsAt(number) {
		corruptAnswer(reply)
	}
	return err
}

// answerTime returns the time at which to answer a call that begins now. If the script limits
// parallel calls, the call also waits for a free place.
func (c *client) answerTime() int64 {
	if c.places == nil {
		return c.script.answerTime(clock.Now())
	}
	c.placeMu.Lock()
	defer c.placeMu.Unlock()
	due := c.script.answerTime(max(clock.Now(), c.places[c.next]))
	c.places[c.next] = due
	c.next = (c.next + 1) % len(c.places) // all calls take equally long, so the places become free one after another
	return due
}

var readyNow = func() <-chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

func (c *client) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, errStreams.Error())
}

func (c *client) Close() error {
	c.closing.Do(func() {
		close(c.closed)
		if c.time != nil {
			c.time.stop()
		}
		for _, conn := range c.conns {
			_ = conn.Close()
		}
	})
	return nil
}

// timekeeper wakes calls at the times that they request, in the order of their requests. To be
// exact to microseconds, it polls the clock at the end of a wait. One goroutine polls for all
// calls, so that many waiting calls use no more CPU time than one.
type timekeeper struct {
	queue chan wakeRequest
	ended chan struct{}
	work  sync.WaitGroup
}

type wakeRequest struct {
	instant int64
	ready   chan struct{}
}

const queueLength = 1024 // if the queue is full, further calls wait in order

func startTimekeeper() *timekeeper {
	t := &timekeeper{queue: make(chan wakeRequest, queueLength), ended: make(chan struct{})}
	t.work.Go(t.run)
	return t
}

// stop ends the timekeeper. It does not wake waiting calls.
func (t *timekeeper) stop() {
	close(t.ended)
	t.work.Wait()
}

// wakeAt returns a channel that is closed at the given time. It blocks while the queue is full.
func (t *timekeeper) wakeAt(instant int64) <-chan struct{} {
	ready := make(chan struct{})
	select {
	case t.queue <- wakeRequest{instant, ready}:
	case <-t.ended:
	}
	return ready
}

func (t *timekeeper) run() {
	for {
		select {
		case next := <-t.queue:
			if !t.waitUntil(next.instant) {
				return
			}
			close(next.ready)
		case <-t.ended:
			return
		}
	}
}

// waitUntil waits until the given time. It returns false if the timekeeper stops before.
func (t *timekeeper) waitUntil(instant int64) bool {
	const end = 2 * time.Millisecond // do not sleep in this last part: a sleep may end late
	if long := time.Duration(instant-clock.Now()) - end; long > 0 {
		timer := time.NewTimer(long)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-t.ended:
			return false
		}
	}
	clock.Until(instant)
	return true
}
