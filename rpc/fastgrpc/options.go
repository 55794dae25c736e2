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

// Creds sets the server's transport credentials. Without Creds, connections are not encrypted.
func Creds(c credentials.TransportCredentials) ServerOption {
	return func(o *serverOptions) {
		if c.Info().SecurityProtocol != "insecure" {
			o.creds = c
		}
	}
}

// MaxConcurrentStreams limits the concurrent calls on a connection. With 0, the default, only
// memory limits them; see the package comment. A call counts until its handler has returned and
// its response has been sent.
func MaxConcurrentStreams(n uint32) ServerOption {
	return func(o *serverOptions) { o.h2.MaxStreams = int(min(n-1, math.MaxInt32-1)) + 1 } // n-1 turns 0 into the maximum
}

// UnaryInterceptor adds interceptors for unary calls. They run in the given order.
func UnaryInterceptor(in ...grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) {
		for _, i := range in {
			o.unaryInterceptor = rpccall.ChainUnaryServer(o.unaryInterceptor, i)
		}
	}
}

// StreamInterceptor adds interceptors for streaming calls. They run in the given order.
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

// MaxRecvMsgSize limits the size of a received message. The default is 4 MiB.
func MaxRecvMsgSize(bytes int) ServerOption { return func(o *serverOptions) { o.maxReceive = bytes } }

// MaxSendMsgSize limits the size of a sent message.
func MaxSendMsgSize(bytes int) ServerOption { return func(o *serverOptions) { o.maxSend = bytes } }

// MaxHeaderListSize limits the size of a request's metadata. The default is 16 MiB.
func MaxHeaderListSize(bytes uint32) ServerOption {
	return func(o *serverOptions) { o.h2.MaxHeaderList = int(min(bytes, math.MaxInt32)) }
}

// Windows sets the flow-control windows, in bytes, of each stream and each connection. A client
// may send one window before the server reads. The minimum is 65535. While many streams are open,
// each stream's window is smaller, so that unread messages stay within the memory limit.
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
	return func(o *serverOptions) { o.addStatsHandler(h) }
}

// InTapHandle sets a function that runs when a call's header arrives, before its messages. The
// function may refuse the call, or add values to the call's context. It runs on the goroutine
// that reads the connection, so it must be fast and must not block.
func InTapHandle(h tap.ServerInHandle) ServerOption {
	return func(o *serverOptions) { o.tap = h }
}

// ForceServerCodec sets the codec of all calls, even if a call names another content-subtype.
func ForceServerCodec(c encoding.Codec) ServerOption {
	return func(o *serverOptions) { o.codec = message.CodecV1{Codec: c} }
}

// ForceServerCodecV2 sets the codec of all calls, even if a call names another content-subtype.
func ForceServerCodecV2(c encoding.CodecV2) ServerOption {
	return func(o *serverOptions) { o.codec = message.CodecV2{CodecV2: c} }
}

// VTProto makes the server use vtprotobuf's methods, if a message has them, instead of package
// proto. These methods use less CPU time, but for example do not check that strings are UTF-8.
// Received messages may be nested as deep as package proto allows.
func VTProto() ServerOption { return func(o *serverOptions) { o.vt = true } }

// AliasRequests makes bytes fields of requests point into the receive buffer. This saves two
// fifths of the CPU time of streams of large messages. With [VTProto], strings point into the
// buffer, too. The fields of a stream's message are valid until the stream's next RecvMsg, even
// after the handler has returned. The fields of a unary request are valid until its handler
// returns. A handler that keeps such a field must copy it; otherwise the field shows bytes of
// other calls later.
//
// With the environment variable FASTGRPC_ALIAS=check, an invalid field holds only the byte 0xdb,
// and the race detector reports its use as a data race.
func AliasRequests() ServerOption { return func(o *serverOptions) { o.alias = true } }

// ConnectionTimeout limits the time until a new client has sent its first HTTP/2 frame. The time
// includes the TLS handshake. The default is 120 seconds, as in grpc-go.
func ConnectionTimeout(d time.Duration) ServerOption {
	return func(o *serverOptions) { o.connectionTimeout = d }
}

// WaitForHandlers makes Stop wait for all handlers to return, as GracefulStop does.
func WaitForHandlers(wait bool) ServerOption {
	return func(o *serverOptions) { o.waitForHandlers = wait }
}

// ErrUnsupported marks errors about missing features: errors.Is(err, ErrUnsupported) is true.
var ErrUnsupported = connect.ErrUnsupported

