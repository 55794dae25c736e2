package fastgrpc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/encoding"
	estats "google.golang.org/grpc/experimental/stats"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/tap"

	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/fastgrpc/internal/config"
	"wirelab.dev/rpc/fastgrpc/internal/connect"
	"wirelab.dev/rpc/fastgrpc/internal/lifetime"
	"wirelab.dev/rpc/fastgrpc/internal/message"
)

// ServerOption configures a server.
type ServerOption func(*serverOptions)

type serverOptions struct {
	limits
	creds             credentials.TransportCredentials
	connectionTimeout time.Duration
	waitForHandlers   bool
	tap               tap.ServerInHandle
	unaryInterceptor  grpc.UnaryServerInterceptor
	streamInterceptor grpc.StreamServerInterceptor
	unknown           grpc.StreamHandler
	keepalive         keepalive.ServerParameters
	policy            keepalive.EnforcementPolicy
}

// Creds secures the server's connections. Without it they are cleartext.
func Creds(c credentials.TransportCredentials) ServerOption {
	return func(o *serverOptions) {
		if c.Info().SecurityProtocol != "insecure" {
			o.creds = c
		}
	}
}

// MaxConcurrentStreams bounds the calls that a connection may have at once. The default,
// and 0, mean that only memory bounds them; see the package's comment. A call counts
// until its handler has returned and its response has been sent.
func MaxConcurrentStreams(n uint32) ServerOption {
	return func(o *serverOptions) { o.h2.MaxStreams = int(min(n-1, math.MaxInt32-1)) + 1 } // 0 wraps
}

// UnaryInterceptor adds interceptors of unary calls; the first is the outermost.
func UnaryInterceptor(in ...grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) {
		for _, i := range in {
			o.unaryInterceptor = rpccall.ChainUnaryServer(o.unaryInterceptor, i)
		}
	}
}

// StreamInterceptor adds interceptors of streaming calls; the first is the outermost.
func StreamInterceptor(in ...grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) {
		for _, i := range in {
			o.streamInterceptor = rpccall.ChainStreamServer(o.streamInterceptor, i)
		}
	}
}

// UnknownServiceHandler sets the handler for methods that are not registered.
func UnknownServiceHandler(h grpc.StreamHandler) ServerOption {
	return func(o *serverOptions) { o.unknown = h }
}

// MaxRecvMsgSize bounds received messages, 4 MiB by default.
func MaxRecvMsgSize(bytes int) ServerOption { return func(o *serverOptions) { o.maxReceive = bytes } }

// MaxSendMsgSize bounds sent messages.
func MaxSendMsgSize(bytes int) ServerOption { return func(o *serverOptions) { o.maxSend = bytes } }

// MaxHeaderListSize bounds a request's metadata, 16 MiB by default.
func MaxHeaderListSize(bytes uint32) ServerOption {
	return func(o *serverOptions) { o.h2.MaxHeaderList = int(min(bytes, math.MaxInt32)) }
}

// Windows sets the flow-control windows: the bytes that a client may send ahead, per
// stream and per connection. The minimum is 65535. While many streams are open, each
// gets less, so that unread messages stay within the connection's memory.
func Windows(stream, connection int) ServerOption {
	return func(o *serverOptions) { o.setWindows(stream, connection) }
}

// KeepaliveParams sets when the server pings and when it closes idle and old connections.
func KeepaliveParams(p keepalive.ServerParameters) ServerOption {
	return func(o *serverOptions) { o.keepalive = p }
}

// KeepaliveEnforcementPolicy sets how often clients may ping.
func KeepaliveEnforcementPolicy(p keepalive.EnforcementPolicy) ServerOption {
	return func(o *serverOptions) { o.policy = p }
}

// StatsHandler adds a stats handler, such as OpenTelemetry's.
func StatsHandler(h stats.Handler) ServerOption {
	return func(o *serverOptions) { o.stats = chainStats(o.stats, h) }
}

// InTapHandle sets a function that may refuse a call by its header, before its messages have come,
// and may extend its context. It runs on the goroutine that reads the connection: it must be fast,
// and must not wait.
func InTapHandle(h tap.ServerInHandle) ServerOption {
	return func(o *serverOptions) { o.tap = h }
}

