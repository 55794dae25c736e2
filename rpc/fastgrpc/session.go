package fastgrpc

import (
	"cmp"
	"errors"
	"fmt"

	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/balancer/base"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
)

// A session is the part of a channel that exists outside idle mode: a resolver, for which it
// is the resolver.ClientConn, and a balancer, or two while one replaces the other.
type session struct {
	ch       *channel
	resolver resolver.Resolver // used only on ch.toResolver

	// Guarded by ch.set.Mu.
	current, pending *policy
	last             resolver.State
}

var _ resolver.ClientConn = (*session)(nil)

// startResolver builds the resolver. If the client uses a proxy, the proxy resolves DNS names.
func (s *session) startResolver() (err error) {
	ch, o := s.ch, &s.ch.client.opts
	var name string
	if o.dialer == nil && !o.noProxy {
		if ch.proxy, name, err = connect.ProxyOf(ch.target, o.proxyFromEnvironment, o.localDNS); err != nil {
			return err
		}
	}
	if name != "" {
		return s.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: name}}})
	}
	s.resolver, err = ch.builder.Build(ch.target, s, resolver.BuildOptions{
		DisableServiceConfig: o.disableServiceConfig, DialCreds: o.creds, CredsBundle: o.bundle, Dialer: o.dialer,
		Authority: ch.client.authority, MetricsRecorder: o.metrics(),
	})
	return err
}

func (s *session) closeResolver() {
	if s.resolver != nil {
		s.resolver.Close()
		s.resolver = nil
	}
}

func (s *session) resolveNow(o resolver.ResolveNowOptions) {
	s.ch.toResolver.Do(func() {
		if s.resolver != nil {
			s.resolver.ResolveNow(o)
		}
	})
}

// ended reports whether the session is over, with the lock held.
func (s *session) ended() bool { return s.ch.session != s }

func (s *session) UpdateState(state resolver.State) error {
	if state.Endpoints == nil {
		state.Endpoints = make([]resolver.Endpoint, 0, len(state.Addresses))
		for _, a := range state.Addresses {
			attributes := a.BalancerAttributes //nolint:staticcheck // for resolvers older than endpoints
			a.BalancerAttributes = nil         //nolint:staticcheck // the same
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: attributes})
		}
	}
	s.ch.set.Mu.Lock()
	if s.ended() {
		s.ch.set.Mu.Unlock()
		return nil
	}
	s.last = state
	usable, err := s.takeConfig(state.ServiceConfig)
	active := s.ch.activeConfig()
	s.ch.set.Mu.Unlock()
	if !usable {
		return err
	}
	refusal := s.updateBalancer(balancer.ClientConnState{ResolverState: state, BalancerConfig: active.Balancer.Config}, active.Balancer.Builder)
	return cmp.Or(err, refusal)
}

// ReportError passes a resolver's failure to the balancer, which decides whether calls
// fail.
func (s *session) ReportError(err error) {
	s.ch.set.Mu.Lock()
	defer s.ch.set.Mu.Unlock()
	if s.ended() {
		return
	}
	s.ch.applyConfig(s.ch.activeConfig())
	s.ch.toBalancer.Do(func() {
		if p := s.latest(); p != nil {
			p.balancer.ResolverError(err)
			return
		}
		s.ch.set.Mu.Lock()
		defer s.ch.set.Mu.Unlock()
		if !s.ended() {
			s.ch.publish(func(p *picking) { p.setPicker(connectivity.TransientFailure, base.NewErrPicker(err)) })
		}
	})
}

// NewAddress is the old form of UpdateState.
func (s *session) NewAddress(addrs []resolver.Address) {
	s.ch.set.Mu.Lock()
	last := s.last.ServiceConfig
	s.ch.set.Mu.Unlock()
	_ = s.UpdateState(resolver.State{Addresses: addrs, ServiceConfig: last})
}

func (s *session) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	parsed, err := config.Parse(js, s.ch.client.opts.maxAttempts)
	if err != nil {
		return &serviceconfig.ParseResult{Err: err}
	}
	return &serviceconfig.ParseResult{Config: parsed}
}

// takeConfig applies the service config of a resolver's update, with the lock held. A bad one is
// an error; the addresses stay usable if an earlier config was good.
func (s *session) takeConfig(result *serviceconfig.ParseResult) (usable bool, err error) {
	ch := s.ch
	if result == nil || ch.client.opts.disableServiceConfig {
		ch.applyConfig(ch.activeConfig())
		return true, nil
	}
	parsed, ok := result.Config.(*config.Config)
	switch {
	case result.Err == nil && ok:
		ch.applyConfig(parsed)
		return true, nil
	case ch.config != nil:
		return true, balancer.ErrBadResolverState
	}
	reason := fmt.Sprintf("error parsing service config: %v", result.Err)
	if result.Err == nil {
		reason = fmt.Sprintf("illegal service config type: %T", result.Config)
	}
	ch.publish(func(p *picking) {
		p.config = new(config.Config)
		p.setPicker(connectivity.TransientFailure, base.NewErrPicker(status.Error(codes.Unavailable, reason)))
	})
	return false, balancer.ErrBadResolverState
}

// activeConfig returns the last config applied, or the program's default.
func (ch *channel) activeConfig() *config.Config {
	if ch.config != nil {
		return ch.config
	}
	return ch.client.opts.serviceConfig
}

