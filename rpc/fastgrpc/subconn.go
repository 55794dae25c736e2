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

// A subConn is picked by balancers. It has at most one connection that takes new calls, to
// the first of its addresses that accepts one. Balancers give it one address today.
type subConn struct {
	balancer.SubConn // nil: only grpc-go's types may have the interface's unexported method
	policy           *policy
	options          balancer.NewSubConnOptions
	ready            atomic.Pointer[clientConn] // the connection while the state is Ready

	mu           sync.Mutex
	state        connectivity.State
	addrs        []resolver.Address
	conn         *clientConn
	connAddr     resolver.Address
	connCtx      context.Context // ends when takeConn takes conn
	connEnd      context.CancelFunc
	ctx          context.Context // for attempts; replaced with the addresses
	cancel       context.CancelFunc
	failures     int
	retryNow     chan struct{}      // closed to end a backoff
	stopListener context.CancelFunc // ends the last registered health listener; or nil
	reported     connectivity.State // the last state that the balancer got

	producersMu sync.Mutex
	producers   map[balancer.ProducerBuilder]*producer
}

var (
	_ balancer.SubConn         = (*subConn)(nil)
	_ grpc.ClientConnInterface = (*subConn)(nil) // for producers
	_ connUser                 = (*subConn)(nil)
)

func newSubConn(p *policy, addrs []resolver.Address, o balancer.NewSubConnOptions) *subConn {
	sc := &subConn{policy: p, options: o, addrs: slices.Clone(addrs), retryNow: make(chan struct{}), producers: map[balancer.ProducerBuilder]*producer{}}
	sc.ctx, sc.cancel = context.WithCancel(context.Background())
	return sc
}

func (sc *subConn) client() *Client { return sc.policy.session.ch.client }

// setState changes the state and notifies the balancer, with the lock held.
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
	sc.notify(func() {
		sc.closeProducers()
		sc.mu.Lock()
		sc.reported = state
		sc.stopHealthListener()
		sc.mu.Unlock()
		report := balancer.SubConnState{ConnectivityState: state, ConnectionError: err}
		if sc.options.StateListener != nil {
			sc.options.StateListener(report)
		} else {
			sc.policy.balancer.UpdateSubConnState(sc, report) //nolint:staticcheck // deprecated, and still used
		}
	})
}