// ForceServerCodec sets the codec of all calls, whatever their content-subtype.
func ForceServerCodec(c encoding.Codec) ServerOption {
	return func(o *serverOptions) { o.codec = message.CodecV1{Codec: c} }
}

// ForceServerCodecV2 sets the codec of all calls, whatever their content-subtype.
func ForceServerCodecV2(c encoding.CodecV2) ServerOption {
	return func(o *serverOptions) { o.codec = message.CodecV2{CodecV2: c} }
}

// VTProto makes the server use vtprotobuf's methods for messages that have them, instead
// of package proto. They take less CPU time, and follow vtprotobuf's rules: for example,
// they do not check that strings are UTF-8. The depth of received messages is limited as in package proto.
func VTProto() ServerOption { return func(o *serverOptions) { o.vt = true } }

// AliasRequests makes bytes fields of requests point into the receive buffer, which saves
// two fifths of the CPU time of streams of large messages. With [VTProto], strings point there
// too. The fields of a stream's message are valid until the stream's next RecvMsg, even after
// the handler has returned. The fields of a unary request are valid until its handler returns.
// A handler that keeps such a field must copy it, or it will read bytes of other calls.
//
// With the environment variable FASTGRPC_ALIAS=check it reads only the byte 0xdb instead, and
// the race detector reports the use as a data race.
func AliasRequests() ServerOption { return func(o *serverOptions) { o.alias = true } }

// ConnectionTimeout bounds the time until a new connection has sent its first HTTP/2 frame, TLS
// included; 120 seconds by default, as in grpc-go.
func ConnectionTimeout(d time.Duration) ServerOption {
	return func(o *serverOptions) { o.connectionTimeout = d }
}

// WaitForHandlers makes Stop wait for all handlers to return, as GracefulStop does.
func WaitForHandlers(wait bool) ServerOption {
	return func(o *serverOptions) { o.waitForHandlers = wait }
}

// ErrUnsupported is wrapped by errors about features that this package lacks.
var ErrUnsupported = connect.ErrUnsupported

// userAgent has grpc-go's form, so that servers which parse it accept this one too.
const userAgent = "grpc-go-fastgrpc/1.0"

// ClientOption configures a client.
type ClientOption func(*clientOptions)

type clientOptions struct {
	limits
	creds              credentials.TransportCredentials
	perRPC             []credentials.PerRPCCredentials
	authority          string
	userAgent          string
	dialer             func(context.Context, string) (net.Conn, error)
	unaryInterceptors  []grpc.UnaryClientInterceptor
	streamInterceptors []grpc.StreamClientInterceptor
	callOptions        []grpc.CallOption
	compressors        []string
	keepalive          keepalive.ClientParameters
	backoff            backoff.Config
	connectTimeout     time.Duration
	idleTimeout        time.Duration
	bundle             credentials.Bundle
	resolvers          []resolver.Builder
	noProxy, localDNS  bool
	defaultConfig      string
	serviceConfig      *config.Config // parsed from defaultConfig

	disableServiceConfig, disableRetry, disableHealthCheck bool

	maxAttempts          int
	plainCodec           message.Codec                         // for calls that name none
	proxyFromEnvironment func(*http.Request) (*url.URL, error) // replaced in tests
}

func defaultClientOptions() clientOptions {
	o := clientOptions{
		limits: defaultLimits(), backoff: backoff.DefaultConfig,
		connectTimeout: 20 * time.Second, idleTimeout: 30 * time.Minute,
		defaultConfig: "{}", maxAttempts: 5, proxyFromEnvironment: http.ProxyFromEnvironment,
	}
	o.h2.Client = true
	return o
}

