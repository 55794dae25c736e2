package fastgrpc

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/facade"
	"wirelab.dev/rpc/fastgrpc/internal/message"
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
	c.unary = rpccall.ChainUnaryClient(c.opts.unaryInterceptors, func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		return c.invokeWithOptions(ctx, &invocation{method: method, req: req, reply: reply}, nil, opts)
	})
	c.stream = rpccall.ChainStreamClient(c.opts.streamInterceptors, func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return c.newStreamWithOptions(ctx, desc, method, nil, opts)
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
	return c.invokeWithOptions(ctx, &invocation{method: method, req: req, reply: reply}, c.opts.callOptions, opts)
}

// withDefaultOptions returns the client's default call options, followed by opts.
func (c *Client) withDefaultOptions(opts []grpc.CallOption) []grpc.CallOption {
	if len(c.opts.callOptions) == 0 {
		return opts
	}
	return slices.Concat(c.opts.callOptions, opts)
}

func (c *Client) invokeWithOptions(ctx context.Context, in *invocation, defaults, opts []grpc.CallOption) (err error) {
	info := &in.info
	timeout, err := c.prepareCall(ctx, in.method, info, defaults, opts)
	if len(info.OnFinish) > 0 {
		defer func() { info.CallOnFinish(err) }()
	}
	if err != nil {
		return err
	}
	if timeout >= 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, timeout)
		defer cancel()
	}
	return c.invoke(ctx, in)
}

// NewStream begins a streaming call. Generated code calls it.
func (c *Client) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.stream != nil {
		return c.stream(ctx, desc, c.ClientConn(), method, c.withDefaultOptions(opts)...)
	}
	return c.newStreamWithOptions(ctx, desc, method, c.opts.callOptions, opts)
}

func (c *Client) newStreamWithOptions(ctx context.Context, desc *grpc.StreamDesc, method string, defaults, opts []grpc.CallOption) (grpc.ClientStream, error) {
	var info callInfo
	timeout, err := c.prepareCall(ctx, method, &info, defaults, opts)
	if err != nil {
		info.CallOnFinish(err)
		return nil, err
	}
	cancel := context.CancelFunc(func() {})
	if timeout >= 0 {
		ctx, cancel = context.WithTimeout(ctx, timeout)
	}
	return c.newStream(ctx, cancel, desc, method, info)
}

// prepareCall fills in info from the call's options and the service config. The timeout is
// negative if the service config has none.
func (c *Client) prepareCall(ctx context.Context, method string, info *callInfo, defaults, opts []grpc.CallOption) (timeout time.Duration, err error) {
	if err = info.readOptions(&c.opts, defaults, opts); err != nil {
		return 0, err
	}
	p := c.pickerState.Load()
	if p.config == nil {
		if p, info.resolutionDelay, err = c.waitForConfig(ctx); err != nil {
			return 0, err
		}
	}
	info.throttle = p.throttle
	m := p.config.ForMethod(method)
	info.applyConfig(&c.opts, m)
	if m == nil || m.Timeout == nil {
		return -1, nil
	}
	return time.Duration(*m.Timeout), nil
}

// An invocation holds the values that all attempts of a unary call share.
type invocation struct {
	method     string
	req, reply any
	info       callInfo
	tries      retryState
}

func (c *Client) invoke(ctx context.Context, in *invocation) error {
	info := &in.info
	for {
		out, err := c.makeAttempt(ctx, in)
		if err == nil {
			info.throttle.CallSucceeded()
			return nil
		}
		if err = c.waitToRetry(ctx, &in.tries, info, &out, err); err != nil {
			return err
		}
	}
}

// waitToRetry returns the call's error if no attempt may follow. Otherwise it waits until the next
// attempt may begin, and returns nil.
func (c *Client) waitToRetry(ctx context.Context, t *retryState, info *callInfo, e *attemptFailure, err error) error {
	pause, err := t.pauseBeforeNext(info, e, err)
	if err != nil || t.transparent {
		return err
	}
	c.channel.addWaitingCall()
	defer c.channel.removeWaitingCall()
	if !connect.Sleep(ctx, pause, nil) {
		return status.FromContextError(ctx.Err()).Err()
	}
	return nil
}

