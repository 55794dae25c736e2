package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// pool keeps a client's connections: it resolves the target, connects, reconnects
// after a pause, and publishes a picker of what is ready.
type pool struct {
	client   *Client
	resolver resolver.Resolver
	ctx      context.Context
	cancel   context.CancelFunc
	running  sync.WaitGroup // endpoints and connections

	mu         sync.Mutex
	closed     bool
	resolved   bool
	resolveErr error
	endpoints  []*endpoint
	conns      map[*clientConn]struct{}
	gone       Counters // of connections that are gone
}

// picker is an immutable choice of connections. changed is closed when another
// takes its place.
type picker struct {
	ready   []*clientConn
	next    atomic.Uint32
	state   connectivity.State
	err     error // why there is none, in TransientFailure
	changed chan struct{}
}

// ErrClientClosed is the reason that calls on a closed client fail with.
var ErrClientClosed = errors.New("fastgrpc: the client is closed")

func (p *pool) init(c *Client) error {
	p.client = c
	p.conns = make(map[*clientConn]struct{})
	p.ctx, p.cancel = context.WithCancel(context.Background())
	c.pick.Store(&picker{changed: make(chan struct{}), state: connectivity.Idle})
	target, network, err := parseTarget(c.target)
	if err != nil {
		return err
	}
	c.authority = authorityOf(&c.opts, target)
	if network == "unix" {
		p.update([]resolver.Address{{Addr: target.Endpoint(), Attributes: nil}}, "")
		return nil
	}
	builder := resolver.Get(target.URL.Scheme)
	p.resolver, err = builder.Build(target, (*resolverConn)(p), resolver.BuildOptions{
		DisableServiceConfig: true, DialCreds: c.opts.creds, Dialer: c.opts.dialer, Authority: c.authority,
	})
	if err != nil {
		return fmt.Errorf("fastgrpc: resolver for %q: %w", c.target, err)
	}
	return nil
}

// update makes the endpoints those of addrs, keeping the ones that go on.
func (p *pool) update(addrs []resolver.Address, policy string) {
	groups := [][]resolver.Address{addrs}
	if policy == RoundRobin {
		groups = nil
		for _, a := range addrs {
			groups = append(groups, []resolver.Address{a})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.resolved, p.resolveErr = true, nil
	old := make(map[string]*endpoint, len(p.endpoints))
	for _, e := range p.endpoints {
		old[e.key] = e
	}
	p.endpoints = nil
	for _, group := range groups {
		key := groupKey(group)
		e := old[key]
		if e == nil {
			e = p.newEndpoint(group, key)
		}
		delete(old, key)
		p.endpoints = append(p.endpoints, e)
	}
	for _, e := range old {
		e.stop()
	}
	p.publish()
}

func groupKey(group []resolver.Address) string {
	var key strings.Builder
	for _, a := range group {
		key.WriteString(a.Addr + "|" + a.ServerName + "\n")
	}
	return key.String()
}

// publish makes a picker of the present state, with the lock held.
func (p *pool) publish() {
	next := &picker{changed: make(chan struct{}), state: connectivity.Idle}
	failures := 0
	connecting := false
	for _, e := range p.endpoints {
		switch {
		case e.state == connectivity.Ready:
			next.ready = append(next.ready, e.conn)
		case e.err != nil:
			// Also while it tries again: calls that do not wait must not hang on each
			// attempt (gRFC A62).
			failures++
			next.err = e.err
		case e.state == connectivity.Connecting:
			connecting = true
		}
	}
	switch {
	case p.closed:
		next.state, next.err, next.ready = connectivity.Shutdown, ErrClientClosed, nil
	case len(next.ready) > 0:
		next.state, next.err = connectivity.Ready, nil
		next.next.Store(rand.Uint32()) // clients must not all begin with the same server
	case !p.resolved && p.resolveErr != nil:
		next.state, next.err = connectivity.TransientFailure, p.resolveErr
	case failures > 0 && failures == len(p.endpoints):
		next.state = connectivity.TransientFailure
	default:
		next.err = nil
		if connecting {
			next.state = connectivity.Connecting
		}
	}
	old := p.client.pick.Swap(next)
	close(old.changed)
}

// choose returns a connection for a call, waiting while there may be one soon.
func (c *Client) choose(ctx context.Context, waitForReady bool) (*clientConn, error) {
	for {
		p := c.pick.Load()
		if n := uint32(len(p.ready)); n == 1 {
			return p.ready[0], nil
		} else if n > 1 {
			return p.ready[p.next.Add(1)%n], nil
		}
		if p.state == connectivity.Shutdown {
			return nil, status.Error(codes.Canceled, ErrClientClosed.Error())
		}
		if p.err != nil && !waitForReady {
			return nil, withCause(status.Newf(codes.Unavailable, "fastgrpc: no connection: %v", p.err), p.err)
		}
		c.pool.wake()
		select {
		case <-p.changed:
		case <-ctx.Done():
			err := status.FromContextError(ctx.Err())
			if p.err != nil {
				err = status.Newf(err.Code(), "%s while waiting for a connection: %v", err.Message(), p.err)
			}
			return nil, err.Err()
		}
	}
}

// wake asks endpoints that rest for a connection.
func (p *pool) wake() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		wakeOne(e.want)
	}
}

// exclude takes a leaving connection out of the picker ahead of its endpoint.
func (p *pool) exclude(cc *clientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		if e.conn == cc {
			e.conn, e.state = nil, connectivity.Idle
			p.publish()
		}
	}
}

func (p *pool) forget(cc *clientConn) {
	p.mu.Lock()
	delete(p.conns, cc)
	p.gone.add(cc.snapshot())
	p.mu.Unlock()
}

func (p *pool) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClientClosed
	}
	p.closed = true
	p.publish()
	conns := make([]*clientConn, 0, len(p.conns))
	for cc := range p.conns {
		conns = append(conns, cc)
	}
	p.mu.Unlock()
	p.cancel()
	if p.resolver != nil {
		p.resolver.Close()
	}
	for _, cc := range conns {
		cc.shutdown()
	}
	p.running.Wait()
	return nil
}

func (p *pool) resolveNow() {
	if p.resolver != nil {
		p.resolver.ResolveNow(resolver.ResolveNowOptions{})
	}
}

// adopt starts a connection, unless the client has been closed.
func (p *pool) adopt(cc *clientConn) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return ErrClientClosed
	}
	p.conns[cc] = struct{}{}
	p.running.Add(1)
	cc.start()
	go func() {
		defer p.running.Done()
		cc.transport.wait()
	}()
	return nil
}

// State is the client's connectivity, in grpc-go's terms.
func (c *Client) State() connectivity.State { return c.pick.Load().state }

// Connect asks for a connection without a call.
func (c *Client) Connect() { c.pool.wake() }

// WaitReady connects, and returns when a call would be sent at once. Unlike a call that
// waits for readiness it returns the first failure.
func (c *Client) WaitReady(ctx context.Context) error {
	_, err := c.choose(ctx, false)
	return err
}

// WaitForStateChange returns true when the state is no longer last, false when ctx
// ends first.
func (c *Client) WaitForStateChange(ctx context.Context, last connectivity.State) bool {
	for {
		p := c.pick.Load()
		if p.state != last {
			return true
		}
		select {
		case <-p.changed:
		case <-ctx.Done():
			return false
		}
	}
}