func (ch *channel) applyConfig(c *config.Config) {
	ch.config = c
	ch.publish(func(p *picking) { p.config, p.throttle = c, c.NewThrottle() })
}

// updateBalancer passes addresses to the balancer and returns its error.
func (s *session) updateBalancer(state balancer.ClientConnState, builder balancer.Builder) error {
	answer := make(chan error, 1)
	s.ch.toBalancer.Do(func() {
		p := s.latest()
		if p == nil || p.builder.Name() != builder.Name() {
			if p = s.switchTo(builder); p == nil {
				answer <- nil
				return
			}
		}
		answer <- p.balancer.UpdateClientConnState(state)
	})
	return <-answer
}

// latest returns the balancer that gets the resolver's updates; nil before there is one.
func (s *session) latest() *policy {
	s.ch.set.Mu.Lock()
	defer s.ch.set.Mu.Unlock()
	return cmp.Or(s.pending, s.current)
}

// switchTo makes a balancer. A ready balancer serves calls until the new one is ready.
func (s *session) switchTo(builder balancer.Builder) *policy {
	ch, o := s.ch, &s.ch.client.opts
	p := &policy{session: s, builder: builder, subConns: make(map[*subConn]struct{})}
	p.last = balancer.State{ConnectivityState: connectivity.Connecting}
	ch.set.Mu.Lock()
	if s.ended() {
		ch.set.Mu.Unlock()
		return nil
	}
	superseded := s.pending
	if s.current == nil {
		s.current = p
	} else {
		s.pending = p
	}
	ch.set.Mu.Unlock()
	superseded.close()
	p.balancer = builder.Build(p, balancer.BuildOptions{
		DialCreds: o.creds, CredsBundle: o.bundle, Dialer: o.dialer, Authority: ch.client.authority,
		CustomUserAgent: o.userAgent, Target: ch.target,
	})
	return p
}

// A policy is a balancer with the balancer.ClientConn that it uses.
type policy struct {
	balancer.ClientConn // nil: only grpc-go's types may have the interface's unexported method
	session             *session
	builder             balancer.Builder
	balancer            balancer.Balancer // used only on toBalancer

	// Guarded by the channel's lock.
	last     balancer.State
	subConns map[*subConn]struct{}
}

var _ balancer.ClientConn = (*policy)(nil)

// active reports whether the channel uses the policy's subConns and states. The lock is held.
func (p *policy) active() bool { return p == p.session.current || p == p.session.pending }

// close closes the balancer, on toBalancer. p may be nil.
func (p *policy) close() {
	if p == nil {
		return
	}
	p.balancer.Close()
	p.session.ch.set.Mu.Lock()
	left := p.subConns
	p.subConns = nil
	p.session.ch.set.Mu.Unlock()
	for sc := range left {
		sc.Shutdown()
	}
}

// UpdateState publishes the balancer's picker. A new balancer replaces the old one when it has a
// result, or when the old one has lost all connections.
func (p *policy) UpdateState(state balancer.State) {
	s := p.session
	ch := s.ch
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	p.last = state
	if !p.active() {
		return
	}
	if s.pending != nil {
		wait := s.pending.last.ConnectivityState == connectivity.Connecting
		if p == s.pending && wait && s.current.last.ConnectivityState == connectivity.Ready {
			return
		}
		if p == s.pending || state.ConnectivityState != connectivity.Ready {
			old := s.current
			s.current, s.pending = s.pending, nil
			ch.toBalancer.Do(old.close)
			state = s.current.last
		}
	}
	if state.Picker == nil { // a new balancer without a picker
		state.Picker = base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	ch.publish(func(p *picking) { p.setPicker(state.ConnectivityState, state.Picker) })
}

// NewSubConn makes a subConn. It connects when the balancer calls Connect.
func (p *policy) NewSubConn(addrs []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	switch {
	case len(addrs) == 0:
		return nil, errors.New("fastgrpc: NewSubConn without addresses")
	case o.CredsBundle != nil: //nolint:staticcheck // deprecated, and refused rather than ignored
		return nil, fmt.Errorf("fastgrpc: NewSubConnOptions.CredsBundle: %w", ErrUnsupported)
	}
	ch := p.session.ch
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	if !p.active() || ch.set.Closed {
		return nil, errors.New("fastgrpc: NewSubConn after the balancer was closed")
	}
	sc := newSubConn(p, addrs, o)
	p.subConns[sc] = struct{}{}
	ch.subConns[sc] = struct{}{}
	return sc, nil
}

// RemoveSubConn is the old form of SubConn.Shutdown.
func (p *policy) RemoveSubConn(sc balancer.SubConn) { sc.Shutdown() }

// UpdateAddresses is the old form of SubConn.UpdateAddresses.
func (p *policy) UpdateAddresses(sc balancer.SubConn, addrs []resolver.Address) {
	sc.UpdateAddresses(addrs) //nolint:staticcheck // deprecated, and still called
}

// ResolveNow asks the resolver for new addresses, unless another balancer will soon replace this
// one.
func (p *policy) ResolveNow(o resolver.ResolveNowOptions) {
	if p == p.session.latest() {
		p.session.resolveNow(o)
	}
}

func (p *policy) Target() string { return p.session.ch.client.target }

func (p *policy) MetricsRecorder() estats.MetricsRecorder { return p.session.ch.client.opts.metrics() }
