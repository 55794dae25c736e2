package creditrpc

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"

	"wirelab.dev/rpc/batchio"
	rpccall "wirelab.dev/rpc/call"
	"wirelab.dev/rpc/creditrpc/internal/link"
	"wirelab.dev/rpc/creditrpc/internal/link/credit"
)

// limits holds the options that clients and servers share.
type limits struct {
	client                  bool
	calls                   int           // 0 at a client
	handshakeTimeout        time.Duration // at a client, dialTimeout limits the handshake
	window, perStream, room int64
	maxReceive, maxSend     int
	maxMeta                 int
	silence, pingTimeout    time.Duration
	spin                    time.Duration
}

func defaultLimits() limits {
	return limits{
		calls: 1024, handshakeTimeout: 120 * time.Second, window: 2 << 20, perStream: 256 << 10, room: 64 << 20,
		maxReceive: 4 << 20, maxSend: 1<<31 - 1, maxMeta: 16 << 10,
	}
}

func (l *limits) link() link.Config {
	return link.Config{
		Client: l.client, Calls: int64(l.calls),
		Window: max(l.window, credit.MinWindow), PerStream: max(l.perStream, credit.MinWindow),
		Room: max(l.room, int64(l.maxReceive)), MaxMessage: l.maxReceive, MaxMeta: l.maxMeta,
	}
}

// prepare sets up a socket, before its handshake.
func (l *limits) prepare(nc net.Conn) net.Conn {
	if l.silence > 0 {
		batchio.SetUserTimeout(nc, l.pingTimeout)
	}
	return batchio.Spin(nc, l.spin)
}

// A ServerOption configures a server.
type ServerOption func(*serverOptions)

type serverOptions struct {
	limits
	creds             credentials.TransportCredentials // nil means that connections are cleartext
	alias             bool
	unaryInterceptor  grpc.UnaryServerInterceptor
	streamInterceptor grpc.StreamServerInterceptor
}

func defaultServerOptions() serverOptions { return serverOptions{limits: defaultLimits()} }

// Creds secures connections, for instance with TLS. A tls.Config should have [ALPN] in
// NextProtos, because grpc-go's credentials.NewTLS otherwise names only HTTP/2.
func Creds(c credentials.TransportCredentials) ServerOption {
	return func(o *serverOptions) { o.creds = c }
}

// MaxCalls limits the calls that a client may have open on a connection: 1,024 by default. Further
// calls wait at the client, in the order in which they were made.
func MaxCalls(n int) ServerOption { return func(o *serverOptions) { o.calls = max(1, n) } }

// Window limits the bytes of requests that a client may send on a connection before the server
// processes them: 2 MiB by default. The limit keeps many callers with large messages from filling
// the server's memory. With fewer bytes, fewer calls run at once.
func Window(bytes int) ServerOption { return func(o *serverOptions) { o.window = int64(bytes) } }

// StreamWindow limits the unread bytes of a stream: 256 KiB by default.
func StreamWindow(bytes int) ServerOption {
	return func(o *serverOptions) { o.perStream = int64(bytes) }
}

// AliasRequests makes bytes fields of unary requests point into the receive buffer, if they have at
// least 1 KiB. This saves a copy and its memory. The fields are valid until the handler returns. A
// handler that keeps such a field must copy it, or the field shows bytes of other calls later.
func AliasRequests() ServerOption { return func(o *serverOptions) { o.alias = true } }

// MaxReceive limits the length of received messages: 4 MiB by default.
func MaxReceive(bytes int) ServerOption { return func(o *serverOptions) { o.maxReceive = bytes } }

// MaxMetadata limits the metadata of a call: 16 KiB by default. The highest limit is 34 KiB.
func MaxMetadata(bytes int) ServerOption {
	return func(o *serverOptions) { o.maxMeta = min(bytes, link.MaxMeta) }
}

// HandshakeTimeout limits the time until a connection's client has said Hello, and the time of its TLS
// handshake before that: 120 s each by default.
func HandshakeTimeout(most time.Duration) ServerOption {
	return func(o *serverOptions) { o.handshakeTimeout = most }
}

// UnaryInterceptor adds an interceptor of unary calls. The first one added is the outermost.
func UnaryInterceptor(i grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.unaryInterceptor = rpccall.ChainUnaryServer(o.unaryInterceptor, i) }
}

// StreamInterceptor adds an interceptor of streaming calls. The first one added is the outermost.
func StreamInterceptor(i grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.streamInterceptor = rpccall.ChainStreamServer(o.streamInterceptor, i) }
}

