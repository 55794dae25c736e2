package fastgrpc

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2/hpack"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/fastgrpc/internal/h2"
)

// userAgent has grpc-go's form, so that servers which parse it accept this one too.
const userAgent = "grpc-go-fastgrpc/1.0"

// Client makes calls to one target. Its balancing policy decides how many connections
// it uses. Its methods may be called concurrently.
type Client struct {
	opts      clientOptions
	target    string
	authority string
	scheme    string // http or https, for the :scheme of requests
	codec     codec
	unary     grpc.UnaryInvoker // the interceptors, or nil
	stream    grpc.Streamer

	fixed    atomic.Pointer[map[string]*h2.FixedFields]
	fixedMu  sync.Mutex
	pick     atomic.Pointer[picker]
	pool     pool
	calls    sync.Pool    // of *call, the unary ones
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
	c.opts.finish()
	switch {
	case c.opts.creds == nil:
		return nil, errors.New("fastgrpc: NewClient without transport credentials: use WithTransportCredentials; for cleartext pass insecure.NewCredentials()")
	case c.opts.policy != PickFirst && c.opts.policy != RoundRobin:
		return nil, fmt.Errorf("fastgrpc: balancing policy %q: %w", c.opts.policy, ErrUnsupported)
	}
	if c.opts.creds.Info().SecurityProtocol != "insecure" {
		c.scheme = "https"
	}
	for _, creds := range c.opts.perRPC {
		if creds.RequireTransportSecurity() && c.scheme != "https" {
			return nil, errors.New("fastgrpc: WithPerRPCCredentials: these credentials require TLS, but the transport credentials are insecure")
		}
	}
	if c.codec = c.opts.codecFor(""); c.codec == nil {
		return nil, errors.New("fastgrpc: no proto codec is registered")
	}
	c.pingTime.Store(int64(c.opts.keepalive.Time))
	c.fixed.Store(&map[string]*h2.FixedFields{})
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

// ErrUnsupported is wrapped by errors about features that this package lacks.
var ErrUnsupported = errors.New("not supported by fastgrpc")

// Target returns the target that NewClient was given.
func (c *Client) Target() string { return c.target }

// Close ends all connections and calls.
func (c *Client) Close() error { return c.pool.close() }

// doublePingInterval reacts to a server's GOAWAY "too_many_pings".
func (c *Client) doublePingInterval() {
	if t := c.pingTime.Load(); t < int64(forever)/2 {
		c.pingTime.CompareAndSwap(t, 2*t)
	}
}

// maxTransparentRetries bounds how often a call is retried because the server said that
// it did not process it.
const maxTransparentRetries = 5

// Invoke makes a unary call. Generated code calls it.
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
		ctx = c.observe(ctx, method, &info, &grpc.StreamDesc{})
	}
	err := c.invoke(ctx, method, req, reply, &info)
	info.observer.end(err)
	return err
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
		retry, err := c.attempt(ctx, &in)
		if !retry || retries == maxTransparentRetries {
			return err
		}
	}
}

// invocation is what all attempts of a unary call share.
type invocation struct {
	method     string
	req, reply any
	info       *callInfo
	fields     []hpack.HeaderField // of this call's request, see callFields
}

// attempt makes a unary call on one connection. retry reports that the server did not
// process it.
func (c *Client) attempt(ctx context.Context, in *invocation) (retry bool, err error) {
	info := in.info
	b, err := encodeMessage(info.codec, info.compressor, in.req, info.maxSend)
	if err != nil {
		return false, err
	}
	u := c.newUnaryCall(info)
	cc, err := c.openStream(ctx, u, in.method, info, in.fields)
	if err != nil {
		b.Release()
		c.recycle(u)
		return false, err
	}
	size := b.sizes()
	cc.h2.SendData(&u.h2, h2.Payload{Data: b.data, Owner: b}, true)
	cc.flushBatch()
	cc.mu.Unlock()
	info.observer.opened(cc, in.fields)
	info.observer.sent(in.req, size)
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
	return u.unprocessed && ctx.Err() == nil, c.readReply(u, in.reply, info)
}

// readReply reads the response of a unary call that has ended, and recycles the call.
func (c *Client) readReply(u *call, reply any, info *callInfo) error {
	defer c.recycle(u)
	info.responded(u)
	if u.end.kind != succeeded {
		return u.end.err
	}
	m, ok := u.take()
	if !ok {
		return status.Error(codes.Internal, "fastgrpc: response without a message")
	}
	_, err := decodeMessage(info.codec, u.received, &m, reply, decodeOptions{limit: info.maxReceive, observer: info.observer})
	return err
}

// openStream opens the call's stream on a connection that the balancer picks. On
// success it returns with that connection's lock held.
func (c *Client) openStream(ctx context.Context, u *call, method string, info *callInfo, fields []hpack.HeaderField) (*clientConn, error) {
	fixed := c.fixedFields(method, info)
	for {
		cc, err := c.pickConn(ctx, info.waitForReady)
		if err != nil {
			return nil, err
		}
		err = cc.open(ctx, u, fixed, fields)
		if err == nil {
			return cc, nil
		}
		if !errors.Is(err, errConnDraining) {
			return nil, err
		}
		// The connection began to drain after it was picked.
		c.pool.removeFromPicker(cc)
	}
}

// maxFixedFields bounds the cache of a client whose method names never repeat.
const maxFixedFields = 1024

// fixedFields returns the header fields that all requests of a method begin with.
func (c *Client) fixedFields(method string, info *callInfo) *h2.FixedFields {
	key := method // the common case needs no new string
	if info.authority != "" || info.subtype != "" || info.compressor != nil {
		key = strings.Join([]string{method, info.authority, info.subtype, compressorName(info.compressor)}, "\x00")
	}
	if fixed := (*c.fixed.Load())[key]; fixed != nil {
		return fixed
	}
	fixed := c.newFixedFields(method, info)
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

func (c *Client) newFixedFields(path string, info *callInfo) *h2.FixedFields {
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

// callFields returns the header fields that differ from call to call: deadline,
// metadata and credentials.
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
