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

	"google.golang.org/grpc/resolver"
)

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
			return nil // excepted by NO_PROXY
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

// tunnel sends the request to the proxy, and returns the connection behind its reply.
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
		return &headedConn{nc, head}, nil
	}
	return nc, nil
}

// A headedConn is a connection whose first bytes have been read already.
type headedConn struct {
	net.Conn
	head []byte
}

// Read returns the first bytes before others.
func (c *headedConn) Read(p []byte) (int, error) {
	if len(c.head) > 0 {
		n := copy(p, c.head)
		c.head = c.head[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}
