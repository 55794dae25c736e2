package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// userAgent is what servers see. Peers that know grpc-go's form parse ours alike.
const userAgent = "grpc-go-fastgrpc/1.0"

// Client makes calls to one target over as many connections as its balancing
// policy wants. Its methods may be called concurrently.
type Client struct {
	opts      clientOptions
	target    string
	authority string
	scheme    string // http or https, for the :scheme of requests
	codec     codec
	unary     grpc.UnaryInvoker // the interceptors, or nil
	stream    grpc.Streamer

	runs     atomic.Pointer[map[string]*h2.FixedFields]
	runsLock sync.Mutex
	pick     atomic.Pointer[picker]
	pool     pool
	calls    sync.Pool    // of *call, the unary ones
	pingTime atomic.Int64 // keepalive time in force
}

var _ grpc.ClientConnInterface = (*Client)(nil)

// NewClient returns a client for target, a URI such as "dns:///host:port",
// "passthrough:///host:port", "unix:/path" or plain "host:port", which is resolved
// by DNS. It connects when the first call wants it.
func NewClient(target string, opts ...ClientOption) (*Client, error) {
	c := &Client{opts: defaultClientOptions(), target: target, scheme: "http"}
	for _, o := range opts {
		o(&c.opts)
	}
	c.opts.finish()
	switch {
	case c.opts.creds == nil:
		return nil, errors.New("fastgrpc: NewClient without transport credentials: use WithTransportCredentials, for cleartext with credentials/insecure")
	case c.opts.policy != PickFirst && c.opts.policy != RoundRobin:
		return nil, fmt.Errorf("fastgrpc: balancing policy %q: %w", c.opts.policy, ErrUnsupported)
	}
	if c.opts.creds.Info().SecurityProtocol != "insecure" {
		c.scheme = "https"
	}
	for _, creds := range c.opts.perRPC {
		if creds.RequireTransportSecurity() && c.scheme != "https" {
			return nil, errors.New("fastgrpc: per-call credentials require transport security")
		}
	}
	if c.codec = c.opts.codecFor(""); c.codec == nil {
		return nil, errors.New("fastgrpc: no proto codec is registered")
	}
	if c.opts.keepalive.Time == 0 {
		c.opts.keepalive.Time = forever
	}
	if c.opts.keepalive.Timeout == 0 {
		c.opts.keepalive.Timeout = defaultPingTimeout
	}
	c.pingTime.Store(int64(max(c.opts.keepalive.Time, leastClientPing)))
	c.runs.Store(&map[string]*h2.FixedFields{})
	if in := c.opts.unaryInterceptors; len(in) > 0 {
		c.unary = chainUnaryClient(in, func(ctx context.Context, method string, req, reply any, _ *grpc.ClientConn, opts ...grpc.CallOption) error {
			return c.invokeWith(ctx, method, req, reply, opts)
		})
	}
	if in := c.opts.streamInterceptors; len(in) > 0 {
		c.stream = chainStreamClient(in, c.streamWith)
	}
	if err := c.pool.init(c); err != nil {
		return nil, err
	}
	return c, nil
}

// ErrUnsupported is wrapped by errors about features that the package leaves out.
var ErrUnsupported = errors.New("not supported by fastgrpc")

// Target is what NewClient was given.
func (c *Client) Target() string { return c.target }

// Close ends all connections and calls.
func (c *Client) Close() error { return c.pool.close() }

func (c *Client) keepaliveTime() time.Duration { return time.Duration(c.pingTime.Load()) }

// slowKeepalive follows a server's complaint about pings.
func (c *Client) slowKeepalive() {
	if t := c.pingTime.Load(); t < int64(forever)/2 {
		c.pingTime.CompareAndSwap(t, 2*t)
	}
}

// maxTransparentRetries bounds how often a call is made again because a server
// promised that it did nothing for it.
const maxTransparentRetries = 5

// Invoke makes a unary call, as generated code does.
func (c *Client) Invoke(ctx context.Context, method string, req, reply any, opts ...grpc.CallOption) error {
	if c.unary != nil {
		return c.unary(ctx, method, req, reply, nil, opts...)
	}
	return c.invokeWith(ctx, method, req, reply, opts)
}

