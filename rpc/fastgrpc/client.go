package fastgrpc

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/balancer"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/call/wire"
	"wirelab.dev/rpc/fastgrpc/internal/ending"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
	"wirelab.dev/rpc/fastgrpc/internal/message"
	"wirelab.dev/rpc/h2"
)

// A Client makes calls to one target. Its balancing policy decides how many connections
// it uses. Its methods may be called concurrently.
type Client struct {
	opts      clientOptions
	target    string
	authority string
	scheme    string // http or https, for the :scheme of requests
	codec     message.Codec
	unary     grpc.UnaryInvoker // the interceptors, or nil
	stream    grpc.Streamer

	fixed    atomic.Pointer[map[string]*h2.FixedFields]
	fixedMu  sync.Mutex
	pick     atomic.Pointer[picking]
	channel  channel
	calls    sync.Pool    // of *clientCall, the unary ones
	pingTime atomic.Int64 // keepalive time in force
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// NewClient returns a client for target, a URI such as "dns:///host:port",
// "passthrough:///host:port", "unix:/path" or plain "host:port", which is resolved
// by DNS. It connects on the first call.
func NewClient(target string, opts ...ClientOption) (*Client, error) {
	c := &Client{opts: defaultClientOptions(), target: target, scheme: "http"}
	for _, o := range opts {
		o(&c.opts)
	}
	if err := c.opts.finish(); err != nil {
		return nil, err
	}
	if c.opts.creds.Info().SecurityProtocol == "tls" {
		c.scheme = "https"
	}
	if c.codec = c.opts.codecFor(""); c.codec == nil {
		return nil, errors.New("fastgrpc: no proto codec is registered")
	}
	c.pingTime.Store(int64(c.opts.keepalive.Time))
	c.fixed.Store(&map[string]*h2.FixedFields{})
	c.unary = rpccall.ChainUnaryClient(c.opts.unaryInterceptors, func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
		return c.invokeWith(ctx, &invocation{method: method, req: req, reply: reply}, nil, opts)
	})
	c.stream = rpccall.ChainStreamClient(c.opts.streamInterceptors, func(ctx context.Context, desc *grpc.StreamDesc, _ *grpc.ClientConn, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
		return c.streamWith(ctx, desc, method, nil, opts)
	})
	if err := c.channel.init(c); err != nil {
		return nil, err
	}
	return c, nil
}

// Target returns the target that NewClient was given.
func (c *Client) Target() string { return c.target }

// Close ends all connections and calls.
func (c *Client) Close() error { return c.channel.close() }

// doublePingInterval reacts to a server's GOAWAY "too_many_pings".
func (c *Client) doublePingInterval() {
	if t := c.pingTime.Load(); t < int64(lifetime.Forever)/2 {
		c.pingTime.CompareAndSwap(t, 2*t)
	}
}

// Invoke makes a unary call. Generated code calls it.
func (c *Client) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if c.unary != nil {
		return c.unary(ctx, method, req, reply, nil, c.allOptions(opts)...)
	}
	return c.invokeWith(ctx, &invocation{method: method, req: req, reply: reply}, c.opts.callOptions, opts)
}

// allOptions returns the client's default options and then opts, for interceptors.
func (c *Client) allOptions(opts []grpc.CallOption) []grpc.CallOption {
	if len(c.opts.callOptions) == 0 {
		return opts
	}
	return slices.Concat(c.opts.callOptions, opts)
}

func (c *Client) invokeWith(ctx context.Context, in *invocation, defaults, opts []grpc.CallOption) (err error) {
	info := &in.info
	optionErr := info.readOptions(c, defaults, opts)
	if len(info.OnFinish) > 0 {
		defer func() { info.Finished(err) }()
	}
	if optionErr != nil {
		return optionErr
	}
	timeout, err := c.configure(ctx, in.method, info)
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

// configure applies the service config to a call. The timeout is negative if there is
// none.
func (c *Client) configure(ctx context.Context, method string, info *callInfo) (timeout time.Duration, err error) {
	applied := c.pick.Load().config
	if applied == nil {
		if applied, info.resolutionDelay, err = c.waitForConfig(ctx); err != nil {
			return 0, err
		}
	}
	info.throttle = applied.Throttle
	m := applied.Method(method)
	info.applyConfig(c, m)
	if m == nil || m.Timeout == nil {
		return -1, nil
	}
	return time.Duration(*m.Timeout), nil
}

// An invocation holds what all attempts of a unary call share.
type invocation struct {
	method     string
	req, reply any
	info       callInfo
	tries      tries
}

func (c *Client) invoke(ctx context.Context, in *invocation) error {
	info := &in.info
	for {
		out, err := c.attempt(ctx, in)
		if err == nil {
			info.throttle.Succeeded()
			return nil
		}
		if err = in.tries.next(ctx, c, info, &out, err); err != nil {
			return err
		}
	}
}

// attempt makes a unary call on one connection.
func (c *Client) attempt(ctx context.Context, in *invocation) (out attemptEnd, err error) {
	info := &in.info
	var o *observer
	if c.opts.stats != nil && info.on == nil {
		o = c.observe(ctx, in.method, info, &grpc.StreamDesc{}, &in.tries)
		ctx = o.ctx
		defer func() { o.end(err) }()
	}
	out.final = true // until there is something to try again
	fields, err := c.callFields(ctx, &in.tries)
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
		c.recycle(u)
		return out, err
	}
	out.final = len(b.Data) > info.maxReplay
	size := message.SizesOf(b)
	cc.h2.SendData(&u.h2, batchio.Payload{Data: b.Data, Owner: b}, true)
	cc.FlushBatch()
	cc.Mu.Unlock()
	o.opened(cc, info)
	o.sent(in.req, size)
	if done := ctx.Done(); done == nil {
		<-u.signal
	} else {
		select {
		case <-u.signal:
		case <-done:
			cc.cancel(u, ctx.Err())
			<-u.signal
		}
	}
	err = c.readReply(u, in.reply, info)
	u.reportDone(err)
	if err != nil {
		out.read(u)
	}
	c.recycle(u)
	return out, err
}

