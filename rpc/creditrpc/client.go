package creditrpc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	rpccall "wirelab.dev/rpc/call"
)

// A Client makes calls to one server over one connection. It opens the connection when the
// first call needs it, and again when it was lost. Its methods may be called concurrently.
type Client struct {
	opts    clientOptions
	target  string
	network string
	address string
	unary   grpc.UnaryInvoker // calls the interceptors; nil if there are none
	stream  grpc.Streamer
	calls   sync.Pool // holds *clientCall for unary calls

	conns   rpccall.Conns[*clientConn] // its lock also guards the fields below
	current *clientConn                // the connection for new calls, or nil
	dialing chan struct{}              // closed when the current dial ends; nil if there is none
	failed  error                      // the error of the last dial, or nil
	retryAt time.Time                  // no dial begins before this time
	pause   time.Duration
	ctx     context.Context // cancelled by Close
	cancel  context.CancelFunc
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// ALPN is the protocol's name in the TLS handshake (RFC 7301).
const ALPN = "creditrpc/1"

// ErrClosed is returned by calls after Close.
var ErrClosed = status.Error(codes.Canceled, "creditrpc: the client is closed")

// NewClient returns a client for "host:port" or "unix:path". It connects on the first call.
func NewClient(target string, opts ...ClientOption) (*Client, error) {
	c := &Client{opts: defaultClientOptions(), target: target, network: "tcp", address: strings.TrimPrefix(target, "passthrough:///")}
	for _, o := range opts {
		o(&c.opts)
	}
	if path, is := strings.CutPrefix(target, "unix:"); is {
		c.network, c.address = "unix", path
	} else if _, _, err := net.SplitHostPort(c.address); err != nil {
		return nil, fmt.Errorf("creditrpc: target %q: want host:port or unix:path: %w", target, err)
	}
	if c.opts.dial == nil {
		c.opts.dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, c.network, address)
		}
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.calls.New = func() any { return &clientCall{signal: make(chan struct{}, 1)} }
	c.unary = rpccall.ChainUnaryClient(c.opts.unary, c.invoke)
	c.stream = rpccall.ChainStreamClient(c.opts.stream, c.newStream)
	return c, nil
}

// Target returns the target that was passed to NewClient.
func (c *Client) Target() string { return c.target }

// Close ends the connection and its calls, and waits for the connection's goroutines.
func (c *Client) Close() error {
	c.conns.Mu.Lock()
	if c.conns.Closed {
		c.conns.Mu.Unlock()
		return ErrClosed
	}
	c.conns.Closed = true
	c.cancel()
	open := c.conns.All()
	c.conns.Mu.Unlock()
	for _, cc := range open {
		cc.Close(ErrClosed)
	}
	c.conns.Running.Wait()
	return nil
}

// Connect opens the connection, if there is none. It returns when that has succeeded or failed.
func (c *Client) Connect(ctx context.Context) error {
	_, err := c.pickConn(ctx, false)
	return err
}

// pickConn returns the connection, and opens one if there is none. If a dial has just failed,
// pickConn returns the dial's error, unless wait is set.
func (c *Client) pickConn(ctx context.Context, wait bool) (*clientConn, error) {
	for waited := false; ; waited = true {
		c.conns.Mu.Lock()
		switch {
		case c.conns.Closed:
			c.conns.Mu.Unlock()
			return nil, ErrClosed
		case c.current != nil:
			cc := c.current
			c.conns.Mu.Unlock()
			return cc, nil
		case c.failed != nil && !wait && (waited || c.dialing == nil && time.Now().Before(c.retryAt)):
			err := c.failed
			c.conns.Mu.Unlock()
			return nil, rpccall.WithCause(status.Newf(codes.Unavailable, "creditrpc: %v", err), err)
		case c.dialing == nil:
			c.dialing = make(chan struct{})
			go c.connect(time.Until(c.retryAt)) // ends when the dial succeeds or fails
		}
		dialing := c.dialing
		c.conns.Mu.Unlock()
		select {
		case <-dialing:
		case <-ctx.Done():
			return nil, status.FromContextError(ctx.Err()).Err()
		}
	}
}

// connect opens a connection after a pause.
func (c *Client) connect(pause time.Duration) {
	select {
	case <-time.After(max(0, pause)):
	case <-c.ctx.Done():
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.opts.dialTimeout)
	defer cancel()
	cc, err := c.dial(ctx)
	c.conns.Mu.Lock()
	defer c.conns.Mu.Unlock()
	if err == nil && cc.ctx.Err() != nil {
		err = errors.New("the connection was lost as soon as it was open")
	}
	if c.failed = err; err == nil {
		c.current, c.pause = cc, 0
	} else {
		const longest = 10 * time.Second
		c.pause = min(max(c.opts.backoff, 2*c.pause), longest)
		c.retryAt = time.Now().Add(c.pause)
	}
	close(c.dialing)
	c.dialing = nil
}

