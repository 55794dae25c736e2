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

// limits are what both ends have.
type limits struct {
	window, perStream, room int64
	maxReceive, maxSend     int
	maxMeta                 int
	silence, pingTimeout    time.Duration
	spin                    time.Duration
}

func defaultLimits() limits {
	return limits{
		window: 2 << 20, perStream: 256 << 10, room: 64 << 20,
		maxReceive: 4 << 20, maxSend: 1<<31 - 1, maxMeta: 16 << 10,
	}
}

func (l *limits) link() link.Config {
	return link.Config{
		Window: max(l.window, credit.LeastWindow), PerStream: max(l.perStream, credit.LeastWindow),
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

// ServerOption changes what a server does by default.
type ServerOption func(*serverOptions)

type serverOptions struct {
	limits
	creds             credentials.TransportCredentials // nil: cleartext
	calls             int
	alias             bool
	handshakeTimeout  time.Duration
	unaryInterceptor  grpc.UnaryServerInterceptor
	streamInterceptor grpc.StreamServerInterceptor
}

func defaultServerOptions() serverOptions {
	return serverOptions{limits: defaultLimits(), calls: 1024, handshakeTimeout: 120 * time.Second}
}

func (o *serverOptions) link() link.Config {
	cfg := o.limits.link()
	cfg.Calls = int64(o.calls)
	return cfg
}

// Creds secures connections, as TLS does. A tls.Config should have [ALPN] in NextProtos, since
// grpc-go's credentials.NewTLS otherwise names HTTP/2 alone.
func Creds(c credentials.TransportCredentials) ServerOption {
	return func(o *serverOptions) { o.creds = c }
}

// MaxCalls is how many calls a client may have under way on a connection: 1,024 by default.
// More wait at the client, in the order of asking.
func MaxCalls(n int) ServerOption { return func(o *serverOptions) { o.calls = max(1, n) } }

// Window is how many bytes of requests a client may have sent on a connection that this end
// has not taken in: 2 MiB by default. It is what keeps many callers with large messages from
// filling the server's memory and time: fewer bytes are fewer calls at once.
func Window(bytes int) ServerOption { return func(o *serverOptions) { o.window = int64(bytes) } }

// StreamWindow is how many bytes may lie unread on a stream: 256 KiB by default.
func StreamWindow(bytes int) ServerOption {
	return func(o *serverOptions) { o.perStream = int64(bytes) }
}

// AliasRequests makes bytes fields of unary requests, from 1 KiB on, point into the receive
// buffer, which saves a copy and its memory. They are valid until the handler returns: one that
// keeps such a field must copy it, or it will see the bytes of other calls there.
func AliasRequests() ServerOption { return func(o *serverOptions) { o.alias = true } }

// MaxReceive is the longest message that is taken: 4 MiB by default.
func MaxReceive(bytes int) ServerOption { return func(o *serverOptions) { o.maxReceive = bytes } }

// MaxMetadata is the most metadata that a call may bring: 16 KiB by default, at most 34 KiB.
func MaxMetadata(bytes int) ServerOption {
	return func(o *serverOptions) { o.maxMeta = min(bytes, link.MaxMeta) }
}

// HandshakeTimeout bounds a connection's TLS handshake: 120 s by default.
func HandshakeTimeout(most time.Duration) ServerOption {
	return func(o *serverOptions) { o.handshakeTimeout = most }
}

// UnaryInterceptor wraps the handlers of unary calls. Of several, the first is outermost.
func UnaryInterceptor(i grpc.UnaryServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.unaryInterceptor = rpccall.ChainUnaryServer(o.unaryInterceptor, i) }
}

// StreamInterceptor wraps the handlers of streams. Of several, the first is outermost.
func StreamInterceptor(i grpc.StreamServerInterceptor) ServerOption {
	return func(o *serverOptions) { o.streamInterceptor = rpccall.ChainStreamServer(o.streamInterceptor, i) }
}

// KeepAlive asks a client that has been silent for a while for a sign of life, and closes its
// connection if none comes in time. By default nothing is asked.
func KeepAlive(silence, timeout time.Duration) ServerOption {
	return func(o *serverOptions) { o.silence, o.pingTimeout = silence, timeout }
}

// Spin makes a connection look for so long for something to read before its thread sleeps.
// Sleeping and waking cost more than a short call: with one caller, and both ends spinning, a
// call takes a fraction of the time. It burns up to a CPU for each connection that is read,
// gains nothing with many callers, and is off by default.
func Spin(most time.Duration) ServerOption { return func(o *serverOptions) { o.spin = most } }

// ClientOption changes what a client does by default.
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
	o.window = 4 << 20 // answers that have come have their callers waiting
	return o
}

