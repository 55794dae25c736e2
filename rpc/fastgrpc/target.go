package fastgrpc

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
)

// parseTarget parses a target as grpc.NewClient does. Without a scheme that has a
// resolver, it is a DNS name.
func (o *clientOptions) parseTarget(s string) (resolver.Target, resolver.Builder, error) {
	if u, err := url.Parse(s); err == nil {
		if b := o.resolverFor(u.Scheme); b != nil {
			return checkedTarget(u, b)
		}
		switch u.Scheme {
		case "xds", "google-c2p", "grpclb":
			return resolver.Target{}, nil, fmt.Errorf("fastgrpc: target %q: scheme %s: %w", s, u.Scheme, ErrUnsupported)
		}
	}
	scheme := resolver.GetDefaultScheme()
	if scheme == "passthrough" { // unless the program has set another
		scheme = "dns"
	}
	u, err := url.Parse(scheme + ":///" + s)
	if err != nil {
		return resolver.Target{}, nil, fmt.Errorf("fastgrpc: target %q: %w", s, err)
	}
	b := o.resolverFor(u.Scheme)
	if b == nil {
		return resolver.Target{}, nil, fmt.Errorf("fastgrpc: target %q: no resolver for the default scheme %s", s, scheme)
	}
	return checkedTarget(u, b)
}

// checkedTarget refuses what grpc-go's resolvers for unix sockets fail on later.
func checkedTarget(u *url.URL, b resolver.Builder) (resolver.Target, resolver.Builder, error) {
	switch u.Scheme {
	case "unix", "unix-abstract":
		if u.Host != "" || u.Path+u.Opaque == "" {
			return resolver.Target{}, nil, fmt.Errorf("fastgrpc: target %q: want unix:path or unix:///absolute/path", u)
		}
	}
	return resolver.Target{URL: *u}, b, nil
}

// resolverFor returns the resolver for a scheme, or nil.
func (o *clientOptions) resolverFor(scheme string) resolver.Builder {
	for _, b := range o.resolvers {
		if b.Scheme() == scheme {
			return b
		}
	}
	switch scheme {
	case "xds", "google-c2p", "grpclb": // registered ones need grpc-go's own client
		return nil
	}
	return resolver.Get(scheme)
}

// authorityOf returns the name of the servers, which is the :authority of calls and the
// name that TLS verifies.
func (o *clientOptions) authorityOf(t resolver.Target, b resolver.Builder) (string, error) {
	endpoint := t.Endpoint()
	overrider, _ := b.(resolver.AuthorityOverrider)
	switch name := o.creds.Info().ServerName; { //nolint:staticcheck // deprecated, but grpc-go still takes the authority from it
	case o.authority != "" && name != "" && name != o.authority:
		return "", errors.New("fastgrpc: WithAuthority says " + o.authority + ", the transport credentials say " + name + ": give the name once")
	case o.authority != "":
		return o.authority, nil
	case name != "":
		return name, nil
	case overrider != nil:
		return overrider.OverrideAuthority(t), nil
	case strings.HasPrefix(endpoint, ":"):
		return "localhost" + escapeAuthority(endpoint), nil
	}
	return escapeAuthority(endpoint), nil
}

// escapeAuthority percent-encodes what an authority cannot have (RFC 3986 section 3.2).
func escapeAuthority(s string) string {
	var out strings.Builder
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~!$&'()*+,;=:[]@", c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
