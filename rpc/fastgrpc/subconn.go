package fastgrpc

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// A subConn implements balancer.SubConn. It has at most one connection for new calls, to the first
// of its addresses that accepts a connection. grpc-go's balancers give each subConn one address.
type subConn struct {
	balancer.SubConn // nil; embedded because the interface has an unexported method
	policy           *policy
	options          balancer.NewSubConnOptions
	ready            atomic.Pointer[clientConn] // conn while the state is Ready, or else nil

	mu           sync.Mutex
	state        connectivity.State
	addrs        []resolver.Address
	conn         *clientConn
	connAddr     resolver.Address
	connCtx      context.Context // ends when conn is detached or closed
	connEnd      context.CancelFunc
	ctx          context.Context // for connection attempts; a change of addresses replaces it
	cancel       context.CancelFunc
	failures     int
	retryNow     chan struct{}      // closed to end the pause before the next attempt
	stopListener context.CancelFunc // stops the registered health listener

	producersMu sync.Mutex
	producers   map[balancer.ProducerBuilder]*producer
}

var (
	_ balancer.SubConn         = (*subConn)(nil)
	_ grpc.ClientConnInterface = (*subConn)(nil) // for producers
	_ connOwner                = (*subConn)(nil)
)

func newSubConn(p *policy, addrs []resolver.Address, o balancer.NewSubConnOptions) *subConn {
	sc := &subConn{policy: p, options: o, addrs: slices.Clone(addrs), retryNow: make(chan struct{}), stopListener: func() {}, producers: map[balancer.ProducerBuilder]*producer{}}
	sc.ctx, sc.cancel = context.WithCancel(context.Background())
	return sc
}

func (sc *subConn) client() *Client { return sc.policy.session.ch.client }

// setState changes the state and reports it to the balancer. The lock is held.
func (sc *subConn) setState(state connectivity.State, err error) {
	if sc.state == state {
		return
	}
	sc.state = state
	if state == connectivity.Ready {
		sc.ready.Store(sc.conn)
	} else {
		sc.ready.Store(nil)
	}
	sc.runOnBalancer(func() {
		sc.closeProducers()
		sc.mu.Lock()
		sc.stopListener()
		sc.mu.Unlock()
		report := balancer.SubConnState{ConnectivityState: state, ConnectionError: err}
		if sc.options.StateListener != nil {
			sc.options.StateListener(report)
		} else {
			sc.policy.balancer.UpdateSubConnState(sc, report) //nolint:staticcheck // deprecated, but some balancers still need it
		}
	})
}

// runOnBalancer queues f on the balancer's serializer. f does not run if the balancer is closed.
func (sc *subConn) runOnBalancer(f func()) {
	p := sc.policy
	ch := p.session.ch
	ch.toBalancer.Do(func() {
		ch.set.Mu.Lock()
		active := p.active()
		ch.set.Mu.Unlock()
		if active {
			f()
		}
	})
}

// Connect starts to connect an idle subConn. It never waits: the balancer may hold its own lock.
func (sc *subConn) Connect() { go sc.connect() }

// connect makes one connection attempt, if the subConn is idle. If the attempt fails, it pauses and
// then becomes idle. The end of sc.ctx also ends the attempt and the pause.
func (sc *subConn) connect() {
	sc.mu.Lock()
	if sc.state != connectivity.Idle {
		sc.mu.Unlock()
		return
	}
	ctx, addrs, o := sc.ctx, sc.addrs, &sc.client().opts
	pause := connect.Backoff(&o.backoff, sc.failures)
	sc.setState(connectivity.Connecting, nil)
	sc.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, max(o.connectTimeout, pause))
	defer cancel()
	cc, addr, err := sc.client().dialFirstReachable(limit, sc, addrs)
	if err == nil {
		sc.adoptConn(ctx, cc, addr)
		return
	}
	sc.policy.session.resolveNow(resolver.ResolveNowOptions{})
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if ctx.Err() != nil {
		return
	}
	sc.setState(connectivity.TransientFailure, err)
	now := sc.retryNow
	sc.mu.Unlock()
	waited := connect.Sleep(ctx, pause, now)
	sc.mu.Lock()
	if ctx.Err() != nil {
		return
	}
	if waited {
		sc.failures++
	}
	sc.setState(connectivity.Idle, err)
}