// finish checks the options and fills in the defaults that depend on them.
func (o *clientOptions) finish() (err error) {
	o.keepalive.Time = max(cmp.Or(o.keepalive.Time, lifetime.Forever), lifetime.MinClientPing)
	o.keepalive.Timeout = cmp.Or(o.keepalive.Timeout, lifetime.DefaultPingTimeout)
	if o.idleTimeout <= 0 {
		o.idleTimeout = lifetime.Forever
	}
	if o.bundle != nil {
		if o.creds != nil {
			return errors.New("fastgrpc: WithCredentialsBundle and WithTransportCredentials: use one of them")
		}
		o.creds = o.bundle.TransportCredentials()
		if creds := o.bundle.PerRPCCredentials(); creds != nil {
			o.perRPC = append(o.perRPC, creds)
		}
	}
	if o.creds == nil {
		return errors.New("fastgrpc: NewClient without transport credentials: use WithTransportCredentials; for cleartext pass insecure.NewCredentials()")
	}
	for _, creds := range o.perRPC {
		if creds.RequireTransportSecurity() && o.creds.Info().SecurityProtocol == "insecure" {
			return errors.New("fastgrpc: WithPerRPCCredentials: these credentials require TLS, but the transport credentials are insecure")
		}
	}
	for _, name := range o.compressors {
		if encoding.GetCompressor(name) == nil {
			return fmt.Errorf("fastgrpc: WithCompressors: compressor %q is not registered: import its package", name)
		}
	}
	if len(recordersOf(o.stats)) > 1 {
		return fmt.Errorf("fastgrpc: two stats handlers that record the metrics of balancers: %w: give one of them", ErrUnsupported)
	}
	if o.plainCodec = o.codecFor(""); o.plainCodec == nil {
		return errors.New("fastgrpc: no proto codec is registered")
	}
	if o.serviceConfig, err = config.Parse(o.defaultConfig, o.maxAttempts); err != nil {
		return fmt.Errorf("WithDefaultServiceConfig: %w", err)
	}
	return nil
}

func (o *clientOptions) fullUserAgent() string { return o.userAgent + userAgent }

// metrics returns the stats handler that records the metrics of balancers and resolvers,
// or else a recorder that does nothing.
func (o *clientOptions) metrics() estats.MetricsRecorder {
	if all := recordersOf(o.stats); len(all) > 0 {
		return all[0]
	}
	return &estats.UnimplementedMetricsRecorder{}
}

// WithTransportCredentials secures the client's connections. It is required, as in
// grpc-go; for cleartext pass insecure.NewCredentials().
func WithTransportCredentials(c credentials.TransportCredentials) ClientOption {
	return func(o *clientOptions) { o.creds = c }
}

// WithPerRPCCredentials adds credentials to every call.
func WithPerRPCCredentials(c credentials.PerRPCCredentials) ClientOption {
	return func(o *clientOptions) { o.perRPC = append(o.perRPC, c) }
}

// WithAuthority sets the :authority of calls and the name that TLS verifies.
func WithAuthority(a string) ClientOption { return func(o *clientOptions) { o.authority = a } }

// WithUserAgent adds s in front of the library's user-agent.
func WithUserAgent(s string) ClientOption { return func(o *clientOptions) { o.userAgent = s + " " } }

// WithContextDialer sets the function that dials connections. See [Transparent] if it
// returns connections that wrap others.
func WithContextDialer(d func(context.Context, string) (net.Conn, error)) ClientOption {
	return func(o *clientOptions) { o.dialer = d }
}

// WithUnaryInterceptor adds interceptors of unary calls; the first is the outermost.
// Their *grpc.ClientConn is nil.
func WithUnaryInterceptor(in ...grpc.UnaryClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.unaryInterceptors = append(o.unaryInterceptors, in...) }
}

// WithStreamInterceptor adds interceptors of streaming calls; the first is the
// outermost. Their *grpc.ClientConn is nil.
func WithStreamInterceptor(in ...grpc.StreamClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.streamInterceptors = append(o.streamInterceptors, in...) }
}

// WithDefaultCallOptions adds options to every call, before the call's own.
func WithDefaultCallOptions(opts ...grpc.CallOption) ClientOption {
	return func(o *clientOptions) { o.callOptions = append(o.callOptions, opts...) }
}

// WithCompressors announces registered compressors to servers, for their answers. The client
// always announces those with usual names (gzip, zstd, snappy, deflate, br, lz4), and the one
// that a call itself uses. grpc-go announces every registered compressor.
func WithCompressors(names ...string) ClientOption {
	return func(o *clientOptions) { o.compressors = append(o.compressors, names...) }
}

