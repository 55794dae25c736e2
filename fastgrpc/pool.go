package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"
)

// pool holds a client's connections. It resolves the target, connects, reconnects with
// backoff, and publishes a picker of the connections that are ready.
type pool struct {
	client   *Client
	resolver resolver.Resolver
	ctx      context.Context
	cancel   context.CancelFunc

	connSet[*clientConn] // its WaitGroup also counts the endpoints
	resolved             bool
	resolveErr           error
	endpoints            []*endpoint
}

// picker is an immutable list of ready connections. changed is closed when another
// picker replaces it.
type picker struct {
	ready   []*clientConn
	next    atomic.Uint32
	state   connectivity.State
	err     error // why none is ready, in TransientFailure
	changed chan struct{}
}

// ErrClientClosed is why calls on a closed client fail.
var ErrClientClosed = errors.New("fastgrpc: the client is closed")

func (p *pool) init(c *Client) error {
	p.client = c
	p.ctx, p.cancel = context.WithCancel(context.Background())
	c.pick.Store(&picker{changed: make(chan struct{}), state: connectivity.Idle})
	target, network, err := parseTarget(c.target)
	if err != nil {
		return err
	}
	c.authority = authorityOf(&c.opts, target)
	if network == "unix" {
		p.update([]resolver.Address{{Addr: target.Endpoint()}}, "")
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

// update replaces the endpoints by those of addrs. It keeps endpoints whose addresses
// have not changed.
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
		key := addressKey(group)
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

func addressKey(group []resolver.Address) string {
	var key strings.Builder
	for _, a := range group {
		key.WriteString(a.Addr + "|" + a.ServerName + "\n")
	}
	return key.String()
}

// publish replaces the picker according to the endpoints' states, with the lock held.
func (p *pool) publish() {
	next := &picker{changed: make(chan struct{}), state: connectivity.Idle}
	failures := 0
	connecting := false
	for _, e := range p.endpoints {
		switch {
		case e.state == connectivity.Ready:
			next.ready = append(next.ready, e.conn)
		case e.err != nil:
			// Also during the next attempt: calls without WaitForReady must not wait
			// for it (gRFC A62).
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
		next.next.Store(rand.Uint32()) // spread clients over the servers
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

// pickConn returns a connection for a call. It waits while the client is connecting,
// and with waitForReady also after failures.
func (c *Client) pickConn(ctx context.Context, waitForReady bool) (*clientConn, error) {
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
		c.pool.connectIdle()
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

// connectIdle makes idle endpoints connect.
func (p *pool) connectIdle() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		wakeOne(e.connectNow)
	}
}

// removeFromPicker removes a draining connection that its endpoint has not noticed yet.
func (p *pool) removeFromPicker(cc *clientConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, e := range p.endpoints {
		if e.conn == cc {
			e.conn, e.state = nil, connectivity.Idle
			p.publish()
		}
	}
}

func (p *pool) close() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClientClosed
	}
	p.closed = true
	p.publish()
	conns := p.open()
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

// Conns returns the client's open connections, in no particular order.
func (c *Client) Conns() []ConnInfo { return c.pool.Conns() }

// Counters returns the sums over all connections, open and closed.
func (c *Client) Counters() Counters { return c.pool.Counters() }

// State returns the client's connectivity, as grpc-go defines it.
func (c *Client) State() connectivity.State { return c.pick.Load().state }

// Connect makes an idle client connect before its first call.
func (c *Client) Connect() { c.pool.connectIdle() }

// WaitReady connects and returns when a call would be sent at once. Unlike a call with
// WaitForReady, it returns the first failure.
func (c *Client) WaitReady(ctx context.Context) error {
	_, err := c.pickConn(ctx, false)
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
