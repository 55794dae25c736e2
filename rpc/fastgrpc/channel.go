package fastgrpc

import (
	"context"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// A channel holds a client's connections. Its resolver finds addresses. Its balancer makes
// subConns of them and publishes a picker, which chooses a subConn for each call. Resolver,
// balancer and picker are grpc-go's or the program's, and run unchanged.
//
// A lock is taken only after the locks before it in this list: a balancer's own, channel.set.Mu, a
// connection's, subConn.mu, a serializer's. Balancers and resolvers are called without any of
// them, on the serializers.
type channel struct {
	client  *Client
	target  resolver.Target
	builder resolver.Builder
	proxy   func(addr string) *url.URL // nil: connect directly

	// The lock of connSet guards these.
	connSet[*clientConn]
	session   *session // nil in idle mode
	subConns  map[*subConn]struct{}
	config    *config.Config // the last one applied
	idleTimer *time.Timer

	toResolver, toBalancer connect.Serializer

	waiting    atomic.Int32 // calls that have no stream yet
	lastActive atomic.Int64 // the end of the last wait, in nanoseconds since epoch
}

// A picking holds the part of the channel's state that calls need. A change makes a new picking,
// and closes the old one's channel changed.
type picking struct {
	state      connectivity.State
	picker     balancer.Picker // nil before there is one
	generation int             // the picker's number
	config     *config.Config  // nil before the first resolution
	throttle   *config.Throttle
	changed    chan struct{}
}

func (ch *channel) init(c *Client) error {
	ch.client = c
	ch.subConns = make(map[*subConn]struct{})
	c.pick.Store(&picking{changed: make(chan struct{}), state: connectivity.Idle})
	var err error
	if ch.target, ch.builder, err = connect.ParseTarget(c.target, c.opts.resolvers); err != nil {
		return err
	}
	certified := c.opts.creds.Info().ServerName //nolint:staticcheck // deprecated, but grpc-go still takes the authority from it
	c.authority, err = connect.AuthorityOf(ch.target, ch.builder, c.opts.authority, certified)
	return err
}

// publish replaces the picking, with the lock held.
func (ch *channel) publish(change func(*picking)) {
	old := ch.client.pick.Load()
	next := *old
	next.changed = make(chan struct{})
	change(&next)
	ch.client.pick.Store(&next)
	close(old.changed)
}

// wait returns when another picking is published, or returns the status of an ended ctx.
func (p *picking) wait(ctx context.Context) error {
	select {
	case <-p.changed:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (p *picking) setPicker(state connectivity.State, picker balancer.Picker) {
	p.state, p.picker = state, picker
	p.generation++
}

// exitIdle starts the resolver, unless it runs already.
func (ch *channel) exitIdle() {
	ch.set.Mu.Lock()
	if ch.set.Closed || ch.session != nil {
		ch.set.Mu.Unlock()
		return
	}
	s := &session{ch: ch}
	ch.session = s
	ch.publish(func(p *picking) { p.state = connectivity.Connecting })
	ch.lastActive.Store(int64(time.Since(batchio.Epoch)))
	if timeout := ch.client.opts.idleTimeout; timeout != lifetime.Forever {
		ch.idleTimer = time.AfterFunc(timeout, func() { ch.checkIdle(s) })
	}
	ch.set.Mu.Unlock()
	built := make(chan struct{})
	ch.toResolver.Do(func() {
		defer close(built)
		if err := s.startResolver(); err != nil {
			s.ReportError(err)
		}
	})
	<-built
}

// checkIdle enters idle mode if there was no call for the idle timeout: it closes the resolver,
// the balancer and the connections until the next call. Calls count nothing for this: connections
// know the time of their last call.
func (ch *channel) checkIdle(s *session) {
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	if ch.session != s {
		return
	}
	timeout := ch.client.opts.idleTimeout
	since := time.Duration(ch.lastActive.Load())
	busy := ch.waiting.Load() > 0
	for cc := range ch.set.Open {
		cc.Mu.Lock()
		busy = busy || cc.h2.OpenStreams() > 0
		since = max(since, cc.clock.IdleSince)
		cc.Mu.Unlock()
	}
	switch idle := time.Since(batchio.Epoch) - since; {
	case busy:
		ch.idleTimer.Reset(timeout)
	case idle < timeout:
		ch.idleTimer.Reset(timeout - idle)
	default:
		ch.endSession()
		ch.publish(func(p *picking) {
			p.setPicker(connectivity.Idle, nil)
			p.config = nil
		})
	}
}

// endSession closes the resolver and the balancer with its subConns, with the lock held.
func (ch *channel) endSession() {
	s := ch.session
	if s == nil {
		return
	}
	ch.session = nil
	if ch.idleTimer != nil {
		ch.idleTimer.Stop()
	}
	ch.toResolver.Do(s.closeResolver)
	policies := []*policy{s.current, s.pending}
	s.current, s.pending = nil, nil
	ch.toBalancer.Do(func() {
		for _, p := range policies {
			p.close()
		}
	})
}

func (ch *channel) close() error {
	ch.set.Mu.Lock()
	if ch.set.Closed {
		ch.set.Mu.Unlock()
		return ErrClientClosed
	}
	ch.set.Closed = true
	ch.endSession()
	ch.publish(func(p *picking) {
		p.setPicker(connectivity.Shutdown, base.NewErrPicker(errClosedStatus))
		p.config = new(config.Config)
	})
	conns := ch.set.All()
	ch.set.Mu.Unlock()
	for _, cc := range conns {
		cc.shutdown()
	}
	ch.toResolver.Wait()
	ch.toBalancer.Wait()
	ch.set.Running.Wait() // for connections; a dial in progress ends when its dialer returns
	return nil
}

// A picked is a connection for a call, with the balancer's instructions.
type picked struct {
	conn     *clientConn
	done     func(balancer.DoneInfo) // the picker's callback, or nil
	metadata metadata.MD
	blocked  bool // the call had to wait for a picker
	drop     bool // the balancer ended the call, which must not be repeated
}

// pickConn returns a connection for a call. It waits while the client is connecting. With
// WaitForReady it also waits after failures.
func (c *Client) pickConn(ctx context.Context, method string, info *callInfo) (picked, error) {
	if cc := info.on; cc != nil {
		select {
		case <-cc.draining:
			return picked{drop: true}, errSubConnNotReady
		default:
			return picked{conn: cc}, nil
		}
	}
	w := pickWait{seen: -1}
	p := c.pick.Load()
	if got, err := w.try(ctx, p, method, info); got.conn != nil || err != nil {
		return got, err
	}
	c.channel.beginWait()
	defer c.channel.endWait()
	for {
		if p.state == connectivity.Idle {
			c.channel.exitIdle()
		}
		if err := p.wait(ctx); err != nil {
			if w.last != nil {
				return picked{}, status.Errorf(status.Code(err), "fastgrpc: latest balancer error: %v", w.last)
			}
			return picked{}, status.Errorf(status.Code(err), "fastgrpc: %v while waiting for connections to become ready", ctx.Err())
		}
		p = c.pick.Load()
		if got, err := w.try(ctx, p, method, info); got.conn != nil || err != nil {
			got.blocked = true
			return got, err
		}
	}
}

// A pickWait is the state of a call that waits for a connection.
type pickWait struct {
	seen int   // the generation of the picker that was asked last
	last error // the picker's error, for a call with WaitForReady
}

// try asks the picker. It returns neither a connection nor an error if the call must
// wait for the next picker.
func (w *pickWait) try(ctx context.Context, p *picking, method string, info *callInfo) (picked, error) {
	if p.picker == nil || p.generation == w.seen {
		return picked{}, nil
	}
	w.seen = p.generation
	r, err := p.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx})
	switch {
	case err == nil:
		return readyConn(&r), nil
	case errors.Is(err, balancer.ErrNoSubConnAvailable):
		return picked{}, nil
	}
	st, drop := status.FromError(err)
	switch {
	case !drop && info.WaitForReady:
		w.last = err
		return picked{}, nil
	case !drop:
		return picked{}, rpccall.WithCause(status.New(codes.Unavailable, err.Error()), err)
	case rpccall.IsRestricted(st.Code()):
		err = status.Errorf(codes.Internal, "fastgrpc: the picker returned a status that only servers may return: %v", err)
	}
	return picked{drop: true}, err
}

// readyConn returns the picked subConn's connection. If the subConn is not ready, another picker
// follows soon.
func readyConn(r *balancer.PickResult) picked {
	if sc, ok := r.SubConn.(*subConn); ok {
		if cc := sc.ready.Load(); cc != nil {
			return picked{conn: cc, done: r.Done, metadata: r.Metadata}
		}
	}
	if r.Done != nil {
		r.Done(balancer.DoneInfo{})
	}
	return picked{}
}

// beginWait keeps the channel from idle mode while a call has no stream.
func (ch *channel) beginWait() { ch.waiting.Add(1) }

func (ch *channel) endWait() {
	ch.lastActive.Store(int64(time.Since(batchio.Epoch)))
	ch.waiting.Add(-1)
}

// waitForConfig waits until the target is resolved. waited says whether it had to wait.
func (c *Client) waitForConfig(ctx context.Context) (_ *picking, waited bool, err error) {
	c.channel.beginWait()
	defer c.channel.endWait()
	for ; ; waited = true {
		c.channel.exitIdle() // some resolvers answer at once
		p := c.pick.Load()
		if p.config != nil {
			return p, waited, nil
		}
		if err := p.wait(ctx); err != nil {
			return nil, true, err
		}
	}
}

// Conns returns the client's open connections, in no particular order.
func (c *Client) Conns() []ConnInfo { return c.channel.Conns() }

// Counters returns the sums over all connections, open and closed.
func (c *Client) Counters() Counters { return c.channel.Counters() }

// State returns the client's connectivity, as grpc-go defines it.
func (c *Client) State() connectivity.State { return c.pick.Load().state }

// Connect makes an idle client connect before its first call.
func (c *Client) Connect() {
	c.channel.exitIdle()
	c.channel.toBalancer.Do(func() {
		c.channel.set.Mu.Lock()
		s := c.channel.session
		c.channel.set.Mu.Unlock()
		if s == nil {
			return
		}
		if p := s.latest(); p != nil {
			p.balancer.ExitIdle()
		}
	})
}

// ResetConnectBackoff makes connections that wait for their next attempt try at once.
func (c *Client) ResetConnectBackoff() {
	c.channel.set.Mu.Lock()
	defer c.channel.set.Mu.Unlock()
	for sc := range c.channel.subConns {
		sc.resetBackoff()
	}
}

// WaitReady connects and returns when the client can send a call at once. Unlike a call with
// WaitForReady, it returns the first failure.
func (c *Client) WaitReady(ctx context.Context) error {
	for {
		p := c.pick.Load()
		switch p.state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			c.Connect()
		case connectivity.TransientFailure, connectivity.Shutdown:
			w := pickWait{seen: -1}
			if _, err := w.try(ctx, p, "", &callInfo{}); err != nil {
				return err
			}
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// WaitForStateChange returns true when the state differs from last, or false if ctx ends first.
func (c *Client) WaitForStateChange(ctx context.Context, last connectivity.State) bool {
	for p := c.pick.Load(); p.state == last; p = c.pick.Load() {
		if p.wait(ctx) != nil {
			return false
		}
	}
	return true
}