// WithKeepaliveParams sets when the client pings silent connections.
func WithKeepaliveParams(p keepalive.ClientParameters) ClientOption {
	return func(o *clientOptions) { o.keepalive = p }
}

// WithConnectParams sets the backoff between connection attempts and the timeout of each.
func WithConnectParams(p grpc.ConnectParams) ClientOption {
	return func(o *clientOptions) { o.backoff, o.connectTimeout = p.Backoff, p.MinConnectTimeout }
}

// WithIdleTimeout sets the time without calls, 30 minutes by default, after which the client
// stops its resolver and closes all connections until the next call. 0 keeps them open.
func WithIdleTimeout(d time.Duration) ClientOption {
	return func(o *clientOptions) { o.idleTimeout = d }
}

// WithWindows sets the flow-control windows: the bytes that the server may send ahead,
// per stream and per connection. The minimum is 65535.
func WithWindows(stream, connection int) ClientOption {
	return func(o *clientOptions) { o.setWindows(stream, connection) }
}

// WithMaxHeaderListSize bounds a response's metadata, 16 MiB by default.
func WithMaxHeaderListSize(bytes uint32) ClientOption {
	return func(o *clientOptions) { o.h2.MaxHeaderList = int(min(bytes, math.MaxInt32)) }
}

// WithStatsHandler adds a stats handler, such as OpenTelemetry's.
func WithStatsHandler(h stats.Handler) ClientOption {
	return func(o *clientOptions) { o.stats = chainStats(o.stats, h) }
}

// WithVTProto makes the client use vtprotobuf's methods for messages that have them,
// see [VTProto].
func WithVTProto() ClientOption { return func(o *clientOptions) { o.vt = true } }

// WithAliasedResponses makes bytes fields of streamed responses point into the receive
// buffer, by the rules of [AliasRequests]. Responses of unary calls are never aliased.
func WithAliasedResponses() ClientOption { return func(o *clientOptions) { o.alias = true } }

// WithDefaultServiceConfig sets the service config, in JSON, for targets whose resolver
// gives none: balancing policy, timeouts, retries and more
// (grpc/doc/service_config.md). Policies other than pick_first and round_robin need
// their package imported, such as google.golang.org/grpc/balancer/leastrequest.
func WithDefaultServiceConfig(js string) ClientOption {
	return func(o *clientOptions) { o.defaultConfig = js }
}

// WithDisableServiceConfig ignores the resolver's service config.
func WithDisableServiceConfig() ClientOption {
	return func(o *clientOptions) { o.disableServiceConfig = true }
}

// WithDisableRetry ignores retry policies. Calls that a server did not process are still
// made again, once.
func WithDisableRetry() ClientOption { return func(o *clientOptions) { o.disableRetry = true } }

// WithMaxCallAttempts bounds the attempts that a retry policy may allow, 5 by default.
func WithMaxCallAttempts(n int) ClientOption {
	return func(o *clientOptions) {
		if n < 2 {
			n = 5
		}
		o.maxAttempts = n
	}
}

// WithDisableHealthCheck ignores the service config's healthCheckConfig.
func WithDisableHealthCheck() ClientOption {
	return func(o *clientOptions) { o.disableHealthCheck = true }
}

// WithResolvers adds resolvers for this client only.
func WithResolvers(r ...resolver.Builder) ClientOption {
	return func(o *clientOptions) { o.resolvers = append(o.resolvers, r...) }
}

// WithCredentialsBundle sets transport and call credentials together.
func WithCredentialsBundle(b credentials.Bundle) ClientOption {
	return func(o *clientOptions) { o.bundle = b }
}

// WithNoProxy ignores HTTPS_PROXY. A client with WithContextDialer ignores it too.
func WithNoProxy() ClientOption { return func(o *clientOptions) { o.noProxy = true } }

// WithLocalDNSResolution resolves DNS names at this end even if a proxy could do it.
func WithLocalDNSResolution() ClientOption { return func(o *clientOptions) { o.localDNS = true } }
