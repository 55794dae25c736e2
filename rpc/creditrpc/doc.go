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
// It is for many callers over few connections, with short messages or long ones. One write sends
// the frames of many callers, as in package fastgrpc. The frames need no header tables and no names
// of methods. A call with 64 bytes takes one frame each way, which adds 11 bytes to its message.
//
// When many callers send long messages at once, the messages must wait. They wait at the client, in
// the order in which they were sent. A client sends no more bytes than the server grants, and the
// server grants as many bytes as fit into its CPU caches. Long messages (over 32 KiB) are sent in
// parts, so that no call waits for a whole long message.
//
// # Credit
//
// Each end grants its peer three kinds of credit, which docs/creditrpc.md describes exactly:
//
//   - Bytes in flight on the connection ([Window], [WithWindow]). The receiver returns this
//     credit when a unary handler has its message, or a stream's message has been received.
//   - Unread bytes on each stream ([StreamWindow], [WithStreamWindow]). The receiver returns this
//     credit when the program reads. So an unread stream blocks only itself.
//   - Calls ([MaxCalls]), which only a server grants. The server returns this credit when the
//     handler has returned and its answer is queued for sending. A client that cancels calls, or
//     reads no answers, may begin no more calls.
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
//	WithWindow               4 MiB    callers wait for their answers, and read them at once
//	(With)StreamWindow       256 KiB  a stream over loopback gains nothing from more; a slow
//	                                  link with a long delay needs its rate times its round trip
//	MaxCalls                 1,024    each call takes a goroutine of the server
//	(With)MaxReceive         4 MiB    as in grpc-go
//	(With)MaxMetadata        16 KiB   metadata delays the messages behind it
//	(With)KeepAlive          off      an idle connection costs nothing; TCP finds most losses
//	AliasRequests            off      a handler must not keep bytes of such a request
//	(With)Spin               off      it uses up to one CPU per connection
//	HandshakeTimeout         120 s    as in grpc-go
//	WithConnectTimeout       20 s     as in grpc-go
//	WithBackoff              100 ms   it doubles with each failure, up to 10 s
//
// # Errors
//
// All errors are statuses. The texts of the library's own errors begin with "creditrpc:".
//
//	code                what happened
//	Unavailable         the connection could not be opened, or was lost; errors.Is finds the
//	                    cause, such as ECONNREFUSED
//	Canceled            the context was cancelled, or the client closed ([ErrClosed])
//	DeadlineExceeded    the deadline passed, at either end
//	ResourceExhausted   a message or metadata longer than a limit of either end
//	Unimplemented       the server has no such method; the client has no such call option
//	Unauthenticated     the call's credentials failed, or need a secure connection
//	Internal            a message cannot be decoded, or the number of messages is wrong
//
// If the server cannot have begun a call, the client makes the call again on another connection, up
// to five times. It repeats no other call.
//
// # Where it differs from grpc-go
//
// A test makes about sixty kinds of calls with both libraries. It found these differences, and
// those at the end of this page:
//
//   - If a message is longer than the peer accepts, the message's sender gets an error, which ends
//     the call. With grpc-go, the receiver ends the call.
//   - Call options for compressors and codecs fail a call as Unimplemented.
//
// # What bounds a peer
//
// A client can make a server keep this memory, per connection:
//
//   - [MaxCalls] calls with [MaxMetadata] each;
//   - [StreamWindow] unread bytes of each streaming call;
//   - [Window] bytes of the other calls;
//   - 64 MiB of messages that are longer than a stream's window;
//   - 4,096 names of methods;
//   - the answers of [MaxCalls] calls, if the client does not read them.
//
// If a peer breaks the rules, for instance by sending without credit, the connection is closed. It is
// also closed if the peer sends too many frames that make no progress, such as pings: more than 10,000
// at once and then 1,000 per second. A stream's message costs 64 bytes more than its length, which
// also limits empty ones. SECURITY.md names the test of each limit and lists what has no limit.
//
// # What it leaves out
//
// It has no gateways, proxies or other languages (the tests have a small client in Python); no name
// resolution beyond net.Dial; no balancing (use package chanpool, or one Client per server); no
// retries by policy; no compression; no codecs but Protocol Buffers; no statistics handlers. The
// reflection service works, but only for clients of this package.
//
// # Versions
//
// Versions follow semantic versioning. Before 1.0.0, a minor version may change the API or the wire
// format; CHANGELOG.md describes each change. Each end sends its version of the wire format. If the
// versions of a client and a server differ, each refuses the connection with an error that says so.
package creditrpc
