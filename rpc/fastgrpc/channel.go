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
)

// A channel holds a client's connections. Its resolver finds addresses. Its balancer makes a
// subConn for each address and publishes a picker, which chooses a subConn for each call. grpc-go
// or the program provides resolver, balancer and picker.
//
// Goroutines take locks only in this order: a balancer's own lock, channel.set.Mu, a connection's
// lock, subConn.mu, a serializer's lock. The serializers call balancers and resolvers without
// holding any of these locks.
type channel struct {
	client  *Client
	target  resolver.Target
	builder resolver.Builder
	proxy   func(addr string) *url.URL // returns an address's proxy; nil if the client uses none

	// connSet.set.Mu guards these fields.
	connSet[*clientConn]
	session   *session // nil while the client is idle
	subConns  map[*subConn]struct{}
	config    *config.Config // the config that was last applied
	idleTimer *time.Timer

	toResolver, toBalancer connect.Serializer

	waiting    atomic.Int32 // calls that have no stream yet
	lastActive atomic.Int64 // when a call last stopped waiting, in nanoseconds since batchio.Epoch
}

// A pickerState holds the part of the channel's state that calls need. It is never modified. When a
// new pickerState replaces it, its Go channel named changed is closed.
type pickerState struct {
	state      connectivity.State
	picker     balancer.Picker // nil until a balancer publishes one
	generation int             // the number of pickers that were published before
	config     *config.Config  // nil before the first resolution
	throttle   *config.Throttle
	changed    chan struct{}
}

func (ch *channel) init(c *Client) error {
	ch.client = c
	ch.subConns = make(map[*subConn]struct{})
	c.pickerState.Store(&pickerState{changed: make(chan struct{}), state: connectivity.Idle})
	var err error
	if ch.target, ch.builder, err = connect.ParseTarget(c.target, c.opts.resolvers); err != nil {
		return err
	}
	certified := c.opts.creds.Info().ServerName //nolint:staticcheck // deprecated, but grpc-go still gets the authority from it
	c.authority, err = connect.ChooseAuthority(ch.target, ch.builder, c.opts.authority, certified)
	return err
}

// publishPickerState replaces the pickerState with a changed copy. The lock is held.
func (ch *channel) publishPickerState(change func(*pickerState)) {
	old := ch.client.pickerState.Load()
	next := *old
	next.changed = make(chan struct{})
	change(&next)
	ch.client.pickerState.Store(&next)
	close(old.changed)
	if next.state != old.state {
		ch.client.facade.Load().Publish()
	}
}

// wait waits until another pickerState replaces p. It returns a status error if ctx ends first.
func (p *pickerState) wait(ctx context.Context) error {
	select {
	case <-p.changed:
		return nil
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}

func (p *pickerState) setPicker(state connectivity.State, picker balancer.Picker) {
	p.state, p.picker = state, picker
	p.generation++
}

// exitIdle starts the resolver if it is not running.
func (ch *channel) exitIdle() {
	ch.set.Mu.Lock()
	if ch.set.Closed || ch.session != nil {
		ch.set.Mu.Unlock()
		return
	}
	s := &session{ch: ch}
	ch.session = s
	ch.publishPickerState(func(p *pickerState) { p.state = connectivity.Connecting })
	ch.lastActive.Store(int64(time.Since(batchio.Epoch)))
	ch.idleTimer = time.AfterFunc(ch.client.opts.idleTimeout, func() { ch.checkIdle(s) })
	ch.set.Mu.Unlock()
	ch.toResolver.Do(func() {
		if err := s.startResolver(); err != nil {
			s.ReportError(err)
		}
	})
	ch.toResolver.Wait()
}

// checkIdle makes the client idle if it has had no call for the idle timeout: it closes the
// resolver, the balancer and the connections until the next call. It reads the time of the last
// call from the connections, so that calls need no shared counter.
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
		ch.publishPickerState(func(p *pickerState) {
			p.setPicker(connectivity.Idle, nil)
			p.config = nil
		})
	}
}

// endSession closes the resolver, and the balancers with their subConns. The lock is held.
func (ch *channel) endSession() {
	s := ch.session
	if s == nil {
		return
	}
	ch.session = nil
	ch.idleTimer.Stop()
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
	ch.publishPickerState(func(p *pickerState) {
		p.setPicker(connectivity.Shutdown, base.NewErrPicker(errClientClosedStatus))
		p.config = new(config.Config)
	})
	conns := ch.set.All()
	ch.set.Mu.Unlock()
	for _, cc := range conns {
		cc.shutdown()
	}
	ch.toResolver.Wait()
	ch.toBalancer.Wait()
	ch.set.Running.Wait() // does not wait for dialers that still run
	return nil
}

// A pickedConn is the connection that a picker chose for a call, with the picker's instructions.
type pickedConn struct {
	conn     *clientConn
	done     func(balancer.DoneInfo) // the picker's callback, or nil
	metadata metadata.MD
	blocked  bool // the call had to wait for a picker
	drop     bool // the balancer ended the call, and no attempt may follow
}