// WithTransportCredentials secures connections, as TLS does: see [Creds]. Without, they are
// cleartext.
func WithTransportCredentials(c credentials.TransportCredentials) ClientOption {
	return func(o *clientOptions) { o.creds = c }
}

// WithDialer opens connections in another way than by the target's address.
func WithDialer(dial func(ctx context.Context, address string) (net.Conn, error)) ClientOption {
	return func(o *clientOptions) { o.dial = dial }
}

// WithWindow is how many bytes of answers the server may have sent on a connection that
// this end has not taken in: 4 MiB by default.
func WithWindow(bytes int) ClientOption { return func(o *clientOptions) { o.window = int64(bytes) } }

// WithStreamWindow is how many bytes may lie unread on a stream: 256 KiB by default.
func WithStreamWindow(bytes int) ClientOption {
	return func(o *clientOptions) { o.perStream = int64(bytes) }
}

// WithMaxReceive is the longest message that is taken: 4 MiB by default.
func WithMaxReceive(bytes int) ClientOption {
	return func(o *clientOptions) { o.maxReceive = bytes }
}

// WithMaxMetadata is the most metadata that an answer may bring: 16 KiB by default, at most
// 34 KiB.
func WithMaxMetadata(bytes int) ClientOption {
	return func(o *clientOptions) { o.maxMeta = min(bytes, link.MaxMeta) }
}

// WithKeepAlive asks a server that has been silent for a while for a sign of life, and gives
// its connection up if none comes in time. By default nothing is asked.
func WithKeepAlive(silence, timeout time.Duration) ClientOption {
	return func(o *clientOptions) { o.silence, o.pingTimeout = silence, timeout }
}

// WithSpin is [Spin] at the client.
func WithSpin(most time.Duration) ClientOption { return func(o *clientOptions) { o.spin = most } }

// WithConnectTimeout bounds a connection's dial, handshake and greeting: 20 s by default.
func WithConnectTimeout(most time.Duration) ClientOption {
	return func(o *clientOptions) { o.dialTimeout = most }
}

// WithBackoff is the pause after a failed dial: 100 ms by default. It doubles with each further
// one, up to 10 s.
func WithBackoff(first time.Duration) ClientOption {
	return func(o *clientOptions) { o.backoff = first }
}

// WithPerRPCCredentials adds credentials to every call.
func WithPerRPCCredentials(creds credentials.PerRPCCredentials) ClientOption {
	return func(o *clientOptions) { o.perRPC = append(o.perRPC, creds) }
}

// WithDefaultCallOptions are options of every call, before its own.
func WithDefaultCallOptions(options ...grpc.CallOption) ClientOption {
	return func(o *clientOptions) { o.callOptions = append(o.callOptions, options...) }
}

// WithUnaryInterceptor wraps unary calls. Of several, the first is outermost. They get no
// *grpc.ClientConn.
func WithUnaryInterceptor(i grpc.UnaryClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.unary = append(o.unary, i) }
}

// WithStreamInterceptor wraps streams. Of several, the first is outermost.
func WithStreamInterceptor(i grpc.StreamClientInterceptor) ClientOption {
	return func(o *clientOptions) { o.stream = append(o.stream, i) }
}