// notify runs f in turn with the balancer's other calls, unless the balancer is closed.
func (sc *subConn) notify(f func()) {
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

// Connect begins to connect an idle subConn. It returns at once: the balancer may hold
// its lock.
func (sc *subConn) Connect() {
	go func() {
		sc.mu.Lock()
		if sc.state != connectivity.Idle {
			sc.mu.Unlock()
			return
		}
		sc.connectAndUnlock()
	}()
}

// connectAndUnlock makes one attempt and, if it fails, pauses before another one may begin. It
// returns after the end of sc.ctx and of the dialer.
func (sc *subConn) connectAndUnlock() {
	ctx, addrs, o := sc.ctx, sc.addrs, &sc.client().opts
	pause := connect.Backoff(&o.backoff, sc.failures)
	sc.setState(connectivity.Connecting, nil)
	sc.mu.Unlock()
	limit, cancel := context.WithTimeout(ctx, max(o.connectTimeout, pause))
	defer cancel()
	cc, addr, err := sc.client().dialFirst(limit, sc, addrs)
	if err == nil {
		sc.connected(ctx, cc, addr)
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

// connected makes cc the subConn's connection, unless the attempt was cancelled.
func (sc *subConn) connected(ctx context.Context, cc *clientConn, addr resolver.Address) {
	sc.mu.Lock()
	if ctx.Err() != nil {
		sc.mu.Unlock()
		cc.leave()
		return
	}
	sc.conn, sc.connAddr, sc.failures = cc, addr, 0
	sc.connCtx, sc.connEnd = context.WithCancel(cc.ctx)
	if !sc.watchHealth(cc) {
		sc.setState(connectivity.Ready, nil)
	}
	sc.mu.Unlock()
	select {
	case <-cc.draining: // perhaps before sc.conn was set
		sc.lost(cc)
	default:
	}
}

// lost is called when cc takes no new calls. The lock of cc may or may not be held.
func (sc *subConn) lost(cc *clientConn) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	if sc.conn == cc {
		sc.takeConn()
		sc.policy.session.resolveNow(resolver.ResolveNowOptions{})
		sc.setState(connectivity.Idle, nil)
	}
}

func (sc *subConn) closed(cc *clientConn) { sc.client().channel.remove(cc) }

// tooManyPings makes the client's next connections ping half as often.
func (sc *subConn) tooManyPings() {
	c := sc.client()
	if t := c.pingTime.Load(); t < int64(lifetime.Forever)/2 {
		c.pingTime.CompareAndSwap(t, 2*t)
	}
}

// takeConn returns the connection, or nil, and forgets it, with the lock held.
func (sc *subConn) takeConn() *clientConn {
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

// Shutdown lets the calls on the connection finish and accepts no more.
func (sc *subConn) Shutdown() {
	sc.closeProducers()
	sc.mu.Lock()
	cc := sc.takeConn()
	sc.setState(connectivity.Shutdown, nil)
	sc.cancel()
	sc.mu.Unlock()
	if cc != nil {
		cc.leave()
	}
	ch := sc.policy.session.ch
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	delete(ch.subConns, sc)
	delete(sc.policy.subConns, sc)
}

// UpdateAddresses replaces the addresses. It keeps a connection to one of the new ones.
func (sc *subConn) UpdateAddresses(addrs []resolver.Address) {
	sc.mu.Lock()
	same := func(a, b resolver.Address) bool {
		return a.Addr == b.Addr && a.ServerName == b.ServerName && a.Attributes.Equal(b.Attributes) && a.Metadata == b.Metadata //nolint:staticcheck // grpc-go compares it
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
	cc := sc.takeConn()
	if len(addrs) == 0 {
		sc.setState(connectivity.Idle, nil)
		sc.mu.Unlock()
	} else {
		go sc.connectAndUnlock()
	}
	if cc != nil {
		cc.leave()
	}
}

// healthService returns the service whose health decides whether a connection is used
// (grpc/doc/health-checking.md). on is false if the service config names none.
func (sc *subConn) healthService() (name string, on bool) {
	c := sc.client()
	applied := c.pick.Load().config
	if c.opts.disableHealthCheck || applied == nil || applied.HealthCheckConfig == nil {
		return "", false
	}
	return applied.HealthCheckConfig.ServiceName, true
}

// watchHealth makes the server's health decide the subConn's state, and returns true, if the
// balancer requested that when it made the subConn. The lock is held.
func (sc *subConn) watchHealth(cc *clientConn) bool {
	service, on := sc.healthService()
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

// RegisterHealthListener reports the server's health to f until the state changes or
// there is another listener. Without health checks it reports Ready once.
func (sc *subConn) RegisterHealthListener(f func(balancer.SubConnState)) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.stopHealthListener()
	if sc.reported != connectivity.Ready || sc.conn == nil || f == nil {
		return
	}
	ctx, cancel := context.WithCancel(sc.connCtx)
	sc.stopListener = cancel
	report := func(state connectivity.State, err error) {
		sc.notify(func() {
			if ctx.Err() == nil { // this listener is still the last one, on this connection
				f(balancer.SubConnState{ConnectivityState: state, ConnectionError: err})
			}
		})
	}
	service, on := sc.healthService()
	if !on {
		report(connectivity.Ready, nil)
		return
	}
	go connect.WatchHealth(ctx, sc, service, report)
}

// stopHealthListener ends the watch of a registered listener, with the lock held.
func (sc *subConn) stopHealthListener() {
	if sc.stopListener != nil {
		sc.stopListener()
	}
}

// A producer is a balancer.Producer with the number of its users.
type producer struct {
	value balancer.Producer
	close func()
	users int
}

// GetOrBuildProducer returns the builder's producer, which makes calls on this
// connection, for instance to learn the server's load.
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

var errSubConnNotReady = status.Error(codes.Unavailable, "fastgrpc: the SubConn is not ready")

// Invoke makes a unary call on this connection, without interceptors, stats, service
// config or retries.
func (sc *subConn) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	info, err := sc.callInfo(opts)
	if err != nil {
		return err
	}
	return sc.client().invoke(ctx, &invocation{method: method, req: req, reply: reply, info: info})
}

// NewStream begins a streaming call on this connection, as Invoke does.
func (sc *subConn) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	info, err := sc.callInfo(opts)
	if err != nil {
		return nil, err
	}
	return sc.client().newStream(ctx, func() {}, desc, method, info)
}

func (sc *subConn) callInfo(opts []grpc.CallOption) (callInfo, error) {
	sc.mu.Lock()
	info := callInfo{on: sc.conn}
	sc.mu.Unlock()
	if info.on == nil {
		return info, errSubConnNotReady
	}
	o := &sc.client().opts
	err := info.readOptions(o, opts)
	info.applyConfig(o, nil)
	return info, err
}
