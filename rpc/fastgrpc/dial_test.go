package fastgrpc

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/attributes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/status"
)

// connectProxy is an HTTP proxy that carries all connections to one address.
type connectProxy struct {
	net.Listener
	to string

	mu    sync.Mutex
	asked []string
}

func startProxy(t *testing.T, to string) *connectProxy {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{Listener: lis, to: to}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			nc, err := lis.Accept()
			if err != nil {
				return
			}
			running.Go(func() { p.carry(nc) })
		}
	})
	t.Cleanup(func() {
		_ = lis.Close()
		running.Wait()
	})
	return p
}

func (p *connectProxy) carry(nc net.Conn) {
	defer func() { _ = nc.Close() }()
	r := bufio.NewReader(nc)
	req, err := http.ReadRequest(r)
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, fmt.Sprint(req.Method, " ", req.Host, " ", req.Header.Get("Proxy-Authorization")))
	p.mu.Unlock()
	if strings.HasPrefix(req.Host, "forbidden") {
		_, _ = io.WriteString(nc, "HTTP/1.1 403 Forbidden\r\n\r\n")
		return
	}
	server, err := net.Dial("tcp", p.to)
	if err != nil {
		return
	}
	defer func() { _ = server.Close() }()
	if _, err := io.WriteString(nc, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
		return
	}
	go func() { _, _ = io.Copy(server, r); _ = server.Close() }()
	_, _ = io.Copy(nc, server)
}

// TestProxy checks which connections go through HTTPS_PROXY, and as what.
func TestProxy(t *testing.T) {
	_, target := startFast(t)
	address := strings.TrimPrefix(target, "passthrough:///")
	for _, c := range []struct {
		target string
		opts   []ClientOption
		asked  string // of the proxy; "" if it is not used
		want   codes.Code
	}{
		{"dns:///name.of.nobody.invalid", nil, "CONNECT name.of.nobody.invalid:443 Basic dXNlcjpwYXNz", codes.OK},
		{"dns:///name.of.nobody.invalid:50", nil, "CONNECT name.of.nobody.invalid:50 Basic dXNlcjpwYXNz", codes.OK},
		{"passthrough:///other.invalid:1", nil, "CONNECT other.invalid:1 Basic dXNlcjpwYXNz", codes.OK},
		{"several:///other.invalid", nil, "CONNECT 192.0.2.1:7 Basic dXNlcjpwYXNz", codes.OK},
		{"dns:///forbidden.invalid", nil, "CONNECT forbidden.invalid:443 Basic dXNlcjpwYXNz", codes.Unavailable},
		{target, nil, "", codes.OK}, // excepted below
		{"passthrough:///" + address, []ClientOption{WithNoProxy()}, "", codes.OK},
		{"dns:///localhost:1", []ClientOption{WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		})}, "", codes.OK},
	} {
		t.Run(c.target, func(t *testing.T) {
			proxy := startProxy(t, address)
			r := manual.NewBuilderWithScheme("several")
			r.InitialState(resolver.State{Addresses: []resolver.Address{{Addr: "192.0.2.1:7"}}})
			opts := append([]ClientOption{WithResolvers(r), func(o *clientOptions) {
				o.proxyFromEnvironment = func(r *http.Request) (*url.URL, error) {
					if r.URL.Host == address {
						return nil, nil
					}
					return &url.URL{Scheme: "http", Host: proxy.Addr().String(), User: url.UserPassword("user", "pass")}, nil
				}
			}}, c.opts...)
			client := dialFast(t, c.target, opts...)
			if err := ping(testContext(t), client); status.Code(err) != c.want {
				t.Errorf("%v", err)
			}
			_ = client.Close()
			proxy.mu.Lock()
			defer proxy.mu.Unlock()
			if got := strings.Join(slices.Compact(proxy.asked), ", "); got != c.asked {
				t.Errorf("the proxy was asked %q, want %q", got, c.asked)
			}
		})
	}
}