// userAgent has grpc-go's form, because some servers parse it.
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
	disableTransparentRetry                                bool

	maxAttempts          int
	plainCodec           message.Codec                         // for calls without a content-subtype
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

// checkAndSetDefaults checks the options and fills in the defaults that depend on them.
func (o *clientOptions) checkAndSetDefaults() (err error) {
	o.keepalive.Time = max(cmp.Or(o.keepalive.Time, lifetime.Forever), lifetime.MinClientPingInterval)
	o.keepalive.Timeout = cmp.Or(o.keepalive.Timeout, lifetime.DefaultPingTimeout)
	if o.idleTimeout <= 0 {
		o.idleTimeout = lifetime.Forever
	}
	if o.bundle != nil {
		if o.creds != nil {
			return errors.New("fastgrpc: found both WithCredentialsBundle and WithTransportCredentials: use only one of them")
		}
		o.creds = o.bundle.TransportCredentials()
		if creds := o.bundle.PerRPCCredentials(); creds != nil {
			o.perRPC = append(o.perRPC, creds)
		}
	}
	if o.creds == nil {
		return errors.New("fastgrpc: NewClient has no transport credentials: add the option WithTransportCredentials; for connections without encryption, pass insecure.NewCredentials() to it")
	}
	for _, creds := range o.perRPC {
		if creds.RequireTransportSecurity() && o.creds.Info().SecurityProtocol == "insecure" {
			return errors.New("fastgrpc: the credentials of WithPerRPCCredentials require TLS, but the transport credentials are insecure: use TLS credentials")
		}
	}
	for _, name := range o.compressors {
		if encoding.GetCompressor(name) == nil {
			return fmt.Errorf("fastgrpc: WithCompressors: compressor %q is not registered: import the package that registers it", name)
		}
	}
	if len(metricsRecorders(o.stats)) > 1 {
		return fmt.Errorf("fastgrpc: found more than one stats handler that records the metrics of balancers, which is %w: add only one such handler", ErrUnsupported)
	}
	if o.plainCodec = o.codecFor(""); o.plainCodec == nil {
		return errors.New("fastgrpc: no codec named \"proto\" is registered: import google.golang.org/grpc/encoding/proto")
	}
	if o.serviceConfig, err = config.Parse(o.defaultConfig, o.maxAttempts); err != nil {
		return fmt.Errorf("WithDefaultServiceConfig: %w", err)
	}
	return nil
}

func (o *clientOptions) fullUserAgent() string { return o.userAgent + userAgent }

// metricsRecorder returns the stats handler that records the metrics of balancers and resolvers.
// If there is none, it returns a recorder that does nothing.
func (o *clientOptions) metricsRecorder() estats.MetricsRecorder {
	if all := metricsRecorders(o.stats); len(all) > 0 {
		return all[0]
	}
	return &estats.UnimplementedMetricsRecorder{}
}

// WithTransportCredentials sets the transport credentials. NewClient requires them, as in grpc-go.
// For connections without encryption, pass insecure.NewCredentials().
func WithTransportCredentials(c credentials.TransportCredentials) ClientOption {
	return func(o *clientOptions) { o.creds = c }
}

// WithPerRPCCredentials adds credentials to every call.
func WithPerRPCCredentials(c credentials.PerRPCCredentials) ClientOption {
	return func(o *clientOptions) { o.perRPC = append(o.perRPC, c) }
}

// WithAuthority sets the :authority of calls. TLS verifies this name, too.
func WithAuthority(a string) ClientOption { return func(o *clientOptions) { o.authority = a } }

// WithUserAgent puts s before the library's own user-agent.
func WithUserAgent(s string) ClientOption { return func(o *clientOptions) { o.userAgent = s + " " } }

// WithContextDialer sets the function that opens connections. If it returns connections that
// wrap other connections, see [Transparent].
func WithContextDialer(d func(context.Context, string) (net.Conn, error)) ClientOption {
	return func(o *clientOptions) { o.dialer = d }
}

// WithUnaryInterceptor adds interceptors for unary calls. They run in the given order
// and get the *grpc.ClientConn of [Client.ClientConn].
func WithUnaryInterceptor(in ...grpc.UnaryClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.unaryInterceptors = append(o.unaryInterceptors, in...) }
}

// WithStreamInterceptor adds interceptors for streaming calls. They run in the given order
// and get the *grpc.ClientConn of [Client.ClientConn].
func WithStreamInterceptor(in ...grpc.StreamClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.streamInterceptors = append(o.streamInterceptors, in...) }
}