// KeepAlive pings a client after a time of silence, and closes its connection if no answer comes
// within the timeout. By default there are no pings.
func KeepAlive(silence, timeout time.Duration) ServerOption {
	return func(o *serverOptions) { o.silence, o.pingTimeout = silence, timeout }
}

// Spin makes a connection poll its socket for up to the time most before its thread sleeps.
// Sleeping and waking take more time than a short call. With one caller, a call is several times
// faster if both ends poll. Polling uses up to one CPU per connection, gains nothing with many
// callers, and is off by default.
func Spin(most time.Duration) ServerOption { return func(o *serverOptions) { o.spin = most } }

// A ClientOption configures a client.
type ClientOption func(*clientOptions)

type clientOptions struct {
	limits
	creds       credentials.TransportCredentials
	dial        func(context.Context, string) (net.Conn, error)
	dialTimeout time.Duration
	backoff     time.Duration
	callOptions []grpc.CallOption
	perRPC      []credentials.PerRPCCredentials
	unary       []grpc.UnaryClientInterceptor
	stream      []grpc.StreamClientInterceptor
}

func defaultClientOptions() clientOptions {
	o := clientOptions{limits: defaultLimits(), creds: insecure.NewCredentials(), dialTimeout: 20 * time.Second, backoff: 100 * time.Millisecond}
	o.client, o.calls, o.handshakeTimeout = true, 0, rpccall.Forever
	o.window = 4 << 20 // callers wait for their answers, and read them at once
	return o
}

// WithTransportCredentials secures connections, see [Creds]. Otherwise connections are cleartext.
func WithTransportCredentials(c credentials.TransportCredentials) ClientOption {
	return func(o *clientOptions) { o.creds = c }
}

// WithDialer sets the function that opens connections.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) ClientOption {
	return func(o *clientOptions) { o.dial = dial }
}

// WithWindow limits the bytes of answers, as [Window] does for requests: 4 MiB by default.
func WithWindow(bytes int) ClientOption { return func(o *clientOptions) { o.window = int64(bytes) } }

// WithStreamWindow limits the unread bytes of a stream: 256 KiB by default.
func WithStreamWindow(bytes int) ClientOption {
	return func(o *clientOptions) { o.perStream = int64(bytes) }
}

// WithMaxReceive limits the length of received messages: 4 MiB by default.
func WithMaxReceive(bytes int) ClientOption {
	return func(o *clientOptions) { o.maxReceive = bytes }
}

// WithMaxMetadata limits the metadata of an answer: 16 KiB by default. The highest limit is 34 KiB.
func WithMaxMetadata(bytes int) ClientOption {
	return func(o *clientOptions) { o.maxMeta = min(bytes, link.MaxMeta) }
}

// WithKeepAlive does for a client what [KeepAlive] does for a server.
func WithKeepAlive(silence, timeout time.Duration) ClientOption {
	return func(o *clientOptions) { o.silence, o.pingTimeout = silence, timeout }
}

// WithSpin does for a client what [Spin] does for a server.
func WithSpin(most time.Duration) ClientOption { return func(o *clientOptions) { o.spin = most } }

// WithConnectTimeout limits the time for a connection's dial, handshake and Hello: 20 s by default.
func WithConnectTimeout(most time.Duration) ClientOption {
	return func(o *clientOptions) { o.dialTimeout = most }
}

// WithBackoff sets the pause after a failed dial: 100 ms by default. The pause doubles with each
// further failure, up to 10 s.
func WithBackoff(first time.Duration) ClientOption {
	return func(o *clientOptions) { o.backoff = first }
}

// WithPerRPCCredentials adds credentials to every call.
func WithPerRPCCredentials(creds credentials.PerRPCCredentials) ClientOption {
	return func(o *clientOptions) { o.perRPC = append(o.perRPC, creds) }
}

// WithDefaultCallOptions adds options to every call. They precede the call's own options.
func WithDefaultCallOptions(options ...grpc.CallOption) ClientOption {
	return func(o *clientOptions) { o.callOptions = append(o.callOptions, options...) }
}

// WithUnaryInterceptor adds an interceptor of unary calls. The first one added is the outermost.
// The interceptor gets a nil *grpc.ClientConn.
func WithUnaryInterceptor(i grpc.UnaryClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.unary = append(o.unary, i) }
}

// WithStreamInterceptor adds an interceptor of streaming calls. The first one added is the
// outermost. The interceptor gets a nil *grpc.ClientConn.
func WithStreamInterceptor(i grpc.StreamClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.stream = append(o.stream, i) }
}
