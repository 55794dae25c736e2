package fastgrpc

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

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

// A session holds the parts of a channel that exist only while the channel is not idle: a resolver
// and a balancer, or two balancers while one replaces the other. It implements resolver.ClientConn.
type session struct {
	ch       *channel
	resolver resolver.Resolver // used only on ch.toResolver

	// Guarded by ch.set.Mu.
	current, pending *policy // pending replaces current when it is ready
}

var _ resolver.ClientConn = (*session)(nil)

// startResolver builds the resolver. It builds none if a proxy resolves the target's name.
func (s *session) startResolver() (err error) {
	ch, o := s.ch, &s.ch.client.opts
	var name string
	if o.dialer == nil && !o.noProxy {
		if ch.proxy, name, err = connect.FindProxy(ch.target, o.proxyFromEnvironment, o.localDNS); err != nil {
			return err
		}
	}
	if name != "" {
		return s.UpdateState(resolver.State{Addresses: []resolver.Address{{Addr: name}}})
	}
	s.resolver, err = ch.builder.Build(ch.target, s, resolver.BuildOptions{
		DisableServiceConfig: o.disableServiceConfig, DialCreds: o.creds, CredsBundle: o.bundle, Dialer: o.dialer,
		Authority: ch.client.authority, MetricsRecorder: o.metricsRecorder(),
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

// ended reports whether the channel has ended this session. The lock is held.
func (s *session) ended() bool { return s.ch.session != s }

func (s *session) UpdateState(state resolver.State) error {
	if state.Endpoints == nil {
		state.Endpoints = make([]resolver.Endpoint, 0, len(state.Addresses))
		for _, a := range state.Addresses {
			attributes := a.BalancerAttributes //nolint:staticcheck // resolvers without endpoints still set it
			a.BalancerAttributes = nil         //nolint:staticcheck // resolvers without endpoints still set it
			state.Endpoints = append(state.Endpoints, resolver.Endpoint{Addresses: []resolver.Address{a}, Attributes: attributes})
		}
	}
	s.ch.set.Mu.Lock()
	if s.ended() {
		s.ch.set.Mu.Unlock()
		return nil
	}
	usable, err := s.applyResolverConfig(state.ServiceConfig)
	active := s.ch.activeConfig()
	s.ch.set.Mu.Unlock()
	if !usable {
		return err
	}
	refusal := s.updateBalancer(balancer.ClientConnState{ResolverState: state, BalancerConfig: active.Balancer.Config}, active.Balancer.Builder)
	return cmp.Or(err, refusal)
}

// ReportError passes an error of the resolver to the balancer, which decides whether calls fail.
func (s *session) ReportError(err error) {
	s.ch.set.Mu.Lock()
	defer s.ch.set.Mu.Unlock()
	if s.ended() {
		return
	}
	s.ch.applyConfig(s.ch.activeConfig())
	s.ch.toBalancer.Do(func() {
		if p := s.latestPolicy(); p != nil {
			p.balancer.ResolverError(err)
			return
		}
		s.ch.set.Mu.Lock()
		defer s.ch.set.Mu.Unlock()
		if !s.ended() {
			s.ch.publishPickerState(func(p *pickerState) { p.setPicker(connectivity.TransientFailure, base.NewErrPicker(err)) })
		}
	})
}

// NewAddress sets only the addresses. Old resolvers call it instead of UpdateState.
func (s *session) NewAddress(addrs []resolver.Address) {
	_ = s.UpdateState(resolver.State{Addresses: addrs}) // keeps the service config
}

func (s *session) ParseServiceConfig(js string) *serviceconfig.ParseResult {
	parsed, err := config.Parse(js, s.ch.client.opts.maxAttempts)
	if err != nil {
		return &serviceconfig.ParseResult{Err: err}
	}
	return &serviceconfig.ParseResult{Config: parsed}
}

// applyResolverConfig applies the service config from the resolver. If that config is invalid, it
// returns an error; usable is true if an earlier config is still in use. The lock is held.
func (s *session) applyResolverConfig(result *serviceconfig.ParseResult) (usable bool, err error) {
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
	reason := fmt.Sprintf("the resolver's service config is invalid: %v", result.Err)
	if result.Err == nil {
		reason = fmt.Sprintf("the resolver returned a service config of type %T, want the result of ParseServiceConfig", result.Config)
	}
	ch.publishPickerState(func(p *pickerState) {
		p.config = new(config.Config)
		p.setPicker(connectivity.TransientFailure, base.NewErrPicker(status.Error(codes.Unavailable, reason)))
	})
	return false, balancer.ErrBadResolverState
}

// activeConfig returns the config that was last applied, or the program's default config.
func (ch *channel) activeConfig() *config.Config {
	if ch.config != nil {
		return ch.config
	}
	return ch.client.opts.serviceConfig
}

func (ch *channel) applyConfig(c *config.Config) {
	ch.config = c
	ch.publishPickerState(func(p *pickerState) { p.config, p.throttle = c, c.NewThrottle() })
}

// updateBalancer passes the resolver's state to the balancer and returns the balancer's error. It
// changes the balancer first if the service config names another one.
func (s *session) updateBalancer(state balancer.ClientConnState, builder balancer.Builder) error {
	answer := make(chan error, 1)
	s.ch.toBalancer.Do(func() {
		p := s.latestPolicy()
		if p == nil || p.builder.Name() != builder.Name() {
			if p = s.switchPolicy(builder); p == nil {
				answer <- nil
				return
			}
		}
		answer <- p.balancer.UpdateClientConnState(state)
	})
	return <-answer
}

// latestPolicy returns the policy that gets the resolver's updates, or nil if there is none.
func (s *session) latestPolicy() *policy {
	s.ch.set.Mu.Lock()
	defer s.ch.set.Mu.Unlock()
	return cmp.Or(s.pending, s.current)
}

// switchPolicy builds a new balancer. The old balancer serves calls until the new one is ready.
func (s *session) switchPolicy(builder balancer.Builder) *policy {
	ch, o := s.ch, &s.ch.client.opts
	p := &policy{session: s, builder: builder, last: balancer.State{ConnectivityState: connectivity.Connecting}}
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

// A policy holds a balancer, and implements the balancer.ClientConn that the balancer uses.
type policy struct {
	balancer.ClientConn // nil; embedded because the interface has an unexported method
	session             *session
	builder             balancer.Builder
	balancer            balancer.Balancer // used only on toBalancer

	last balancer.State // guarded by channel.set.Mu
}

var _ balancer.ClientConn = (*policy)(nil)

// active reports whether the session still uses this policy. The lock is held.
func (p *policy) active() bool { return p == p.session.current || p == p.session.pending }

// close closes the balancer. It must run on toBalancer. p may be nil.
func (p *policy) close() {
	if p == nil {
		return
	}
	p.balancer.Close()
	ch := p.session.ch
	ch.set.Mu.Lock()
	all := slices.Collect(maps.Keys(ch.subConns))
	ch.set.Mu.Unlock()
	for _, sc := range all {
		if sc.policy == p {
			sc.Shutdown()
		}
	}
}

// UpdateState publishes the balancer's picker. A pending balancer replaces the current one when it
// is no longer connecting, or when the current one is not ready.
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
	if state.Picker == nil { // a balancer that has no picker yet
		state.Picker = base.NewErrPicker(balancer.ErrNoSubConnAvailable)
	}
	ch.publishPickerState(func(p *pickerState) { p.setPicker(state.ConnectivityState, state.Picker) })
}

// NewSubConn makes a subConn. The subConn connects when the balancer calls its method Connect.
func (p *policy) NewSubConn(addrs []resolver.Address, o balancer.NewSubConnOptions) (balancer.SubConn, error) {
	switch {
	case len(addrs) == 0:
		return nil, errors.New("fastgrpc: the balancer called NewSubConn without addresses")
	case o.CredsBundle != nil: //nolint:staticcheck // deprecated, but must not be ignored silently
		return nil, fmt.Errorf("fastgrpc: the balancer set NewSubConnOptions.CredsBundle, which is %w", ErrUnsupported)
	}
	ch := p.session.ch
	ch.set.Mu.Lock()
	defer ch.set.Mu.Unlock()
	if !p.active() {
		return nil, errors.New("fastgrpc: the balancer called NewSubConn after it was closed")
	}
	sc := newSubConn(p, addrs, o)
	ch.subConns[sc] = struct{}{}
	return sc, nil
}

// RemoveSubConn closes sc. Old balancers call it instead of SubConn.Shutdown.
func (p *policy) RemoveSubConn(sc balancer.SubConn) { sc.Shutdown() }

// UpdateAddresses replaces the addresses of sc.
func (p *policy) UpdateAddresses(sc balancer.SubConn, addrs []resolver.Address) {
	sc.UpdateAddresses(addrs) //nolint:staticcheck // deprecated, but some balancers still call it
}

// ResolveNow asks the resolver for new addresses, unless a pending balancer replaces this one.
func (p *policy) ResolveNow(o resolver.ResolveNowOptions) {
	if p == p.session.latestPolicy() {
		p.session.resolveNow(o)
	}
}

func (p *policy) Target() string { return p.session.ch.client.target }

func (p *policy) MetricsRecorder() estats.MetricsRecorder {
	return p.session.ch.client.opts.metricsRecorder()
}