// TestAuthorityMatchesGRPCGo checks which authorities a call may name, and what the
// server sees.
func TestAuthorityMatchesGRPCGo(t *testing.T) {
	serverCreds, clientCreds := tlsForTests(t)
	tellAuthority := grpc.UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
		md, _ := metadata.FromIncomingContext(ctx)
		_ = grpc.SetHeader(ctx, metadata.MD{"authority": md[":authority"]})
		return h(ctx, in)
	})
	secure, plain := serve(t, grpc.NewServer(grpc.Creds(serverCreds), tellAuthority)), serve(t, grpc.NewServer(tellAuthority))
	address := func(target, name string) resolver.State {
		return resolver.State{Addresses: []resolver.Address{{Addr: strings.TrimPrefix(target, "passthrough:///"), ServerName: name}}}
	}
	anyName := credentials.NewTLS(&tls.Config{InsecureSkipVerify: true}) //nolint:gosec // to see the name that is asked for
	tls := func(c credentials.TransportCredentials) setup {
		return setup{ours: []ClientOption{WithTransportCredentials(c)}, theirs: []grpc.DialOption{grpc.WithTransportCredentials(c)}}
	}
	authority := func(s setup, name string) setup {
		s.ours, s.theirs = append(s.ours, WithAuthority(name)), append(s.theirs, grpc.WithAuthority(name))
		return s
	}
	for name, c := range map[string]struct {
		setup
		state resolver.State
		call  string
	}{
		"certificate's":              {tls(clientCreds), address(secure, ""), "server.test"},
		"not the certificate's":      {tls(clientCreds), address(secure, ""), "other.test"},
		"cleartext":                  {setup{}, address(plain, ""), "other.test"},
		"none":                       {setup{}, address(plain, ""), ""},
		"the resolver's":             {setup{}, address(plain, "resolved.test"), ""},
		"the client's":               {authority(setup{}, "client.test"), address(plain, "resolved.test"), ""},
		"the resolver's, over TLS":   {tls(anyName), address(secure, "resolved.test"), ""},
		"escaped":                    {setup{target: "test:///a b/c"}, address(plain, ""), ""},
		"a port":                     {setup{target: "test:///:50"}, address(plain, ""), ""},
		"not what the creds require": {authority(tls(clientCreds), "server.test"), address(secure, ""), ""},
	} {
		t.Run(name, func(t *testing.T) {
			var seen string
			forBoth(t, func(t *testing.T, dial func(setup) subject) {
				c.setup.state = c.state
				var opts []grpc.CallOption
				if c.call != "" {
					opts = append(opts, grpc.CallAuthority(c.call))
				}
				var header metadata.MD
				_, err := testgrpc.NewTestServiceClient(dial(c.setup)).UnaryCall(testContext(t), request(nil), append(opts, grpc.Header(&header))...)
				got := fmt.Sprint(status.Code(err), header["authority"])
				if seen == "" {
					seen = got
				} else if seen != got {
					t.Errorf("grpc-go %s, fastgrpc %s", seen, got)
				}
			})
		})
	}
	if _, err := NewClient("dns:///x", WithTransportCredentials(clientCreds), WithAuthority("other.test")); err == nil {
		t.Error("an authority that contradicts the credentials is accepted")
	}
}

// attributesSeen is credentials that tell what the resolver said of the address.
type attributesSeen struct {
	credentials.TransportCredentials
	seen chan any
}

func (a attributesSeen) ClientHandshake(ctx context.Context, name string, nc net.Conn) (net.Conn, credentials.AuthInfo, error) {
	a.seen <- credentials.ClientHandshakeInfoFromContext(ctx).Attributes.Value("key")
	return a.TransportCredentials.ClientHandshake(ctx, name, nc)
}

// bundle is transport credentials with call credentials.
type bundle struct {
	credentials.Bundle
	transport credentials.TransportCredentials
	call      credentials.PerRPCCredentials
}

func (b bundle) TransportCredentials() credentials.TransportCredentials { return b.transport }
func (b bundle) PerRPCCredentials() credentials.PerRPCCredentials       { return b.call }