// makeAttempt makes a unary call on one connection.
func (c *Client) makeAttempt(ctx context.Context, in *invocation) (out attemptFailure, err error) {
	info := &in.info
	var o *observer
	if c.opts.stats != nil && info.on == nil {
		o = c.startObserver(ctx, in.method, info, &grpc.StreamDesc{}, &in.tries)
		ctx = o.ctx
		defer func() { o.reportEnd(nil, err) }() // for an attempt that gets no stream
	}
	out.final = true // without a stream, no attempt may follow
	fields, err := c.variableFields(ctx, &in.tries)
	if err != nil {
		return out, err
	}
	b, err := message.Encode(info.codec, info.compressor, in.req, info.MaxSend)
	if err != nil {
		return out, err
	}
	u := c.newUnaryCall(info, o)
	cc, err := c.openStream(ctx, u, in.method, info, fields)
	if err != nil {
		b.Release()
		out.final = u.dropped
		c.recycleCall(u)
		return out, err
	}
	out.final = len(b.Data) > info.maxReplay
	size := message.SizesOf(b)
	cc.h2.SendData(&u.h2, batchio.Payload{Data: b.Data, Owner: b}, true)
	cc.FlushBatch()
	cc.Mu.Unlock()
	o.reportRequestHeader(cc, info)
	o.reportSent(in.req, size)
	if done := ctx.Done(); done == nil {
		<-u.signal
	} else {
		select {
		case <-u.signal:
		case <-done:
			cc.cancelCall(u, endingOf(ctx))
			<-u.signal
		}
	}
	err = c.readReply(u, in.reply, info)
	u.reportEnd(err)
	info.reportResponse(u)
	if err != nil {
		out.setFrom(u)
	}
	c.recycleCall(u)
	return out, err
}

// endingOf returns the ending of a call whose context has ended.
func endingOf(ctx context.Context) ending.Ending {
	return ending.FromError(status.FromContextError(ctx.Err()).Err())
}

// readReply reads the response of a unary call that has ended.
func (c *Client) readReply(u *clientCall, reply any, info *callInfo) error {
	u.observer.reportHeaderReceived(u)
	if u.end.Kind != ending.Succeeded {
		return u.end.Err
	}
	m, ok := u.inbox.Take()
	if !ok {
		return status.Error(codes.Internal, "fastgrpc: the server ended a unary call with OK but without a response message")
	}
	size, err := message.Decode(info.codec, u.received, &m, reply, message.DecodeOptions{Limit: info.MaxReceive})
	if err == nil {
		u.observer.reportReceived(reply, size)
	}
	return err
}

// openStream opens the call's stream on a connection that the balancer chooses. If it succeeds,
// the connection's lock is held on return.
func (c *Client) openStream(ctx context.Context, u *clientCall, method string, info *callInfo, fields []hpack.HeaderField) (*clientConn, error) {
	for {
		p, err := c.pickConn(ctx, method, info)
		if err != nil {
			u.dropped = p.drop
			return nil, err
		}
		if p.blocked && u.observer != nil {
			u.observer.report(&stats.DelayedPickComplete{})
		}
		u.picked = p.done
		u.wantMetadata = u.wantMetadata || p.done != nil
		fixed, extra, err := c.requestHeader(ctx, &p, method, info, fields)
		if err == nil {
			if err = p.conn.openStream(ctx, u, fixed, extra); err == nil {
				return p.conn, nil
			}
		}
		if p.done != nil {
			p.done(balancer.DoneInfo{Err: err})
			u.picked = nil
		}
		if !errors.Is(err, errConnDraining) {
			return nil, err
		}
		p.conn.closeAfterCalls() // nothing was sent, so the loop tries another connection
	}
}

// newUnaryCall takes a call from the client's pool. Clients do not share a pool, because a call
// holds a channel, and channels must not leave a testing/synctest bubble.
func (c *Client) newUnaryCall(info *callInfo, o *observer) *clientCall {
	u, _ := c.calls.Get().(*clientCall)
	if u == nil {
		u = &clientCall{signal: make(chan struct{}, 1)}
		u.h2.Owner = u
	}
	u.inbox.Init(info.MaxReceive)
	u.observer = o
	u.wantMetadata = info.Header != nil || info.Trailer != nil || o != nil || info.retry != nil
	return u
}

// recycleCall puts a call back into the pool. The call must have ended, or never have had a stream.
func (c *Client) recycleCall(u *clientCall) {
	u.inbox.Drop()
	signal := u.signal
	*u = clientCall{signal: signal}
	u.h2.Owner = u
	c.calls.Put(u)
}

// startObserver returns an observer for an attempt of a call, and reports the attempt's begin.
func (c *Client) startObserver(ctx context.Context, method string, info *callInfo, desc *grpc.StreamDesc, t *retryState) *observer {
	begin := &stats.Begin{
		IsTransparentRetryAttempt: t.transparent,
		Client:                    true, FailFast: !info.WaitForReady,
		IsClientStream: desc.ClientStreams, IsServerStream: desc.ServerStreams,
	}
	o := newObserver(ctx, c.opts.stats, &stats.RPCTagInfo{FullMethodName: method, FailFast: begin.FailFast, NameResolutionDelay: info.resolutionDelay}, begin)
	o.report(begin)
	return o
}
