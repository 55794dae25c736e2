package fastgrpc

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/serviceconfig"
)

// parseTarget parses a target as grpc.NewClient does: without a known scheme, it is a
// DNS name. It also returns the network to dial.
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
	switch name := o.creds.Info().ServerName; { //nolint:staticcheck // deprecated, but grpc-go still takes the authority from it
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

// resolverConn is the interface of the pool to its resolver.
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

// ReportError records err unless the pool already has addresses.
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

// ParseServiceConfig returns an error: service configs are not supported.
func (r *resolverConn) ParseServiceConfig(string) *serviceconfig.ParseResult {
	return &serviceconfig.ParseResult{Err: fmt.Errorf("fastgrpc: service config: %w", ErrUnsupported)}
}
