// Package creditrpc has a client and a server for RPC over TCP, unix sockets and TLS, for programs
// that control both ends. It carries ordinary gRPC services in its own wire format, in which the
// receiver limits the bytes that the sender may send.
//
// [Server] implements grpc.ServiceRegistrar and [Client] implements grpc.ClientConnInterface, so
// generated code works unchanged. Interceptors, call options, credentials, metadata and statuses
// are grpc-go's own types. It does not understand peers that speak gRPC: use package fastgrpc for
// those.
//
//	s := creditrpc.NewServer()
//	pb.RegisterGreeterServer(s, greeter{})
//	go s.Serve(lis)
//
//	c, err := creditrpc.NewClient("host:4000")
//	reply, err := pb.NewGreeterClient(c).Hello(ctx, request)
//
// # What it is for
//
// Many callers over few connections, with short messages or long ones. The frames of many
// callers are written at once, as in package fastgrpc. There are no header tables and no names
// on the wire: a call with 64 bytes takes one frame each way, with 11 bytes more than its
// message.
//
// When many callers send long messages at once, they must wait somewhere. Here they wait at their
// own end, in the order in which they ask: a client sends no more than the server grants, and the
// server grants as many bytes as fit into its caches. Long messages (over 32 KiB) take turns with
// others, so that no call waits behind a long one.
//
// # Credit
//
// Each end grants the other three things; docs/creditrpc.md describes them to the byte:
//
//   - bytes in flight on the connection ([Window], [WithWindow]). They come back when a
//     unary handler has its message, or a stream's message has been received;
//   - bytes unread on each stream ([StreamWindow], [WithStreamWindow]). They come back when
//     the program reads. So an unread stream stops only itself;
//   - calls ([MaxCalls]), which a server grants. They come back when the handler has
//     returned and its answer is on its way: a client that cancels calls, or reads no
//     answers, may begin no more calls.
//
// # Moving from grpc-go, and back
//
//	grpc.NewServer(opts...)             creditrpc.NewServer(opts...)
//	grpc.Creds(creds)                   creditrpc.Creds(creds)
//	grpc.MaxRecvMsgSize(n)              creditrpc.MaxReceive(n)
//	grpc.MaxConcurrentStreams(n)        creditrpc.MaxCalls(n)
//	grpc.ChainUnaryInterceptor(a, b)    creditrpc.UnaryInterceptor(a), (b)
//	grpc.NewClient(target, opts...)     creditrpc.NewClient("host:port", opts...)
//	grpc.WithTransportCredentials(c)    creditrpc.WithTransportCredentials(c)
//	grpc.WithDefaultCallOptions(...)    creditrpc.WithDefaultCallOptions(...)
//	pb.RegisterGreeterServer(s, impl)   the same
//	pb.NewGreeterClient(c)              the same, as are call options, metadata and status
//
// Both ends must move at once. To move back, change the two constructors.
//
// # Options
//
//	what                     default  why
//	Window                   2 MiB    32 messages of 64 KiB; with more, messages only wait in memory
//	WithWindow               4 MiB    callers wait for their answers, and take them at once
//	(With)StreamWindow       256 KiB  a stream over loopback gains nothing from more; a slow
//	                                  link with a long delay needs its rate times its round trip
//	MaxCalls                 1,024    each call takes a goroutine of the server
//	(With)MaxReceive         4 MiB    grpc-go's
//	(With)MaxMetadata        16 KiB   metadata delays the messages behind it
//	(With)KeepAlive          off      an idle connection costs nothing; TCP finds most losses
//	AliasRequests            off      a handler may not keep a request; see there
//	(With)Spin               off      it uses a CPU; see there
//	HandshakeTimeout         120 s    grpc-go's
//	WithConnectTimeout       20 s     grpc-go's
//	WithBackoff              100 ms   doubles up to 10 s
//
// # Errors
//
// All errors are statuses. Those that come from the library and not from a server begin with
// "creditrpc:".
//
//	code                what happened
//	Unavailable         the connection could not be opened, or was lost; errors.Is finds the
//	                    cause, such as ECONNREFUSED
//	Canceled            the context was cancelled, or the client closed ([ErrClosed])
//	DeadlineExceeded    the deadline passed, at either end
//	ResourceExhausted   a message or metadata longer than a limit of either end
//	Unimplemented       the server has no such method; the client has no such call option
//	Unauthenticated     the call's credentials failed, or need a secure connection
//	Internal            a message cannot be decoded, or there are too few or too many
//
// If the server cannot have begun a call, the client makes it again on another connection, up
// to five times. No other call is ever repeated.
//
// # Where it differs from grpc-go
//
// A test makes some sixty kinds of calls over both libraries, and found:
//
//   - Keys and values of metadata may hold any bytes. grpc-go refuses keys that HTTP/2 headers
//     cannot hold, and values that are not printable, unless the key ends in -bin.
//   - If a message is longer than the other end accepts, its sender gets an error, and the stream
//     goes on. With grpc-go the receiver ends the call.
//   - Call options for compressors and codecs fail a call as Unimplemented.
//
// # What bounds a peer
//
// A client can make a server keep, per connection:
//
//   - [MaxCalls] calls with [MaxMetadata] each;
//   - [StreamWindow] unread bytes of each streaming call;
//   - [Window] bytes of the other calls;
//   - 64 MiB of messages that are longer than a stream's window;
//   - 4,096 names of methods;
//   - the answers of [MaxCalls] calls that it does not accept.
//
// A client that breaks the rules, for instance by sending without credit, loses the connection.
// Each message of a stream costs 64 bytes more than its length, which also bounds empty messages.
//
// # What it leaves out
//
// Gateways, proxies and other languages (the tests have a small client in Python); name
// resolution beyond net.Dial; balancing (use package chanpool, or one Client per server);
// retries by policy; compression; codecs other than Protocol Buffers; statistics handlers. The
// reflection service works, but only for clients of this package.
//
// # Versions
//
// Versions follow semantic versioning. Until 1.0.0 a minor version may change the API or the
// wire format, and CHANGELOG.md says how; each Hello names the version of the format, and ends
// with different versions refuse each other with an error that says so.
package creditrpc
