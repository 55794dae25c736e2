package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
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

// endpoint is a server, or for pick-first the whole list of addresses to try, and
// at most one connection that takes new calls.
type endpoint struct {
	pool  *pool
	addrs []resolver.Address
	key   string
	want  chan struct{} // a call asks for a connection
	stop  context.CancelFunc
	ctx   context.Context

	// Guarded by pool.mu.
	state connectivity.State
	conn  *clientConn
	err   error
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

// parseTarget reads a target as grpc.NewClient does: without a known scheme it is
// a name for DNS.
func parseTarget(s string) (resolver.Target, string, error) {
	if u, err := url.Parse(s); err == nil {
		switch u.Scheme {
		case "unix", "unix-abstract":
			return unixTarget(u)
		case "xds", "google-c2p", "grpclb":
			return resolver.Target{}, "", fmt.Errorf("fastgrpc: target %q: scheme %s: %w", s, u.Scheme, ErrUnsupported)
		}
		if resolver.Get(u.Scheme) != nil {
			return resolver.Target{URL: *u}, "tcp", nil
		}
	}
	u, err := url.Parse("dns:///" + s)
	if err != nil {
		return resolver.Target{}, "", fmt.Errorf("fastgrpc: target %q: %w", s, err)
	}
	return resolver.Target{URL: *u}, "tcp", nil
}

func unixTarget(u *url.URL) (resolver.Target, string, error) {
	path := u.Path
	if path == "" {
		path = u.Opaque
	}
	if path == "" || u.Host != "" {
		return resolver.Target{}, "", fmt.Errorf("fastgrpc: target %q: want unix:path or unix:///absolute/path", u)
	}
	if u.Scheme == "unix-abstract" {
		path = "@" + path
	}
	return resolver.Target{URL: url.URL{Scheme: "unix", Path: "/" + path}}, "unix", nil
}

func authorityOf(o *clientOptions, t resolver.Target) string {
	switch name := o.creds.Info().ServerName; {
	case o.authority != "":
		return o.authority
	case name != "":
		return name
	case t.URL.Scheme == "unix":
		return "localhost"
	case strings.HasPrefix(t.Endpoint(), ":"):
		return "localhost" + t.Endpoint()
	}
	return t.Endpoint()
}

// resolverConn is the pool as a resolver sees it.
type resolverConn pool

var _ resolver.ClientConn = (*resolverConn)(nil)

// UpdateState takes new addresses.
func (r *resolverConn) UpdateState(s resolver.State) error {
	addrs := s.Addresses
	if len(s.Endpoints) > 0 {
		addrs = nil
		for _, e := range s.Endpoints {
			addrs = append(addrs, e.Addresses...)
		}
	}
	if len(addrs) == 0 {
		err := errors.New("fastgrpc: the resolver found no addresses")
		r.ReportError(err)
		return err
	}
	(*pool)(r).update(addrs, (*pool)(r).client.opts.policy)
	return nil
}

// ReportError matters only while there are no addresses.
func (r *resolverConn) ReportError(err error) {
	p := (*pool)(r)
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.resolved {
		p.resolveErr = err
		p.publish()
	}
}

// NewAddress is the old form of UpdateState.
func (r *resolverConn) NewAddress(addrs []resolver.Address) {
	_ = r.UpdateState(resolver.State{Addresses: addrs})
}

// ParseServiceConfig refuses: service configs are left out.
func (r *resolverConn) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{Err: fmt.Errorf("fastgrpc: service config: %w", ErrUnsupported)}
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

func (p *pool) newEndpoint(addrs []resolver.Address, key string) *endpoint {
	e := &endpoint{pool: p, addrs: addrs, key: key, want: make(chan struct{}, 1), state: connectivity.Idle}
	e.ctx, e.stop = context.WithCancel(p.ctx)
	p.running.Add(1)
	go e.run()
	return e
}

// publish makes a picker of the present state, with the lock held.
func (p *pool) publish() {
	next := &picker{changed: make(chan struct{}), state: connectivity.Idle}
	failures := 0
	connecting := false
	for _, e := range p.endpoints {
		switch e.state {
		case connectivity.Ready:
			next.ready = append(next.ready, e.conn)
		case connectivity.TransientFailure:
			failures++
			next.err = e.err
		case connectivity.Connecting:
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
			return nil, status.Errorf(codes.Unavailable, "fastgrpc: no connection: %v", p.err)
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

// set changes the endpoint's state; false means that it is to end.
func (e *endpoint) set(state connectivity.State, cc *clientConn, err error) {
	p := e.pool
	p.mu.Lock()
	defer p.mu.Unlock()
	e.state, e.conn, e.err = state, cc, err
	if !p.closed {
		p.publish()
	}
}

// flapping is the life below which a connection that was lost before any call
// counts as a failed attempt: else a server that accepts and closes at once would
// be connected to without a pause.
const flapping = time.Second

// run connects when a call asks, and again when the connection is lost.
func (e *endpoint) run() {
	defer e.pool.running.Done()
	failures := 0
	for {
		if failures == 0 {
			select {
			case <-e.want:
			case <-e.ctx.Done():
				return
			}
		}
		e.set(connectivity.Connecting, nil, nil)
		cc, err := e.connect()
		if err != nil {
			e.set(connectivity.TransientFailure, nil, err)
			e.pool.resolveNow()
			if !e.pause(failures) {
				return
			}
			failures++
			continue
		}
		began := time.Now()
		e.set(connectivity.Ready, cc, nil)
		if !e.wait(cc) {
			return
		}
		e.set(connectivity.Idle, nil, nil)
		e.pool.resolveNow()
		if time.Since(began) >= flapping || cc.sawCalls() {
			failures = 0
			continue
		}
		if !e.pause(failures) {
			return
		}
		failures++
	}
}

// wait returns when the connection takes no more calls; false means for good.
func (e *endpoint) wait(cc *clientConn) bool {
	select {
	case <-cc.leaving:
		return e.ctx.Err() == nil
	case <-e.ctx.Done():
		cc.mu.Lock()
		cc.leave()
		cc.afterEnd()
		cc.flush()
		cc.mu.Unlock()
		return false
	}
}

func (p *pool) resolveNow() {
	if p.resolver != nil {
		p.resolver.ResolveNow(resolver.ResolveNowOptions{})
	}
}

// pause waits between attempts; false means that the endpoint is to end.
func (e *endpoint) pause(failures int) bool {
	timer := time.NewTimer(backoffFor(&e.pool.client.opts.backoff, failures))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-e.ctx.Done():
		return false
	}
}

// backoffFor is gRPC's connection backoff: exponential, bounded, jittered.
func backoffFor(b *backoff.Config, failures int) time.Duration {
	d, most := float64(b.BaseDelay), float64(b.MaxDelay)
	for ; failures > 0 && d < most; failures-- {
		d *= b.Multiplier
	}
	d = min(d, most)
	d *= 1 + b.Jitter*(2*rand.Float64()-1)
	return time.Duration(max(d, 0))
}

// connect tries the addresses in turn.
func (e *endpoint) connect() (*clientConn, error) {
	var last error
	for _, addr := range e.addrs {
		cc, err := e.dial(addr)
		if err == nil {
			return cc, nil
		}
		if last = err; e.ctx.Err() != nil {
			break
		}
	}
	return nil, last
}

func (e *endpoint) dial(addr resolver.Address) (*clientConn, error) {
	c := e.pool.client
	ctx, cancel := context.WithTimeout(e.ctx, max(c.opts.connectTimeout, time.Second))
	defer cancel()
	nc, err := c.dialSocket(ctx, addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
	}
	authority := c.authority
	if addr.ServerName != "" {
		authority = addr.ServerName
	}
	var auth credentials.AuthInfo
	secured, auth, err := c.opts.creds.ClientHandshake(ctx, authority, nc)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr.Addr, err)
	}
	cc := newClientConn(c, secured, &peer.Peer{Addr: secured.RemoteAddr(), LocalAddr: secured.LocalAddr(), AuthInfo: auth})
	if err := e.pool.adopt(cc); err != nil {
		_ = secured.Close()
		return nil, err
	}
	select {
	case <-cc.settled:
		return cc, nil
	case <-cc.leaving:
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, cc.endError())
	case <-ctx.Done():
		cc.close(errNoPreface)
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, errNoPreface)
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

func (c *Client) dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	if c.opts.dialer != nil {
		return c.opts.dialer(ctx, addr)
	}
	network := "tcp"
	if strings.HasPrefix(c.target, "unix") {
		network = "unix"
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// State is the client's connectivity, in grpc-go's terms.
func (c *Client) State() connectivity.State { return c.pick.Load().state }

// Connect asks for a connection without a call.
func (c *Client) Connect() { c.pool.wake() }

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
