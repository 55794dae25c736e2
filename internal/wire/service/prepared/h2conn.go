package prepared

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/wire/service/prepared/http2"
	"wirelab.dev/rpc/batchio"
)

// h2Conn is a connection of HTTP/2: a machine, and what carries it over a socket.
type h2Conn struct {
	batchio.Conn
	machine *http2.Machine

	gone      atomic.Bool // it takes no further call
	settled   chan struct{}
	isSettled bool            // settled is closed: the server has spoken HTTP/2, or the connection has ended
	ended     []*http2.Stream // in the last Feed; the reader wakes their callers
}

// fed is what the reader feeds.
type fed struct {
	*http2.Machine
	conn *h2Conn
}

var (
	_ batchio.Machine = fed{}
	_ batchio.Role    = (*h2Conn)(nil)
)

// manyCallers is from how many callers on a connection its reads sleep: looking for answers
// took a fifth of a call's CPU time with 50, and saves a wake-up with one.
const manyCallers = 8

// newH2Conn starts a connection's goroutines, which end when it is closed. callers are those
// that share it.
func newH2Conn(nc net.Conn, kind http2.Kind, callers int, running *sync.WaitGroup) *h2Conn {
	c := &h2Conn{settled: make(chan struct{})}
	c.Init(nc)
	if callers >= manyCallers {
		c.SleepToRead()
	}
	c.machine = http2.New(http2.Config{Kind: kind, MinReference: c.MinReference()})
	c.Attach(fed{c.machine, c}, c)
	c.Start(running)
	return c
}

// Feed implements batchio.Machine.
func (f fed) Feed(now time.Duration, buf []byte, maxFrames int) (int, error) {
	used, err := f.Machine.Feed(now, buf, maxFrames)
	f.conn.ended = f.TakeEnded(f.conn.ended)
	return used, err
}

// StartCalls implements batchio.Role: the reader wakes callers without the lock, for which
// they would wait.
func (c *h2Conn) StartCalls() {
	for i, s := range c.ended {
		c.ended[i] = nil
		s.Done <- struct{}{}
	}
	c.ended = c.ended[:0]
}

// wake wakes the callers of streams that ended otherwise. The lock is held.
func (c *h2Conn) wake() {
	for _, s := range c.machine.TakeEnded(nil) {
		s.Done <- struct{}{}
	}
}

// StreamsChanged implements batchio.Role.
func (c *h2Conn) StreamsChanged() {
	if !c.isSettled && c.machine.Settled() {
		c.settle()
	}
	if !c.machine.Closing() {
		return
	}
	c.gone.Store(true)
	if c.machine.Idle() {
		c.CloseLocked(errDrained)
	}
}

func (c *h2Conn) settle() {
	c.isSettled = true
	close(c.settled)
}

// errDrained ends a connection that the server wants to end and that carries no call.
var errDrained = errors.New("the server ends the connection")

// ConnLost implements batchio.Role.
func (c *h2Conn) ConnLost(err error) {
	c.gone.Store(true)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("the server closed the connection: %w", io.ErrUnexpectedEOF)
	}
	c.machine.Lose(err)
	if !c.isSettled {
		c.settle()
	}
	c.wake()
}

// OnClosed implements batchio.Role.
func (c *h2Conn) OnClosed() {}

// call carries a call whose stream has what the watch must know. http2.ErrNotSent means
// that another connection may carry it.
func (c *h2Conn) call(s *http2.Stream, r *http2.Request) error {
	c.Mu.Lock()
	err := c.machine.Start(s, r)
	if err == nil {
		c.FlushBatch()
	} else {
		c.wake() // those that waited to be sent
	}
	c.Mu.Unlock()
	if err != nil {
		return err
	}
	<-s.Done
	return s.Err
}

// look ends the calls that are late or cancelled.
func (c *h2Conn) look(w *watch, now int64) {
	c.Mu.Lock()
	defer c.Mu.Unlock()
	c.machine.Each(func(s *http2.Stream) {
		switch {
		case w.isLate(s.Began, now):
			c.machine.Cancel(s, w.err(s.Context, late))
		case s.Context.Err() != nil:
			c.machine.Cancel(s, w.err(s.Context, cancelled))
		}
	})
	c.wake()
	c.StreamsChanged()
	c.Flush()
}

// lostBefore is why a connection ended that had not settled, or nil.
func (c *h2Conn) lostBefore(ctx context.Context) error {
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