// adoptConn makes cc the subConn's connection, unless ctx, the attempt's context, has ended.
func (sc *subConn) adoptConn(ctx context.Context, cc *clientConn, addr resolver.Address) {
	sc.mu.Lock()
	if ctx.Err() != nil {
		sc.mu.Unlock()
		cc.closeAfterCalls()
		return
	}
	sc.conn, sc.connAddr, sc.failures = cc, addr, 0
	sc.connCtx, sc.connEnd = context.WithCancel(cc.ctx)
	if !sc.watchHealth(cc) {
		sc.setState(connectivity.Ready, nil)
	}
	sc.mu.Unlock()
	select {
	case <-cc.draining: // onDraining may have run before sc.conn was set
		sc.onDraining(cc)
	default:
	}
}

// onDraining is called when cc stops taking new calls. Some callers hold the lock of cc.
func (sc *subConn) onDraining(cc *clientConn) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.conn == cc {
		sc.detachConn()
		sc.policy.session.resolveNow(resolver.ResolveNowOptions{})
		sc.setState(connectivity.Idle, nil)
	}
}

func (sc *subConn) onClosed(cc *clientConn) { sc.client().channel.remove(cc) }

// onTooManyPings doubles the time between pings of the client's next connections.
func (sc *subConn) onTooManyPings() {
	c := sc.client()
	if t := c.pingTime.Load(); t < int64(lifetime.Forever)/2 {
		c.pingTime.CompareAndSwap(t, 2*t)
	}
}

// detachConn sets sc.conn to nil and returns its old value. The lock is held.
func (sc *subConn) detachConn() *clientConn {
	cc := sc.conn
	if cc != nil {
		sc.conn = nil
		sc.connEnd()
	}
	return cc
}

func (sc *subConn) resetBackoff() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	close(sc.retryNow)
	sc.retryNow, sc.failures = make(chan struct{}), 0
}

// Shutdown accepts no new calls. The calls on the connection may finish.
func (sc *subConn) Shutdown() {
	sc.closeProducers()
	sc.mu.Lock()
	cc := sc.detachConn()
	sc.setState(connectivity.Shutdown, nil)
	sc.cancel()
	sc.mu.Unlock()
	if cc != nil {
		cc.closeAfterCalls()
	}
	ch := sc.policy.session.ch
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	delete(ch.subConns, sc)
}

// UpdateAddresses replaces the addresses. It keeps the connection if its address is still listed.
func (sc *subConn) UpdateAddresses(addrs []resolver.Address) {
	sc.mu.Lock()
	same := func(a, b resolver.Address) bool {
		return a.Addr == b.Addr && a.ServerName == b.ServerName && a.Attributes.Equal(b.Attributes) && a.Metadata == b.Metadata //nolint:staticcheck // deprecated, but grpc-go compares it
	}
	unchanged := slices.EqualFunc(sc.addrs, addrs, same)
	sc.addrs = slices.Clone(addrs)
	stays := sc.state == connectivity.Ready && slices.ContainsFunc(addrs, func(a resolver.Address) bool { return same(a, sc.connAddr) })
	if unchanged || stays || sc.state != connectivity.Ready && sc.state != connectivity.Connecting {
		sc.mu.Unlock()
		return
	}
	sc.cancel()
	sc.ctx, sc.cancel = context.WithCancel(context.Background())
	cc := sc.detachConn()
	sc.setState(connectivity.Idle, nil)
	sc.mu.Unlock()
	if len(addrs) > 0 {
		sc.Connect()
	}
	if cc != nil {
		cc.closeAfterCalls()
	}
}

