package fastgrpc

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
)

// dialFirstReachable tries the addresses in order until one accepts a connection. If none does, it
// returns the first address's error.
func (c *Client) dialFirstReachable(ctx context.Context, sc *subConn, addrs []resolver.Address) (cc *clientConn, at resolver.Address, err error) {
	for _, addr := range addrs {
		cc, failure := c.dial(ctx, sc, addr)
		if failure == nil {
			return cc, addr, nil
		}
		if err = cmp.Or(err, failure); ctx.Err() != nil {
			break
		}
	}
	return nil, at, err
}

// dial connects to addr. It returns after the server has sent its HTTP/2 SETTINGS.
func (c *Client) dial(ctx context.Context, sc *subConn, addr resolver.Address) (*clientConn, error) {
	ctx = context.WithValue(ctx, handshakeInfoKey, credentials.ClientHandshakeInfo{Attributes: addr.Attributes})
	nc, err := c.dialSocket(ctx, addr.Addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
	}
	lifetime.LimitPeerSilence(nc, c.opts.keepalive.Time, c.opts.keepalive.Timeout)
	name := c.serverName(addr)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // some credentials ignore ctx
	secured, auth, err := c.opts.creds.ClientHandshake(ctx, name, rpccall.ForHandshake(nc, c.opts.creds))
	if err == nil {
		err = checkCallCredentials(c.opts.perRPC, auth)
	}
	if err != nil {
		stop()
		_ = nc.Close()
		return nil, fmt.Errorf("security handshake with %s: %w", addr.Addr, err)
	}
	if !stop() {
		return nil, fmt.Errorf("security handshake with %s: %w", addr.Addr, ctx.Err())
	}
	cc := newClientConn(sc, &c.opts, secured, auth)
	cc.serverName, cc.clock.Ping.Every = name, time.Duration(c.pingTime.Load())
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
		cc.Mu.Lock()
		err = cmp.Or(cc.Err(), errConnDraining)
		cc.Mu.Unlock()
	case <-ctx.Done():
		err = errNoSettings
		cc.Close(err)
	}
	return nil, fmt.Errorf("connect to %s: %w", addr.Addr, err)
}

// handshakeInfoKey is the context key under which credentials find an address's attributes.
var handshakeInfoKey = rpccall.KeyOf(func(ctx context.Context) { credentials.ClientHandshakeInfoFromContext(ctx) })

// serverName returns the name that the certificate of an address's server must contain. It is also
// the :authority of calls. The option WithAuthority overrides the resolver's name.
func (c *Client) serverName(addr resolver.Address) string {
	if c.opts.authority == "" && addr.ServerName != "" {
		return addr.ServerName
	}
	return c.authority
}

func (c *Client) dialSocket(ctx context.Context, addr string) (net.Conn, error) {
	network, path := connect.NetworkOf(c.channel.target, addr)
	if dialer := c.opts.dialer; dialer != nil {
		if scheme := c.channel.target.URL.Scheme; scheme == "unix" || scheme == "unix-abstract" {
			// As in grpc-go, the dialer gets the address in the form of a unix target.
			if filepath.IsAbs(path) {
				return dialer(ctx, "unix://"+path)
			}
			return dialer(ctx, "unix:"+path)
		}
		return dialer(ctx, addr)
	}
	if network == "tcp" && c.channel.proxy != nil {
		if proxy := c.channel.proxy(addr); proxy != nil {
			return connect.DialThroughProxy(ctx, proxy, addr, c.opts.fullUserAgent())
		}
	}
	return new(net.Dialer).DialContext(ctx, network, path)
}
