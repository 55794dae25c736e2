package prepared

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"math"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
)

var errClosed = errors.New("the client is closed")

// dialer opens a client's connections until the client is closed.
type dialer struct {
	service.Plan
	opener conn.Opener
	watch  *watch
	// repeated is the TLS configuration of later connections, if each call opens its own. It stays
	// nil once varies is true: then the server's machines agree on different parameters.
	repeated atomic.Pointer[tls.Config]
	varies   atomic.Bool

	life    context.Context // ends when Close is called
	endLife context.CancelFunc
	told    sync.Once
}

func newDialer(plan service.Plan) (*dialer, error) {
	d := &dialer{Plan: plan, watch: newWatch(plan.Timeout), opener: conn.Opener{Dialer: plan.Dialer, Network: plan.Network, Address: plan.Address}}
	if plan.Wire != service.HTTP1 { // a server without ALPN chooses no protocol and speaks HTTP/1.1
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

// slotCount returns the number of slots: see the package comment.
func (d *dialer) slotCount() int {
	if d.Lifecycle != conn.Kept {
		return max(d.Callers, 1)
	}
	return max(d.Connections, 1) + d.Spare
}

// OwnConnections reports whether each caller has a connection of its own. A caller keeps its slot.
func (d *dialer) OwnConnections() bool {
	return d.Lifecycle == conn.Kept && d.Connections+d.Spare >= d.Callers
}

func (d *dialer) dial(ctx context.Context) (net.Conn, error) {
	ctx, cancel := d.callContext(ctx)
	defer cancel()
	nc, err := d.openOnce(ctx, d.repeated.Load())
	return nc, d.orErrClosed(err)
}

// openOnce opens a connection. repeated is the TLS configuration that an earlier connection led to,
// or nil. If the handshake fails with it, a machine behind the address may be set up differently,
// and another connection offers all that the plan allows.
func (d *dialer) openOnce(ctx context.Context, repeated *tls.Config) (net.Conn, error) {
	if repeated == nil {
		nc, err := d.opener.Open(ctx)
		if opened, is := nc.(*tls.Conn); is && d.Lifecycle != conn.Kept && !d.varies.Load() {
			d.repeated.Store(secure.Repeat(d.opener.TLS, opened.ConnectionState()))
		}
		return nc, err
	}
	opener := d.opener
	opener.TLS = repeated
	nc, err := opener.Open(ctx)
	if failed := (*net.OpError)(nil); err == nil || ctx.Err() != nil || errors.As(err, &failed) && failed.Op == "dial" {
		return nc, err
	}
	d.varies.Store(true)
	d.repeated.Store(nil)
	return d.opener.Open(ctx)
}

// callContext returns a context that ends after the call timeout, or when the client closes.
func (d *dialer) callContext(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := d.Timeout
	if limit <= 0 {
		limit = math.MaxInt64
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	stop := context.AfterFunc(d.life, cancel)
	return ctx, func() { stop(); cancel() }
}

func (d *dialer) orErrClosed(err error) error {
	if err != nil && d.life.Err() != nil {
		return errClosed
	}
	return err
}

func (d *dialer) reportProtocol(protocol string) {
	d.told.Do(func() { d.Dialer.UsedProtocol(protocol) })
}

// A plainSocket is a plain TCP or unix socket from the plan's dialer. The dialer may count its
// bytes, but does not change them.
type plainSocket struct{ net.Conn }

func (s plainSocket) Socket() net.Conn { return s.Conn }

// NetConn returns the connection of the plan's dialer.
func (s plainSocket) NetConn() net.Conn { return s.Conn }

// A watch ends calls that exceed the timeout or whose context has ended. It needs no timer per
// call, because it checks all calls at each tick. So calls end up to two ticks late, never early.
type watch struct {
	timeout time.Duration // 0 means no timeout
	every   time.Duration
	limit   int64 // the most ticks that a call may take
	now     atomic.Int64

	stop chan struct{}
	once sync.Once
	done sync.WaitGroup
}

// A tick is a 64th of the timeout, between minTick and maxTick. maxTick also limits how late the
// watch notices the end of a context.
const (
	ticksInTimeout = 64
	minTick        = time.Millisecond
	maxTick        = 50 * time.Millisecond
)

func newWatch(timeout time.Duration) *watch {
	w := &watch{timeout: timeout, every: maxTick, stop: make(chan struct{})}
	if timeout > 0 {
		w.every = min(max(timeout/ticksInTimeout, minTick), maxTick)
		w.limit = int64((timeout+w.every-1)/w.every) + 1 // add one: a call begins in the middle of a tick
	}
	w.now.Store(1)
	return w
}

// start calls the function look at each tick, until close is called.
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

func (w *watch) close() {
	w.once.Do(func() { close(w.stop) })
	w.done.Wait()
}

// judge returns the verdict on a call that began at the tick began. The verdict idle means that the
// call may continue.
func (w *watch) judge(ctx context.Context, began, now int64) verdict {
	switch {
	case w.limit > 0 && now-began > w.limit:
		return late
	case ctx.Err() != nil:
		return cancelled
	}
	return idle
}

type verdict uint64

// Every verdict is a smaller number than every stamp of a call.
const (
	idle verdict = iota
	late
	cancelled
	clientClosed // the client was closed
	verdictCount
)

func (w *watch) err(ctx context.Context, v verdict) error {
	switch v {
	case idle:
		return nil
	case cancelled:
		return fmt.Errorf("the call was cancelled: %w", context.Cause(ctx))
	case clientClosed:
		return errClosed
	}
	return failure.WithClass(failure.Deadline, fmt.Errorf("no complete answer within %v: %w", w.timeout, context.DeadlineExceeded))
}
