package fastgrpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/facade"
	"wirelab.dev/rpc/h2"
)

// A Client makes calls to one target. The balancing policy decides how many connections the
// client opens. The client's methods may be called concurrently.
type Client struct {
	opts      clientOptions
	target    string
	authority string
	scheme    string            // the :scheme of requests, http or https
	unary     grpc.UnaryInvoker // calls the interceptors; nil if there are none
	stream    grpc.Streamer

	fixed       atomic.Pointer[map[string]*h2.FixedFields]
	fixedMu     sync.Mutex
	pickerState atomic.Pointer[pickerState]
	channel     channel
	facadeOnce  sync.Once
	facade      atomic.Pointer[facade.Facade] // what ClientConn returns; nil until then
	calls       sync.Pool                     // unused values of *clientCall, for unary calls
	pingTime    atomic.Int64                  // the pause between keepalive pings, in nanoseconds
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// NewClient returns a client for target, a URI such as "dns:///host:port",
// "passthrough:///host:port" or "unix:/path". DNS resolves a target of the form "host:port". The
// client connects on the first call.
func NewClient(target string, opts ...ClientOption) (*Client, error) {
	c := &Client{opts: defaultClientOptions(), target: target, scheme: "http"}
	for _, o := range opts {
		o(&c.opts)
	}
	if err := c.opts.checkAndSetDefaults(); err != nil {
		return nil, err
	}
	if c.opts.creds.Info().SecurityProtocol == "tls" {
		c.scheme = "https"
	}
	c.pingTime.Store(int64(c.opts.keepalive.Time))
	c.fixed.Store(&map[string]*h2.FixedFields{})
	// Clients do not share a pool, because channels must not leave a testing/synctest bubble.
	c.calls.New = func() any { return &clientCall{signal: make(chan struct{}, 1)} }
	c.unary = rpccall.ChainUnaryClient(c.opts.unaryInterceptors, func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		in := invocation{client: c, method: method, req: req, reply: reply}
		return in.invoke(ctx, opts)
	})
	c.stream = rpccall.ChainStreamClient(c.opts.streamInterceptors, func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		s := &clientStream{invocation: invocation{client: c, method: method, desc: desc}}
		return s.start(ctx, opts)
	})
	if err := c.channel.init(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Target returns the target that the program passed to NewClient.
func (c *Client) Target() string { return c.target }

// Close ends all connections and calls.
func (c *Client) Close() error {
	err := c.channel.close()
	if f := c.facade.Load(); f != nil {
		_ = f.Conn.Close()
	}
	return err
}

// ClientConn returns a *grpc.ClientConn whose calls this client makes. It is for libraries that
// accept no other type, and interceptors get it. Its Target, CanonicalTarget and state are the
// client's. It opens no connection of its own. Closing it closes the client, and the other way
// around. It does not know the client's service config, so its method GetMethodConfig returns
// nothing. Its method ResetConnectBackoff does nothing.
func (c *Client) ClientConn() *grpc.ClientConn {
	c.facadeOnce.Do(func() {
		f := facade.New(facadeClient{c}, c.target, c.channel.target.URL.Scheme, c.authority)
		c.facade.Store(f)
		f.Publish() // the state may have changed since New
		if c.GetState() == connectivity.Shutdown {
			_ = f.Conn.Close()
		}
	})
	return c.facade.Load().Conn
}

// A facadeClient is a Client as the package facade needs it.
type facadeClient struct{ *Client }

func (c facadeClient) CloseFromFacade() { _ = c.channel.close() }

// Invoke makes a unary call. Generated code calls it.
func (c *Client) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if c.unary != nil {
		return c.unary(ctx, method, req, reply, c.ClientConn(), c.withDefaultOptions(opts)...)
	}
	in := invocation{client: c, method: method, req: req, reply: reply}
	return in.invoke(ctx, c.opts.callOptions, opts)
}

// withDefaultOptions returns the client's default call options, followed by opts.
func (c *Client) withDefaultOptions(opts []grpc.CallOption) []grpc.CallOption {
	if len(c.opts.callOptions) == 0 {
		return opts
	}
	return slices.Concat(c.opts.callOptions, opts)
}

// NewStream begins a streaming call. Generated code calls it.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.stream != nil {
		return c.stream(ctx, desc, c.ClientConn(), method, c.withDefaultOptions(opts)...)
	}
	s := &clientStream{invocation: invocation{client: c, method: method, desc: desc}}
	return s.start(ctx, c.opts.callOptions, opts)
}