func (c *Client) invokeWith(ctx context.Context, method string, req, reply any, opts []grpc.CallOption) error {
	var info callInfo
	if err := info.readOptions(c, opts); err != nil {
		return err
	}
	if c.opts.stats != nil {
		return c.invokeObserved(ctx, method, req, reply, &info)
	}
	return c.invoke(ctx, method, req, reply, &info)
}

func (c *Client) invoke(ctx context.Context, method string, req, reply any, info *callInfo) (err error) {
	if len(info.onFinish) > 0 {
		defer func() {
			for _, f := range info.onFinish {
				f(err)
			}
		}()
	}
	fields, err := c.callFields(ctx, method, info)
	if err != nil {
		return err
	}
	in := invocation{method: method, req: req, reply: reply, info: info, fields: fields}
	for retries := 0; ; retries++ {
		again, err := c.attempt(ctx, &in)
		if !again || retries == maxTransparentRetries {
			return err
		}
	}
}

// invocation is a unary call as every attempt at it sees it.
type invocation struct {
	method     string
	req, reply any
	info       *callInfo
	fields     []hpack.HeaderField // of the request, the call's own
}

// attempt makes a unary call on one connection. again means that the server did
// nothing for it.
func (c *Client) attempt(ctx context.Context, in *invocation) (again bool, err error) {
	info := in.info
	b, err := encodeMessage(info.codec, info.compressor, in.req, info.maxSend)
	if err != nil {
		return false, err
	}
	u := c.newUnaryCall(info)
	cc, err := c.openOnAny(ctx, u, in.method, info, in.fields)
	if err != nil {
		b.Release()
		c.recycle(u)
		return false, err
	}
	size := b.sizes()
	cc.h2.SendData(&u.h2, h2.Payload{Data: b.data, Owner: b}, true)
	cc.send()
	cc.mu.Unlock()
	if info.observer != nil {
		info.observer.sent(cc, in.fields, in.req, size)
	}
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
	return u.unprocessed && ctx.Err() == nil, c.conclude(u, in.reply, info)
}

// conclude reads the answer of a unary call that has ended.
func (c *Client) conclude(u *call, reply any, info *callInfo) error {
	defer c.recycle(u)
	if info.peer != nil {
		*info.peer = *u.conn.peer
	}
	if info.header != nil {
		*info.header = toMetadata(u.header)
	}
	if info.trailer != nil {
		*info.trailer = toMetadata(u.trailer)
	}
	if info.observer != nil {
		info.observer.ended(u)
	}
	if u.status != nil {
		return u.err()
	}
	if len(u.queue) == 0 {
		return status.Error(codes.Internal, "fastgrpc: response without a message")
	}
	m := u.queue[0]
	u.queue[0] = message{}
	packed := len(m.data)
	_, err := decodeMessage(info.codec, u.received, &m, reply, decodeOptions{limit: info.maxReceive})
	if err == nil && info.observer != nil {
		info.observer.received(reply, sizes{len(m.data), packed})
	}
	return err
}

// openOnAny opens the call's stream on a connection of the balancer's choice. On
// success that connection's lock is held.
func (c *Client) openOnAny(ctx context.Context, u *call, method string, info *callInfo, fields []hpack.HeaderField) (*clientConn, error) {
	fixed := c.run(method, info)
	for {
		cc, err := c.choose(ctx, info.waitForReady)
		if err != nil {
			return nil, err
		}
		err = cc.open(ctx, u, fixed, fields)
		if err == nil {
			return cc, nil
		}
		if !errors.Is(err, errLeaving) {
			return nil, err
		}
		// It began to leave in between; the pool is about to take notice.
		c.pool.exclude(cc)
	}
}

// maxRuns bounds the memory of a client whose method names never repeat.
const maxRuns = 1024

// run returns the fields that each request of a method begins with.
func (c *Client) run(method string, info *callInfo) *h2.FixedFields {
	key := method // almost always
	if info.authority != "" || info.subtype != "" || info.compressor != nil {
		key = strings.Join([]string{method, info.authority, info.subtype, compressorName(info.compressor)}, "\x00")
	}
	if fixed := (*c.runs.Load())[key]; fixed != nil {
		return fixed
	}
	fixed := c.newRun(method, info)
	c.runsLock.Lock()
	defer c.runsLock.Unlock()
	old := *c.runs.Load()
	if len(old) >= maxRuns {
		return fixed
	}
	next := make(map[string]*h2.FixedFields, len(old)+1)
	for k, v := range old {
		next[k] = v
	}
	next[key] = fixed
	c.runs.Store(&next)
	return fixed
}