// WithDefaultCallOptions sets options for every call. The call's own options override them.
func WithDefaultCallOptions(opts ...grpc.CallOption) ClientOption {
	return func(o *clientOptions) { o.callOptions = append(o.callOptions, opts...) }
}

// WithCompressors tells servers which registered compressors they may use for responses. The
// client always announces gzip, zstd, snappy, deflate, br and lz4, if they are registered, and
// the call's own compressor. grpc-go announces every registered compressor.
func WithCompressors(names ...string) ClientOption {
	return func(o *clientOptions) { o.compressors = append(o.compressors, names...) }
}

// WithKeepaliveParams sets when the client pings a server that has sent nothing for a while.
func WithKeepaliveParams(p keepalive.ClientParameters) ClientOption {
	return func(o *clientOptions) { o.keepalive = p }
}

// WithConnectParams sets the pause between connection attempts and the timeout of each attempt.
func WithConnectParams(p grpc.ConnectParams) ClientOption {
	return func(o *clientOptions) { o.backoff, o.connectTimeout = p.Backoff, p.MinConnectTimeout }
}

// WithIdleTimeout sets how long a client may have no calls. After this time, 30 minutes by default,
// it closes its resolver and all connections until the next call. With 0 they stay open.
func WithIdleTimeout(d time.Duration) ClientOption {
	return func(o *clientOptions) { o.idleTimeout = d }
}

// WithWindows sets the flow-control windows, in bytes, of each stream and each connection. The
// server may send one window before the client reads. The minimum is 65535.
func WithWindows(stream, connection int) ClientOption {
	return func(o *clientOptions) { o.setWindows(stream, connection) }
}

// WithMaxHeaderListSize limits the size of a response's metadata. The default is 16 MiB.
func WithMaxHeaderListSize(bytes uint32) ClientOption {
	return func(o *clientOptions) { o.h2.MaxHeaderList = int(min(bytes, math.MaxInt32)) }
}

// WithStatsHandler adds a stats handler, such as OpenTelemetry's.
func WithStatsHandler(h stats.Handler) ClientOption {
	return func(o *clientOptions) { o.addStatsHandler(h) }
}

// WithVTProto makes the client use vtprotobuf's methods, if a message has them. See [VTProto].
func WithVTProto() ClientOption { return func(o *clientOptions) { o.vt = true } }

// WithAliasedResponses makes bytes fields of streamed responses point into the receive buffer.
// [AliasRequests] says how long the fields are valid. Fields of unary responses are always copied.
func WithAliasedResponses() ClientOption { return func(o *clientOptions) { o.alias = true } }

// WithDefaultServiceConfig sets the service config for targets whose resolver returns none. The
// JSON text sets the balancing policy, timeouts, retries and more (grpc/doc/service_config.md).
// For policies other than pick_first and round_robin, import the policy's package, such as
// google.golang.org/grpc/balancer/leastrequest.
func WithDefaultServiceConfig(js string) ClientOption {
	return func(o *clientOptions) { o.defaultConfig = js }
}

// WithDisableServiceConfig makes the client ignore the resolver's service config.
func WithDisableServiceConfig() ClientOption {
	return func(o *clientOptions) { o.disableServiceConfig = true }
}

// WithDisableRetry makes the client ignore retry policies. It still repeats a call once if the
// server did not process that call.
func WithDisableRetry() ClientOption { return func(o *clientOptions) { o.disableRetry = true } }

// WithDisableTransparentRetry makes the client send each call only once, also if the server did not
// process it. A client that counts calls needs that. grpc-go has no such option.
func WithDisableTransparentRetry() ClientOption {
	return func(o *clientOptions) { o.disableTransparentRetry = true }
}

// WithMaxCallAttempts limits the attempts that a retry policy may allow. The default is 5.
func WithMaxCallAttempts(n int) ClientOption {
	return func(o *clientOptions) {
		if n < 2 {
			n = 5
		}
		o.maxAttempts = n
	}
}

// WithDisableHealthCheck makes the client ignore the service config's healthCheckConfig.
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

// WithNoProxy makes the client ignore the environment variable HTTPS_PROXY. A client with
// WithContextDialer always ignores that variable.
func WithNoProxy() ClientOption { return func(o *clientOptions) { o.noProxy = true } }

// WithLocalDNSResolution makes the client resolve DNS names itself, instead of its proxy.
func WithLocalDNSResolution() ClientOption { return func(o *clientOptions) { o.localDNS = true } }
