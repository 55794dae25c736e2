package connect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"google.golang.org/grpc/resolver"
)

// ErrUnsupported is wrapped by errors about features that fastgrpc lacks.
var ErrUnsupported error = unsupportedError{}

type unsupportedError struct{}

func (unsupportedError) Error() string { return "not supported by fastgrpc" }

func (unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// ParseTarget parses a target as grpc.NewClient does, and finds its resolver among the
// program's and the registered ones. Without a scheme that has a resolver, the target is a
// DNS name.
func ParseTarget(s string, own []resolver.Builder) (resolver.Target, resolver.Builder, error) {
	if u, err := url.Parse(s); err == nil {
		if b := resolverFor(u.Scheme, own); b != nil {
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
	b := resolverFor(u.Scheme, own)
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
func resolverFor(scheme string, own []resolver.Builder) resolver.Builder {
	for _, b := range own {
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

// AuthorityOf returns the name of the servers, which is the :authority of calls and the
// name that TLS verifies. own is the program's name for them, certified
// the transport credentials' name.
func AuthorityOf(t resolver.Target, b resolver.Builder, own, certified string) (string, error) {
	endpoint := t.Endpoint()
	overrider, _ := b.(resolver.AuthorityOverrider)
	switch {
	case own != "" && certified != "" && certified != own:
		return "", errors.New("fastgrpc: WithAuthority says " + own + ", the transport credentials say " + certified + ": give the name once")
	case own != "":
		return own, nil
	case certified != "":
		return certified, nil
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

// NetworkOf returns the network and the address of a resolver's address. The scheme of
// the target or of the address decides, never the address's letters.
func NetworkOf(target resolver.Target, addr string) (network, path string) {
	switch target.URL.Scheme {
	case "unix", "unix-abstract":
		return "unix", addr
	}
	rest, isUnix := strings.CutPrefix(addr, "unix:")
	if !isUnix {
		return "tcp", addr
	}
	if u, err := url.Parse(addr); err == nil && u.Path != "" {
		return "unix", u.Path
	}
	return "unix", rest
}