// TestHandshakeInfo checks that credentials and dialers get the address's attributes, and
// that a bundle's call credentials are sent.
func TestHandshakeInfo(t *testing.T) {
	_, target := startFast(t)
	r := manual.NewBuilderWithScheme("test")
	r.InitialState(resolver.State{Addresses: []resolver.Address{{
		Addr: strings.TrimPrefix(target, "passthrough:///"), Attributes: attributes.New("key", "value"),
	}}})
	creds := attributesSeen{insecure.NewCredentials(), make(chan any, 10)}
	c, err := NewClient("test:///any", WithResolvers(r), WithCredentialsBundle(bundle{transport: creds, call: token{}}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	var header metadata.MD
	if _, err := testgrpc.NewTestServiceClient(c).UnaryCall(testContext(t), request(nil), grpc.Header(&header)); err != nil {
		t.Fatal(err)
	}
	if got := <-creds.seen; got != "value" {
		t.Errorf("the handshake saw %v", got)
	}
	if len(header["echo"]) != 1 || header["echo"][0] != "token for https://any/grpc.testing.TestService" {
		t.Errorf("the server got the call credentials %q", header["echo"])
	}
	if _, err := NewClient("test:///any", WithTransportCredentials(creds), WithCredentialsBundle(bundle{transport: creds})); err == nil {
		t.Error("a bundle beside transport credentials is accepted")
	}
}

// TestTimeoutIsComputedWhenSent checks that a server's timeout does not include the time
// before the call was sent.
func TestTimeoutIsComputedWhenSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		left := make(chan time.Duration, 1)
		s := NewServer(UnaryInterceptor(func(ctx context.Context, in any, _ *grpc.UnaryServerInfo, h grpc.UnaryHandler) (any, error) {
			d, _ := ctx.Deadline()
			left <- time.Until(d)
			return h(ctx, in)
		}))
		testgrpc.RegisterTestServiceServer(s, echo{})
		c := dialFast(t, "passthrough:///any", WithContextDialer(func(context.Context, string) (net.Conn, error) {
			time.Sleep(7 * time.Second)
			near, far := net.Pipe()
			go func() { _ = s.ServeConn(far) }()
			return near, nil
		}))
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := ping(ctx, c); err != nil {
			t.Fatal(err)
		}
		if got := <-left; got != 3*time.Second {
			t.Errorf("after 7 s of 10 the server was given %v", got)
		}
		_ = c.Close()
		s.Stop()
	})
}

// TestInterceptorsSeeDefaultOptions checks that they do, before the call's own.
func TestInterceptorsSeeDefaultOptions(t *testing.T) {
	var seen []string
	forBoth(t, func(t *testing.T, dial func(setup) subject) {
		var got []string
		note := func(opts []grpc.CallOption) {
			for _, o := range opts {
				got = append(got, fmt.Sprintf("%T", o))
			}
		}
		unary := func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			note(opts)
			return invoke(ctx, method, req, reply, cc, opts...)
		}
		stream := func(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
			note(opts)
			return streamer(ctx, desc, cc, method, opts...)
		}
		option := grpc.MaxCallRecvMsgSize(1 << 20)
		c := testgrpc.NewTestServiceClient(dial(setup{
			target: serve(t, NewServer()),
			ours:   []ClientOption{WithDefaultCallOptions(option), WithUnaryInterceptor(unary), WithStreamInterceptor(stream)},
			theirs: []grpc.DialOption{grpc.WithDefaultCallOptions(option), grpc.WithUnaryInterceptor(unary), grpc.WithStreamInterceptor(stream)},
		}))
		if _, err := c.EmptyCall(testContext(t), &testgrpc.Empty{}, grpc.WaitForReady(true)); err != nil {
			t.Error(err)
		}
		if _, err := threeMessages(testContext(t), c); err != nil {
			t.Error(err)
		}
		if seen == nil {
			seen = got
		} else if !slices.Equal(seen, got) {
			t.Errorf("grpc-go's see %q, fastgrpc's %q", seen, got)
		}
	})
}