func (c *Client) newRun(path string, info *callInfo) *h2.FixedFields {
	authority := c.authority
	if info.authority != "" {
		authority = info.authority
	}
	contentType := contentTypePrefix
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
		{Name: fieldContentType, Value: contentType},
		{Name: fieldUserAgent, Value: c.opts.userAgent + userAgent},
		{Name: "te", Value: "trailers"},
	}
	if info.compressor != nil {
		fields = append(fields, hpack.HeaderField{Name: fieldEncoding, Value: info.compressor.Name()})
	}
	if names := registeredCompressors(); names != "" {
		fields = append(fields, hpack.HeaderField{Name: fieldAcceptEncoding, Value: names})
	}
	return h2.NewFixedFields(fields...)
}

// callFields are the fields of one call's own: its deadline, metadata, credentials.
func (c *Client) callFields(ctx context.Context, method string, info *callInfo) ([]hpack.HeaderField, error) {
	var fields []hpack.HeaderField
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	if deadline, ok := ctx.Deadline(); ok {
		fields = append(fields, hpack.HeaderField{Name: fieldTimeout, Value: encodeTimeout(time.Until(deadline))})
	}
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		if err := validateMetadata(md); err != nil {
			return nil, status.Error(codes.Internal, err.Error())
		}
		fields = appendMetadata(fields, md)
	}
	if len(info.creds) > 0 {
		return c.appendCredentials(ctx, fields, method, info)
	}
	return fields, nil
}

// observer reports one call to a stats handler. A call has none where no handler
// is set, and pays nothing.
type observer struct {
	handler stats.Handler
	ctx     context.Context
	method  string
	began   time.Time
	header  sync.Once // the response's is reported
}

func (c *Client) observe(ctx context.Context, method string, info *callInfo, begin *stats.Begin) context.Context {
	h := c.opts.stats
	ctx = h.TagRPC(ctx, &stats.RPCTagInfo{FullMethodName: method, FailFast: !info.waitForReady})
	begin.Client, begin.BeginTime, begin.FailFast = true, time.Now(), !info.waitForReady
	h.HandleRPC(ctx, begin)
	info.observer = &observer{handler: h, ctx: ctx, method: method, began: begin.BeginTime}
	return ctx
}

func (c *Client) invokeObserved(ctx context.Context, method string, req, reply any, info *callInfo) error {
	ctx = c.observe(ctx, method, info, &stats.Begin{})
	err := c.invoke(ctx, method, req, reply, info)
	info.observer.finish(err)
	return err
}

func (o *observer) opened(cc *clientConn, fields []hpack.HeaderField) {
	o.handler.HandleRPC(o.ctx, &stats.OutHeader{
		Client: true, FullMethod: o.method, Header: toMetadata(fields),
		RemoteAddr: cc.peer.Addr, LocalAddr: cc.peer.LocalAddr,
	})
}

func (o *observer) sent(cc *clientConn, fields []hpack.HeaderField, m any, size sizes) {
	o.opened(cc, fields)
	o.payload(m, size)
}

func (o *observer) payload(m any, size sizes) {
	o.handler.HandleRPC(o.ctx, &stats.OutPayload{
		Client: true, Payload: m, Length: size.plain, CompressedLength: size.packed, WireLength: size.packed + prefixLen, SentTime: time.Now(),
	})
}

func (o *observer) received(m any, size sizes) {
	o.handler.HandleRPC(o.ctx, &stats.InPayload{
		Client: true, Payload: m, Length: size.plain, CompressedLength: size.packed, WireLength: size.packed + prefixLen, RecvTime: time.Now(),
	})
}

// answered reports the response's header, if there was one.
func (o *observer) answered(c *call) {
	o.header.Do(func() {
		if len(c.header) > 0 {
			o.handler.HandleRPC(o.ctx, &stats.InHeader{Client: true, Compression: compressorName(c.received), Header: toMetadata(c.header)})
		}
	})
}

func (o *observer) ended(c *call) {
	o.answered(c)
	o.handler.HandleRPC(o.ctx, &stats.InTrailer{Client: true, Trailer: toMetadata(c.trailer)})
}

func (o *observer) finish(err error) {
	o.handler.HandleRPC(o.ctx, &stats.End{Client: true, BeginTime: o.began, EndTime: time.Now(), Error: err})
}