// healthServiceName returns the service to check. on is false if health checks are disabled.
func (sc *subConn) healthServiceName() (name string, on bool) {
	c := sc.client()
	applied := c.pickerState.Load().config
	if c.opts.disableHealthCheck || applied == nil || applied.HealthCheckConfig == nil {
		return "", false
	}
	return applied.HealthCheckConfig.ServiceName, true
}

// watchHealth lets the server's health set the subConn's state. It does nothing and returns false
// unless health checks are enabled and the balancer has requested them. The lock is held.
func (sc *subConn) watchHealth(cc *clientConn) bool {
	service, on := sc.healthServiceName()
	if !on || !sc.options.HealthCheckEnabled {
		return false
	}
	go connect.WatchHealth(sc.connCtx, sc, service, func(state connectivity.State, err error) {
		sc.mu.Lock()
		defer sc.mu.Unlock()
		if sc.conn == cc {
			sc.setState(state, err)
		}
	})
	return true
}

// RegisterHealthListener reports the server's health to f until the subConn's state changes or
// another listener is registered. If health checks are disabled, it reports Ready once.
func (sc *subConn) RegisterHealthListener(f func(balancer.SubConnState)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.stopListener()
	if sc.state != connectivity.Ready || f == nil {
		return
	}
	ctx, cancel := context.WithCancel(sc.connCtx)
	sc.stopListener = cancel
	report := func(state connectivity.State, err error) {
		sc.runOnBalancer(func() {
			if ctx.Err() == nil { // no other listener or connection has replaced this one
				f(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
			}
		})
	}
	service, on := sc.healthServiceName()
	if !on {
		report(connectivity.Ready, nil)
		return
	}
	go connect.WatchHealth(ctx, sc, service, report)
}

// A producer is a balancer.Producer with the number of its users.
type producer struct {
	value balancer.Producer
	close func()
	users int
}

// GetOrBuildProducer returns the builder's producer. The producer makes its own calls on this
// connection, for example to read the server's load.
func (sc *subConn) GetOrBuildProducer(b balancer.ProducerBuilder) (balancer.Producer, func()) {
	sc.producersMu.Lock()
	defer sc.producersMu.Unlock()
	p := sc.producers[b]
	if p == nil {
		p = new(producer)
		p.value, p.close = b.Build(sc)
		sc.producers[b] = p
	}
	p.users++
	return p.value, sync.OnceFunc(func() {
		sc.producersMu.Lock()
		p.users--
		last := p.users == 0 && sc.producers[b] == p
		if last {
			delete(sc.producers, b)
		}
		sc.producersMu.Unlock()
		if last {
			p.close()
		}
	})
}

func (sc *subConn) closeProducers() {
	sc.producersMu.Lock()
	all := maps.Clone(sc.producers)
	clear(sc.producers)
	sc.producersMu.Unlock()
	for _, p := range all {
		p.close()
	}
}

var errSubConnNotReady = status.Error(codes.Unavailable, "fastgrpc: the balancer's SubConn has no ready connection")

// Invoke makes a unary call on this connection. It uses no interceptors, stats handler, service
// config or retries.
func (sc *subConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	on, err := sc.currentConn()
	if err != nil {
		return err
	}
	in := invocation{client: sc.client(), method: method, req: req, reply: reply, info: callInfo{on: on}}
	return in.invoke(ctx, opts)
}

// NewStream begins a streaming call on this connection, with the same restrictions as Invoke.
func (sc *subConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	on, err := sc.currentConn()
	if err != nil {
		return nil, err
	}
	s := &clientStream{invocation: invocation{client: sc.client(), method: method, desc: desc, info: callInfo{on: on}}}
	return s.start(ctx, opts)
}

func (sc *subConn) currentConn() (*clientConn, error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.conn == nil {
		return nil, errSubConnNotReady
	}
	return sc.conn, nil
}
