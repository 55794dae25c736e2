package fastgrpc

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
	"path/filepath"
	"strings"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	rpccall "wirelab.dev/rpc/call"
)

// dialFirst connects to the first address that accepts a connection, or returns the
// first one's error.
func (c *Client) dialFirst(ctx context.Context, sc *subConn, addrs []resolver.Address) (cc *clientConn, at resolver.Address, err error) {
	for _, addr := range addrs {
		cc, failure := c.dial(ctx, sc, addr)
		if failure == nil {
			return cc, addr, nil
		}
		if err == nil {
			err = failure
		}
		if ctx.Err() != nil {
			break
		}
	}
	return nil, at, err
}

// dial returns a connection whose server has sent its SETTINGS.
func (c *Client) dial(ctx context.Context, sc *subConn, addr resolver.Address) (*clientConn, error) {
	ctx = context.WithValue(ctx, handshakeInfoKey, credentials.ClientHandshakeInfo{Attributes: addr.Attributes})
	nc, err := c.dialSocket(ctx, addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
	}
	limitSilence(nc, c.opts.keepalive.Time, c.opts.keepalive.Timeout)
	name := c.serverName(addr)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // for credentials that ignore ctx
	secured, auth, err := c.opts.creds.ClientHandshake(ctx, name, nc)
	if err == nil {
		err = checkCallCredentials(c.opts.perRPC, auth)
	}
	if err != nil {
		stop()
		_ = nc.Close()
		return nil, fmt.Errorf("handshake with %s: %w", addr.Addr, err)
	}
	if !stop() {
		return nil, fmt.Errorf("handshake with %s: %w", addr.Addr, ctx.Err())
	}
	cc := newClientConn(c, secured, auth)
	cc.subConn, cc.serverName = sc, name
	if md, ok := addr.Metadata.(*metadata.MD); ok { //nolint:staticcheck // deprecated; grpc-go still sends it with each call
		cc.metadata = *md
	}
	if !c.channel.set.Add(cc) {
		_ = secured.Close()
		return nil, ErrClientClosed
	}
	select {
	case <-cc.gotSettings:
		return cc, nil
	case <-cc.draining:
		err = cc.closeReason()
	case <-ctx.Done():
		err = errNoPreface
		cc.Close(err)
	}
	return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
}

// handshakeInfoKey is the key under which credentials look up an address's attributes.
var handshakeInfoKey = rpccall.KeyOf(func(ctx context.Context) { credentials.ClientHandshakeInfoFromContext(ctx) })

// serverName returns the name that an address's server must have, which is also the
// :authority of calls to it. The program's word counts more than the resolver's.
func (c *Client) serverName(addr resolver.Address) string {
	if c.opts.authority == "" && addr.ServerName != "" {
		return addr.ServerName
	}
	return c.authority
}

func (c *Client) dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	network, path := networkOf(c.channel.target, addr)
	if dialer := c.opts.dialer; dialer != nil {
		if scheme := c.channel.target.URL.Scheme; scheme == "unix" || scheme == "unix-abstract" {
			// As grpc-go does: such dialers expect the target's form.
			if filepath.IsAbs(path) {
				return dialer(ctx, "unix://"+path)
			}
			return dialer(ctx, "unix:"+path)
		}
		return dialer(ctx, addr)
	}
	if network == "tcp" && c.channel.proxy != nil {
		if proxy := c.channel.proxy(addr); proxy != nil {
			return c.dialProxy(ctx, proxy, addr)
		}
	}
	return new(net.Dialer).DialContext(ctx, network, path)
}

// networkOf returns the network and the address of a resolver's address. The scheme of
// the target or of the address decides, never the address's letters.
func networkOf(target resolver.Target, addr string) (network, path string) {
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

// proxyOf returns the function that says which proxy carries connections to an address,
// or nil. name is not "" if the proxy also resolves the target's name. The environment
// variables HTTPS_PROXY and NO_PROXY decide, as in grpc-go.
func (o *clientOptions) proxyOf(target resolver.Target) (proxy func(addr string) *url.URL, name string, err error) {
	if o.dialer != nil || o.noProxy {
		return nil, "", nil
	}
	lookup := func(addr string) (*url.URL, error) {
		return o.proxyFromEnvironment(&http.Request{URL: &url.URL{Scheme: "https", Host: addr}})
	}
	leave := target.URL.Scheme == "dns" && !o.localDNS
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

// withPort adds what a proxy needs and a DNS target may leave out.
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

// dialProxy asks an HTTP proxy for a connection to addr.
func (c *Client) dialProxy(ctx context.Context, proxy *url.URL, addr string) (net.Conn, error) {
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
	tunnel, err := c.connectThrough(nc, proxy.User, addr)
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("proxy %s: %w", proxy.Host, err)
	}
	return tunnel, nil
}

// maxProxyReply bounds the header of a proxy's reply.
const maxProxyReply = 64 << 10

func (c *Client) connectThrough(nc net.Conn, user *url.Userinfo, addr string) (net.Conn, error) {
	req := &http.Request{
		Method: http.MethodConnect, URL: &url.URL{Host: addr}, Host: addr,
		Header: http.Header{"User-Agent": {c.opts.userAgent + userAgent}},
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

// headedConn is a connection of which the first bytes have been read already.
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
