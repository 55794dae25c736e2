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
	scripted bool // the script is not empty
	calls    atomic.Int64
	time     *timekeeper // nil if no call waits
	dialer   *conn.Dialer
	conns    []net.Conn // kept
	perCall  string     // the server's address, if each call opens a connection; else empty
	closed   chan struct{}

	placeMu sync.Mutex
	places  []int64 // when each place is free; nil: any number of calls at a time
	next    int
	closing sync.Once
}

var errClosed = status.Error(codes.Canceled, "fake: the client is closed")

func newClient(s script, dialer *conn.Dialer) *client {
	c := &client{dialer: dialer, script: s, scripted: s != script{}, closed: make(chan struct{})}
	if s.waits() {
		c.time = startTimekeeper()
	}
	if s.parallel > 0 {
		c.places = make([]int64, s.parallel)
	}
	return c
}

// open opens the connections that are kept. If it keeps none, it checks that a server listens.
func (c *client) open(ctx context.Context, target stack.Target) error {
	c.dialer.UsedProtocol("fake")
	if target.Lifecycle != conn.Kept {
		c.perCall = target.Address
		return c.touch(ctx)
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

func (c *client) touch(ctx context.Context) error {
	conn, err := c.dialer.DialContext(ctx, "tcp", c.perCall)
	if err != nil {
		return stack.FailContext(ctx, err)
	}
	return conn.Close()
}

func (c *client) Invoke(ctx context.Context, method string, args, reply any, _ ...grpc.CallOption) error {
	if c.scripted {
		return c.perform(ctx, method, args, reply)
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
		if err := c.touch(ctx); err != nil {
			return err
		}
	}
	return answer(method, args, reply)
}

func (c *client) perform(ctx context.Context, method string, args, reply any) error {
	number := c.calls.Add(1)
	var ready <-chan struct{} // nil: never
	switch {
	case c.script.hangs(number):
	case c.time != nil:
		ready = c.time.at(c.due())
	default:
		ready = now
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	case <-c.closed:
		return errClosed
	}
	if c.perCall != "" {
		if err := c.touch(ctx); err != nil {
			return err
		}
	}
	if c.script.fails(number) {
		return status.Error(codes.Unavailable, "scripted fault")
	}
	err := answer(method, args, reply)
	if err == nil && c.script.corrupts(number) {
		corrupt(reply)
	}
	return err
}

// due returns when the call that begins now may be answered. If the script limits the calls at a
// time, that is not before a place is free.
func (c *client) due() int64 {
	if c.places == nil {
		return c.script.due(clock.Now())
	}
	c.placeMu.Lock()
	defer c.placeMu.Unlock()
	due := c.script.due(max(clock.Now(), c.places[c.next]))
	c.places[c.next] = due
	c.next = (c.next + 1) % len(c.places) // every call takes the same time, so the places become free in turn
	return due
}

// now is always ready.
var now = func() <-chan struct{} {
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

// timekeeper wakes calls at the instants they ask for, in the order they ask. To be exact to
// microseconds, the last part of a wait must spin. One goroutine spins for all calls, so that a
// hundred waiting calls use no more CPU time than one.
type timekeeper struct {
	queue chan wakeup
	ended chan struct{}
	work  sync.WaitGroup
}

type wakeup struct {
	instant int64
	ready   chan struct{}
}

const queueLength = 1024 // further calls wait for a place, in order too

func startTimekeeper() *timekeeper {
	t := &timekeeper{queue: make(chan wakeup, queueLength), ended: make(chan struct{})}
	t.work.Go(t.run)
	return t
}

// stop ends the timekeeper. Calls that still wait are never woken.
func (t *timekeeper) stop() {
	close(t.ended)
	t.work.Wait()
}

// at returns a channel that is closed at the instant. It blocks while the queue is full.
func (t *timekeeper) at(instant int64) <-chan struct{} {
	ready := make(chan struct{})
	select {
	case t.queue <- wakeup{instant, ready}:
	case <-t.ended:
	}
	return ready
}

func (t *timekeeper) run() {
	for {
		select {
		case next := <-t.queue:
			if !t.await(next.instant) {
				return
			}
			close(next.ready)
		case <-t.ended:
			return
		}
	}
}

// await waits until the instant. It returns false if stop comes first.
func (t *timekeeper) await(instant int64) bool {
	const end = 2 * time.Millisecond // the last part of a long wait cannot be interrupted
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
