package connect

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"google.golang.org/grpc/resolver"
)

// ErrUnsupported marks errors about missing features: errors.Is(err, ErrUnsupported) is true.
var ErrUnsupported error = unsupportedError{}

type unsupportedError struct{}

func (unsupportedError) Error() string { return "not supported by fastgrpc" }

func (unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// grpcGoOnlySchemes lists the schemes whose registered resolvers need grpc-go's own client.
var grpcGoOnlySchemes = []string{"xds", "google-c2p", "grpclb"}

// ParseTarget parses a target as grpc.NewClient does. It also returns the target's resolver: from
// own, or else a registered resolver. If the target's scheme has no resolver, ParseTarget takes the
// target for a DNS name. It refuses unix targets that grpc-go's resolver would refuse later.
func ParseTarget(s string, own []resolver.Builder) (_ resolver.Target, b resolver.Builder, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fastgrpc: cannot use the target %q: %w", s, err)
		}
	}()
	u, bad := url.Parse(s)
	if bad == nil {
		if b = resolverFor(u.Scheme, own); b == nil && slices.Contains(grpcGoOnlySchemes, u.Scheme) {
			return resolver.Target{}, nil, fmt.Errorf("scheme %s is %w", u.Scheme, ErrUnsupported)
		}
	}
	if b == nil {
		scheme := resolver.GetDefaultScheme()
		if scheme == "passthrough" { // grpc-go's default; a program may set another one
			scheme = "dns"
		}
		if u, err = url.Parse(scheme + ":///" + s); err != nil {
			return resolver.Target{}, nil, err
		}
		if b = resolverFor(u.Scheme, own); b == nil {
			return resolver.Target{}, nil, fmt.Errorf("the default scheme %s has no registered resolver: register one with resolver.Register", scheme)
		}
	}
	if isUnixScheme(u.Scheme) && (u.Host != "" || u.Path+u.Opaque == "") {
		return resolver.Target{}, nil, errors.New("want a target of the form unix:path or unix:///absolute/path")
	}
	return resolver.Target{URL: *u}, b, nil
}

func isUnixScheme(scheme string) bool { return scheme == "unix" || scheme == "unix-abstract" }

// resolverFor returns the scheme's resolver from own, or else the registered resolver, or nil.
func resolverFor(scheme string, own []resolver.Builder) resolver.Builder {
	if i := slices.IndexFunc(own, func(b resolver.Builder) bool { return b.Scheme() == scheme }); i >= 0 {
		return own[i]
	}
	if slices.Contains(grpcGoOnlySchemes, scheme) {
		return nil
	}
	return resolver.Get(scheme)
}

// ChooseAuthority returns the :authority of calls, which TLS also verifies. own is the authority
// from the option WithAuthority, and certified is the server name of the transport credentials.
func ChooseAuthority(t resolver.Target, b resolver.Builder, own, certified string) (string, error) {
	endpoint := t.Endpoint()
	overrider, _ := b.(resolver.AuthorityOverrider)
	switch {
	case own != "" && certified != "" && certified != own:
		return "", errors.New("fastgrpc: WithAuthority sets the name " + own + ", but the transport credentials set " + certified + ": set only one of them")
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

// escapeAuthority percent-encodes characters that RFC 3986 section 3.2 forbids in an authority.
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

// NetworkOf returns the network and the path or address to dial for a resolver's address. The
// network is "unix" if the target or the address has a unix scheme, or else "tcp".
func NetworkOf(target resolver.Target, addr string) (network, path string) {
	if isUnixScheme(target.URL.Scheme) {
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

// FindProxy returns a function that returns the proxy for an address, or nil. The function is nil
// if the target has no proxy. name is the target's name if the proxy resolves that name. With
// localDNS, the proxy resolves no names. As in grpc-go, fromEnvironment chooses the proxy from the
// environment variables HTTPS_PROXY and NO_PROXY.
func FindProxy(target resolver.Target, fromEnvironment func(*http.Request) (*url.URL, error), localDNS bool) (proxy func(addr string) *url.URL, name string, err error) {
	lookup := func(addr string) (*url.URL, error) {
		return fromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: addr}})
	}
	resolves := target.URL.Scheme == "dns" && !localDNS
	addr := target.Endpoint()
	if resolves {
		if addr, err = addDefaultPort(addr); err != nil {
			return nil, "", fmt.Errorf("fastgrpc: cannot use the target %q: %w", target.Endpoint(), err)
		}
		name = addr
	}
	switch through, err := lookup(addr); {
	case err != nil:
		return nil, "", fmt.Errorf("fastgrpc: cannot find the proxy for the target %q: %w", target.Endpoint(), err)
	case through == nil:
		return nil, "", nil
	}
	return func(addr string) *url.URL {
		through, _ := lookup(addr) // none if, for example, NO_PROXY lists the address
		return through
	}, name, nil
}

// addDefaultPort adds port 443 to a DNS target without a port, because a proxy needs the port.
func addDefaultPort(target string) (string, error) {
	host, port, err := net.SplitHostPort(target)
	switch {
	case target == "":
		return "", errors.New("the target has no address")
	case err != nil:
		return net.JoinHostPort(target, "443"), nil //nolint:nilerr // the target has no port
	case port == "":
		return "", errors.New("the target has a colon but no port after it")
	case host == "":
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// DialThroughProxy connects to addr through an HTTP proxy.
func DialThroughProxy(ctx context.Context, proxy *url.URL, addr, userAgent string) (net.Conn, error) {
	at := proxy.Host
	if proxy.Port() == "" {
		at = net.JoinHostPort(proxy.Hostname(), "443")
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("connect to proxy %s: %w", at, err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	if err := openTunnel(nc, proxy.User, addr, userAgent); err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("open a tunnel through proxy %s: %w", proxy.Host, err)
	}
	return nc, nil
}

// maxProxyReplyBytes limits the length of a proxy's reply.
const maxProxyReplyBytes = 64 << 10

// openTunnel asks the proxy at the other end of nc to connect to addr (HTTP's CONNECT method).
func openTunnel(nc net.Conn, user *url.Userinfo, addr, userAgent string) error {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: addr}, Host: addr,
		Header: http.Header{"User-Agent": {userAgent}},
	}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(nc); err != nil {
		return err
	}
	reply, err := http.ReadResponse(bufio.NewReader(io.LimitReader(oneByteReader{nc}, maxProxyReplyBytes)), req)
	if err != nil {
		return err
	}
	_ = reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return fmt.Errorf("the proxy answered CONNECT %s with %s, want 200 OK", addr, reply.Status)
	}
	return nil
}

// A oneByteReader reads one byte at a time. So a bufio.Reader takes none of the server's bytes, which
// may follow the proxy's reply at once.
type oneByteReader struct{ io.Reader }

func (r oneByteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }
