package connect

import (
	"bufio"
	"bytes"
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

// ErrUnsupported is wrapped by errors about features that fastgrpc lacks.
var ErrUnsupported error = unsupportedError{}

type unsupportedError struct{}

func (unsupportedError) Error() string { return "not supported by fastgrpc" }

func (unsupportedError) Is(target error) bool { return target == errors.ErrUnsupported }

// foreign lists the schemes whose registered resolvers need grpc-go's own client.
var foreign = []string{"xds", "google-c2p", "grpclb"}

// ParseTarget parses a target as grpc.NewClient does, and finds its resolver among the program's
// and the registered ones. If its scheme has no resolver, the target is a DNS name. It refuses
// unix targets on which grpc-go's resolvers fail later.
func ParseTarget(s string, own []resolver.Builder) (_ resolver.Target, b resolver.Builder, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fastgrpc: target %q: %w", s, err)
		}
	}()
	u, bad := url.Parse(s)
	if bad == nil {
		if b = resolverFor(u.Scheme, own); b == nil && slices.Contains(foreign, u.Scheme) {
			return resolver.Target{}, nil, fmt.Errorf("scheme %s: %w", u.Scheme, ErrUnsupported)
		}
	}
	if b == nil {
		scheme := resolver.GetDefaultScheme()
		if scheme == "passthrough" { // unless the program has set another
			scheme = "dns"
		}
		if u, err = url.Parse(scheme + ":///" + s); err != nil {
			return resolver.Target{}, nil, err
		}
		if b = resolverFor(u.Scheme, own); b == nil {
			return resolver.Target{}, nil, fmt.Errorf("no resolver for the default scheme %s", scheme)
		}
	}
	if isUnix(u.Scheme) && (u.Host != "" || u.Path+u.Opaque == "") {
		return resolver.Target{}, nil, errors.New("want unix:path or unix:///absolute/path")
	}
	return resolver.Target{URL: *u}, b, nil
}

func isUnix(scheme string) bool { return scheme == "unix" || scheme == "unix-abstract" }

// resolverFor returns the resolver for a scheme, or nil.
func resolverFor(scheme string, own []resolver.Builder) resolver.Builder {
	for _, b := range own {
		if b.Scheme() == scheme {
			return b
		}
	}
	if slices.Contains(foreign, scheme) {
		return nil
	}
	return resolver.Get(scheme)
}

// AuthorityOf returns the servers' name, which is the :authority of calls and the name that TLS
// verifies. own is the program's name for the servers, certified the transport credentials' name.
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

// escapeAuthority percent-encodes characters that an authority cannot hold (RFC 3986 section 3.2).
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

// NetworkOf returns the network and the address of a resolver's address. Only the scheme of the
// target or of the address decides.
func NetworkOf(target resolver.Target, addr string) (network, path string) {
	if isUnix(target.URL.Scheme) {
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

// ProxyOf returns a function that returns the proxy for connections to an address, or nil.
// name is not "" if the proxy also resolves the target's name. The environment
// variables HTTPS_PROXY and NO_PROXY decide, as in grpc-go; fromEnvironment reads them. With
// localDNS, only this end resolves names.
func ProxyOf(target resolver.Target, fromEnvironment func(*http.Request) (*url.URL, error), localDNS bool) (proxy func(addr string) *url.URL, name string, err error) {
	lookup := func(addr string) (*url.URL, error) {
		return fromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: addr}})
	}
	leave := target.URL.Scheme == "dns" && !localDNS
	addr := target.Endpoint()
	if leave {
		if addr, err = withPort(addr); err != nil {
			return nil, "", fmt.Errorf("fastgrpc: target %q: %w", target.Endpoint(), err)
		}
	}
	through, err := lookup(addr)
	if err != nil {
		return nil, "", fmt.Errorf("fastgrpc: proxy for target %q: %w", target.Endpoint(), err)
	}
	if through == nil {
		return nil, "", nil
	}
	if leave {
		name = addr
	}
	return func(addr string) *url.URL {
		if u, err := lookup(addr); err != nil || u == nil {
			return nil // an exception in NO_PROXY
		}
		return through
	}, name, nil
}

// withPort adds the port, which a proxy needs and a DNS target may leave out.
func withPort(target string) (string, error) {
	host, port, err := net.SplitHostPort(target)
	switch {
	case target == "":
		return "", errors.New("missing address")
	case err != nil:
		return net.JoinHostPort(target, "443"), nil //nolint:nilerr // there is no port to split off
	case port == "":
		return "", errors.New("missing port after port-separator colon")
	case host == "":
		host = "localhost"
	}
	return net.JoinHostPort(host, port), nil
}

// ThroughProxy asks an HTTP proxy for a connection to addr.
func ThroughProxy(ctx context.Context, proxy *url.URL, addr, userAgent string) (net.Conn, error) {
	at := proxy.Host
	if proxy.Port() == "" {
		at = net.JoinHostPort(proxy.Hostname(), "443")
	}
	nc, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, fmt.Errorf("proxy: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() })
	defer stop()
	through, err := tunnel(nc, proxy.User, addr, userAgent)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	return through, nil
}

// maxProxyReply bounds the header of a proxy's reply.
const maxProxyReply = 64 << 10

// tunnel sends the request to the proxy, and returns the connection after its reply.
func tunnel(nc net.Conn, user *url.Userinfo, addr, userAgent string) (net.Conn, error) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: addr}, Host: addr,
		Header: http.Header{"User-Agent": {userAgent}},
	}
	if user != nil {
		password, _ := user.Password()
		req.Header.Set("Proxy-Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password)))
	}
	if err := req.Write(nc); err != nil {
		return nil, err
	}
	r := bufio.NewReader(io.LimitReader(nc, maxProxyReply))
	reply, err := http.ReadResponse(r, req)
	if err != nil {
		return nil, err
	}
	_ = reply.Body.Close()
	if reply.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("CONNECT %s: %s", addr, reply.Status)
	}
	if n := r.Buffered(); n > 0 {
		head, _ := r.Peek(n) // the server's first bytes
		return &headedConn{nc, io.MultiReader(bytes.NewReader(head), nc)}, nil
	}
	return nc, nil
}

// A headedConn is a connection whose first bytes have been read already.
type headedConn struct {
	net.Conn
	all io.Reader
}

func (c *headedConn) Read(p []byte) (int, error) { return c.all.Read(p) }
