package prepared

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/service"
)

// errClosed is the error of calls after Close.
var errClosed = errors.New("the client is closed")

// dialer opens the connections of a client, until that is closed.
type dialer struct {
	service.Plan
	opener conn.Opener
	watch  *watch

	life    context.Context // ends with Close
	endLife context.CancelFunc
	told    sync.Once
}

func newDialer(plan service.Plan) (*dialer, error) {
	d := &dialer{Plan: plan, watch: newWatch(plan.Timeout), opener: conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address}}
	if plan.Wire != service.HTTP1 { // a server without ALPN chooses no protocol, and speaks HTTP/1.1
		d.opener.Protocol = "h2"
	}
	var err error
	if d.opener.TLS, err = plan.TLSConfig(); err != nil {
		return nil, err
	}
	if d.opener.TLS == nil {
		d.opener.Wrap = func(raw net.Conn) net.Conn { return plainSocket{raw} }
	}
	d.life, d.endLife = context.WithCancel(context.Background())
	return d, nil
}

// places returns the number of places for connections.
func (d *dialer) places() int { return max(d.Connections, 1) }

// dial opens a connection, within a call's timeout.
func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := d.within(ctx)
	defer cancel()
	nc, err := d.opener.Open(ctx)
	return nc, d.ifClosed(err)
}

// within returns a context that ends with a call's timeout or the client's life.
func (d *dialer) within(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := d.Timeout
	if limit <= 0 {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(d.life, cancel)
	return ctx, func() { stop(); cancel() }
}

// ifClosed returns errClosed in place of the error if the client was closed.
func (d *dialer) ifClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errClosed
	}
	return err
}

// answered reports the protocol of the first answer.
func (d *dialer) answered(protocol string) {
	d.told.Do(func() { d.Dialer.UsedProtocol(protocol) })
}

// A plainSocket is a socket of the plan's dialer, which may count bytes but does not change
// them.
type plainSocket struct{ net.Conn }

func (s plainSocket) Socket() net.Conn { return s.Conn }

// A watch ends calls that exceed the timeout, or whose context has ended, without a timer per
// call. It looks at all calls at each tick, so that they end up to two ticks late, never early.
type watch struct {
	timeout time.Duration // 0 if there is none
	every   time.Duration
	limit   int64 // ticks that a call may take
	now     atomic.Int64

	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// A tick is a 64th of the timeout within these limits. maxTick also bounds the delay until
// the end of a context is seen.
const (
	ticksInTimeout = 64
	minTick        = time.Millisecond
	maxTick        = 50 * time.Millisecond
)

func newWatch(timeout time.Duration) *watch {
	w := &watch{timeout: timeout, every: maxTick, stop: make(chan struct{})}
	if timeout > 0 {
		w.every = min(max(timeout/ticksInTimeout, minTick), maxTick)
		w.limit = int64((timeout+w.every-1)/w.every) + 1 // a call begins within a tick
	}
	w.now.Store(1)
	return w
}

// start calls look at each tick until close is called.
func (w *watch) start(look func(now int64)) {
	w.done.Go(func() {
		ticker := time.NewTicker(w.every)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				look(w.now.Add(1))
			case <-w.stop:
				return
			}
		}
	})
}

// close ends the goroutine and waits for it.
func (w *watch) close() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

// judge returns whether a call that began at a tick is late or cancelled, or else idle.
func (w *watch) judge(ctx context.Context, began, now int64) verdict {
	switch {
	case w.limit > 0 && now-began > w.limit:
		return late
	case ctx.Err() != nil:
		return cancelled
	}
	return idle
}

// A verdict is the reason why the watch ended a call.
type verdict uint64

// The verdicts, which are smaller than any stamp.
const (
	idle verdict = iota
	late
	cancelled
	shut // the client was closed
	verdicts
)

// err returns the error of a call that ended with a verdict.
func (w *watch) err(ctx context.Context, v verdict) error {
	switch v {
	case idle:
		return nil
	case cancelled:
		return fmt.Errorf("the call was ended: %w", context.Cause(ctx))
	case shut:
		return errClosed
	}
	return failure.As(failure.Deadline, fmt.Errorf("no whole answer within %v: %w", w.timeout, context.DeadlineExceeded))
}