// dial returns a connection whose server has sent its Hello.
func (c *Client) dial(ctx context.Context) (*clientConn, error) {
	nc, err := c.opts.dial(ctx, c.address)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", c.address, err)
	}
	nc = c.opts.prepare(nc)
	stop := context.AfterFunc(ctx, func() { _ = nc.Close() }) // because some credentials ignore ctx
	host, _, _ := net.SplitHostPort(c.address)
	var auth credentials.AuthInfo
	secured, auth, err := c.opts.creds.ClientHandshake(ctx, host, rpccall.ForHandshake(nc, c.opts.creds))
	if !stop() && err == nil {
		err = ctx.Err()
	}
	if err != nil {
		_ = nc.Close()
		return nil, fmt.Errorf("handshake with %s: %w", c.address, err)
	}
	cc := newClientConn(c, secured, auth)
	if !c.conns.Add(cc) {
		_ = secured.Close()
		return nil, ErrClosed
	}
	select {
	case <-cc.greeted:
		return cc, nil
	case <-cc.ctx.Done():
		err = context.Cause(cc.ctx)
	case <-ctx.Done():
		err = fmt.Errorf("the server sent no Hello: %w", ctx.Err())
		cc.Close(err)
	}
	return nil, fmt.Errorf("connect to %s: %w", c.address, err)
}

// abandon makes new calls use another connection, which the next call opens.
func (c *Client) abandon(cc *clientConn) {
	c.conns.Mu.Lock()
	defer c.conns.Mu.Unlock()
	if c.current == cc {
		c.current = nil
	}
}

// allOptions returns the client's default options and then opts.
func (c *Client) allOptions(opts []grpc.CallOption) []grpc.CallOption {
	if len(c.opts.callOptions) == 0 {
		return opts
	}
	return slices.Concat(c.opts.callOptions, opts)
}

// Invoke makes a unary call. Generated code calls it.
func (c *Client) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	opts = c.allOptions(opts)
	if c.unary != nil {
		return c.unary(ctx, method, req, reply, nil, opts...)
	}
	return c.invoke(ctx, method, req, reply, nil, opts...)
}

// NewStream begins a streaming call. Generated code calls it. As in grpc-go, the client keeps the
// stream until the program has received the stream's end, cancels ctx, or closes the client.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	opts = c.allOptions(opts)
	if c.stream != nil {
		return c.stream(ctx, desc, nil, method, opts...)
	}
	return c.newStream(ctx, desc, nil, method, opts...)
}

// callInfo holds the options of one call.
type callInfo struct {
	rpccall.CallOptions
	creds []credentials.PerRPCCredentials
}

// readOptions reads a call's options. It ignores options for the program's interceptors.
func (c *Client) readOptions(opts []grpc.CallOption) (callInfo, error) {
	info := callInfo{creds: c.opts.perRPC}
	info.MaxSend, info.MaxReceive = c.opts.maxSend, c.opts.maxReceive
	var unknown error
	for _, option := range opts {
		if o, ok := option.(grpc.PerRPCCredsCallOption); ok {
			info.creds = append(info.creds[:len(info.creds):len(info.creds)], o.Creds)
		} else if !info.Apply(option) {
			unknown = status.Errorf(codes.Unimplemented, "creditrpc: the call option %T is not supported: see the package documentation", option)
		}
	}
	return info, unknown
}

// setResults passes the answer's peer, header and trailer to the call options that want them.
func (i *callInfo) setResults(cc *clientConn, call *clientCall) {
	if i.Peer != nil {
		*i.Peer = *cc.peer
	}
	if i.Header != nil {
		*i.Header = call.header
	}
	if i.Trailer != nil {
		*i.Trailer = call.trailer
	}
}

// metadata returns the metadata that the call sends, from its context and its credentials.
func (i *callInfo) metadata(ctx context.Context, cc *clientConn, method string) (metadata.MD, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	if len(i.creds) == 0 {
		return md, nil
	}
	call := credentials.RequestInfo{Method: method, AuthInfo: cc.peer.AuthInfo}
	all := []metadata.MD{md}
	for _, creds := range i.creds {
		more, err := rpccall.CredentialMetadata(ctx, creds, cc.client.address, call, codes.Unauthenticated)
		if err != nil {
			return nil, err
		}
		all = append(all, more)
	}
	return metadata.Join(all...), nil
}