// pickConn returns a connection for a call. It waits while the client is connecting. A call with
// WaitForReady also waits after a failed connection attempt.
func (c *Client) pickConn(ctx context.Context, method string, info *callInfo) (pickedConn, error) {
	if cc := info.on; cc != nil {
		select {
		case <-cc.draining:
			return pickedConn{drop: true}, errSubConnNotReady
		default:
			return pickedConn{conn: cc}, nil
		}
	}
	w := pendingPick{seen: -1}
	p := c.pickerState.Load()
	if got, err := w.askPicker(ctx, p, method, info); got.conn != nil || err != nil {
		return got, err
	}
	c.channel.addWaitingCall()
	defer c.channel.removeWaitingCall()
	for {
		if p.state == connectivity.Idle {
			c.channel.exitIdle()
		}
		if err := p.wait(ctx); err != nil {
			if w.last != nil {
				return pickedConn{}, status.Errorf(status.Code(err), "fastgrpc: the context ended while the call waited for a connection; the last error of the balancer: %v", w.last)
			}
			return pickedConn{}, status.Errorf(status.Code(err), "fastgrpc: the context ended while the call waited for a connection: %v", ctx.Err())
		}
		p = c.pickerState.Load()
		if got, err := w.askPicker(ctx, p, method, info); got.conn != nil || err != nil {
			got.blocked = true
			return got, err
		}
	}
}

// A pendingPick holds the state of a call that needs a connection.
type pendingPick struct {
	seen int   // the generation of the picker that askPicker called last
	last error // the last picker's error, if the call has WaitForReady
}

// askPicker calls the picker. It returns neither a connection nor an error if the call must wait
// for the next picker.
func (w *pendingPick) askPicker(ctx context.Context, p *pickerState, method string, info *callInfo) (pickedConn, error) {
	if p.picker == nil || p.generation == w.seen {
		return pickedConn{}, nil
	}
	w.seen = p.generation
	r, err := p.picker.Pick(balancer.PickInfo{FullMethodName: method, Ctx: ctx})
	switch {
	case err == nil:
		return readyConn(&r), nil
	case errors.Is(err, balancer.ErrNoSubConnAvailable):
		return pickedConn{}, nil
	}
	st, drop := status.FromError(err)
	switch {
	case !drop && info.WaitForReady:
		w.last = err
		return pickedConn{}, nil
	case !drop:
		return pickedConn{}, rpccall.WithCause(status.New(codes.Unavailable, err.Error()), err)
	case rpccall.IsRestricted(st.Code()):
		err = status.Errorf(codes.Internal, "fastgrpc: the balancer's picker returned a status code that only servers may return: %v", err)
	}
	return pickedConn{drop: true}, err
}

// readyConn returns the connection of the picker's subConn. It returns no connection if the subConn
// is not ready: the balancer then publishes another picker soon.
func readyConn(r *balancer.PickResult) pickedConn {
	if sc, ok := r.SubConn.(*subConn); ok {
		if cc := sc.ready.Load(); cc != nil {
			return pickedConn{conn: cc, done: r.Done, metadata: r.Metadata}
		}
	}
	if r.Done != nil {
		r.Done(balancer.DoneInfo{})
	}
	return pickedConn{}
}

// addWaitingCall prevents the channel from becoming idle while a call has no stream.
func (ch *channel) addWaitingCall() { ch.waiting.Add(1) }

func (ch *channel) removeWaitingCall() {
	ch.lastActive.Store(int64(time.Since(batchio.Epoch)))
	ch.waiting.Add(-1)
}

// waitForConfig waits until the resolver has returned a service config. waited is false if the
// config was there at once.
func (c *Client) waitForConfig(ctx context.Context) (_ *pickerState, waited bool, err error) {
	c.channel.addWaitingCall()
	defer c.channel.removeWaitingCall()
	for ; ; waited = true {
		c.channel.exitIdle() // some resolvers return a result at once
		p := c.pickerState.Load()
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

// Counters returns the sums of the counters of all connections, open and closed.
func (c *Client) Counters() Counters { return c.channel.Counters() }

// GetState returns the client's connectivity state, as defined by grpc-go.
func (c *Client) GetState() connectivity.State { return c.pickerState.Load().state }

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
		if p := s.latestPolicy(); p != nil {
			p.balancer.ExitIdle()
		}
	})
}

// ResetConnectBackoff ends all pauses between connection attempts.
func (c *Client) ResetConnectBackoff() {
	c.channel.set.Mu.Lock()
	defer c.channel.set.Mu.Unlock()
	for sc := range c.channel.subConns {
		sc.resetBackoff()
	}
}

// WaitReady connects, and returns nil when the client is ready to send a call. Unlike a call with
// WaitForReady, it returns the error of the first failed connection attempt.
func (c *Client) WaitReady(ctx context.Context) error {
	for {
		p := c.pickerState.Load()
		switch p.state {
		case connectivity.Ready:
			return nil
		case connectivity.Idle:
			c.Connect()
		case connectivity.TransientFailure, connectivity.Shutdown:
			w := pendingPick{seen: -1}
			if _, err := w.askPicker(ctx, p, "", &callInfo{}); err != nil {
				return err
			}
		}
		if err := p.wait(ctx); err != nil {
			return err
		}
	}
}

// WaitForStateChange waits until the state differs from last. It returns false if ctx ends first.
func (c *Client) WaitForStateChange(ctx context.Context, last connectivity.State) bool {
	for p := c.pickerState.Load(); p.state == last; p = c.pickerState.Load() {
		if p.wait(ctx) != nil {
			return false
		}
	}
	return true
}