// readReply reads the response of a unary call that has ended.
func (c *Client) readReply(u *clientCall, reply any, info *callInfo) error {
	info.responded(u)
	if u.end.Kind != ending.Succeeded {
		return u.end.Err
	}
	m, ok := u.inbox.Take()
	if !ok {
		return status.Error(codes.Internal, "fastgrpc: response without a message")
	}
	size, err := message.Decode(info.codec, u.received, &m, reply, message.DecodeOptions{Limit: info.MaxReceive})
	if err == nil {
		u.observer.received(reply, size)
	}
	return err
}

// openStream opens the call's stream on a connection that the balancer picks. On
// success it returns with that connection's lock held.
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
			if err = p.conn.open(ctx, u, fixed, extra); err == nil {
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
		p.conn.leave() // nothing was sent, so another attempt costs nothing
	}
}

// requestHeader returns the request's header: the fields that all calls of the method
// have, and the others.
func (c *Client) requestHeader(ctx context.Context, p *picked, method string, info *callInfo, fields []hpack.HeaderField) (*h2.FixedFields, []hpack.HeaderField, error) {
	authority := p.conn.serverName
	if info.authority != "" {
		authority = info.authority
		if err := p.conn.checkAuthority(authority); err != nil {
			return nil, nil, err
		}
	}
	if p.metadata != nil {
		if err := wire.CheckMetadata(p.metadata); err != nil {
			return nil, nil, status.Error(codes.Internal, err.Error())
		}
		if a := p.metadata[":authority"]; len(a) > 0 && info.authority == "" { // gRFC A81
			if authority = a[0]; p.conn.checkAuthority(authority) != nil {
				return nil, nil, p.conn.checkAuthority(authority)
			}
		}
		fields = wire.AppendMetadata(slices.Clip(fields), p.metadata)
	}
	if p.conn.metadata != nil {
		fields = wire.AppendMetadata(slices.Clip(fields), p.conn.metadata)
	}
	if info.creds != nil || len(c.opts.perRPC) > 0 {
		var err error
		if fields, err = p.conn.appendCredentials(ctx, slices.Clip(fields), authority, method, info.creds); err != nil {
			return nil, nil, err
		}
	}
	return c.fixedFields(method, authority, info), fields, nil
}

// checkAuthority returns an error unless the server has proved that it may serve an authority
// other than the connection's.
func (cc *clientConn) checkAuthority(authority string) error {
	v, ok := cc.peer.AuthInfo.(credentials.AuthorityValidator)
	if !ok {
		return status.Errorf(codes.Unavailable, "fastgrpc: the transport credentials cannot validate the authority %q of CallAuthority", authority)
	}
	if err := v.ValidateAuthority(authority); err != nil {
		return status.Errorf(codes.Unavailable, "fastgrpc: authority %q of CallAuthority: %v", authority, err)
	}
	return nil
}

// maxFixedFields bounds the cache of a client whose method names never repeat.
const maxFixedFields = 1024

// fixedFields returns the header fields that all requests of a method begin with.
func (c *Client) fixedFields(method, authority string, info *callInfo) *h2.FixedFields {
	key := method // the common case needs no new string
	if authority != c.authority || info.subtype != "" || info.compressor != nil {
		key = strings.Join([]string{method, authority, info.subtype, message.CompressorName(info.compressor)}, "\x00")
	}
	if fixed := (*c.fixed.Load())[key]; fixed != nil {
		return fixed
	}
	fixed := c.newFixedFields(method, authority, info)
	c.fixedMu.Lock()
	defer c.fixedMu.Unlock()
	old := *c.fixed.Load()
	if len(old) >= maxFixedFields {
		return fixed
	}
	next := maps.Clone(old)
	next[key] = fixed
	c.fixed.Store(&next)
	return fixed
}

func (c *Client) userAgent() string { return c.opts.userAgent + userAgent }

func (c *Client) newFixedFields(path, authority string, info *callInfo) *h2.FixedFields {
	contentType := wire.ContentType
	if info.subtype != "" {
		contentType += "+" + info.subtype
	}
	if !strings.HasPrefix(path, "/") {
		path = "/" + path
	}
	fields := []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: c.scheme},
		{Name: ":path", Value: path},
		{Name: ":authority", Value: authority},
		{Name: wire.FieldContentType, Value: contentType},
		{Name: wire.FieldUserAgent, Value: c.userAgent()},
		{Name: "te", Value: "trailers"},
	}
	if info.compressor != nil {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldEncoding, Value: info.compressor.Name()})
	}
	if names := message.AcceptedCompressors(c.opts.compressors, info.compressor); names != "" {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldAcceptEncoding, Value: names})
	}
	return h2.NewFixedFields(fields...)
}

// callFields returns the header fields that differ from call to call. The first is the
// deadline's, if there is one; clientConn.open fills it in.
func (c *Client) callFields(ctx context.Context, t *tries) ([]hpack.HeaderField, error) {
	var fields []hpack.HeaderField
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if _, ok := ctx.Deadline(); ok {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldTimeout})
	}
	if t.retries > 0 {
		fields = append(fields, hpack.HeaderField{Name: wire.FieldAttempts, Value: strconv.Itoa(t.retries)})
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		if err := wire.CheckMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		fields = wire.AppendMetadata(fields, md)
	}
	return fields, nil
}
