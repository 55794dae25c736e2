// Package creditrpc is an RPC over TCP, unix sockets and TLS for people who own both ends. It
// carries ordinary gRPC services, on a wire format of its own in which the receiver says how
// much it takes.
//
// [Server] implements grpc.ServiceRegistrar and [Client] implements
// grpc.ClientConnInterface, so generated code works unchanged. Interceptors, call options,
// credentials, metadata and statuses are grpc-go's own types. A peer that speaks gRPC is not
// understood: use package fastgrpc for those.
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
// callers are written at once, as in package fastgrpc, and there are no header tables and no
// names on the wire: a call of 64 bytes is one frame each way, of 11 bytes more than its
// message.
//
// Long messages of many callers at once make a queue somewhere. Here it is at the callers: a
// client sends no more than the server grants. The server keeps as many bytes in work as suit
// its caches, and callers wait for their turn, in the order of asking. A message longer than
// 32 KiB takes its turns between those of others, so that no call waits behind a long one.
//
// # Credit
//
// Each end grants the other three things, as docs/creditrpc.md has it to the byte:
//
//   - bytes under way on the connection ([Window], [WithWindow]). They come back when a
//     unary handler has its message, or a stream's message has been received;
//   - bytes unread on each stream ([StreamWindow], [WithStreamWindow]). They come back when
//     the program reads. A stream that nobody reads so stops itself alone;
//   - calls ([MaxCalls]), which a server grants. They come back when the handler has
//     returned and its answer is on its way: a client that cancels calls, or takes no
//     answers, gets no more of them.
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
// Both ends must move at once. The way back is the two constructors.
//
// # Options
//
//	what                     default  why
//	Window                   2 MiB    32 messages of 64 KiB, half of them in work: more only wait in memory
//	WithWindow               4 MiB    whoever gets an answer waits for it, and takes it in at once
//	(With)StreamWindow       256 KiB  a stream over loopback gains nothing from more; a slow
//	                                  link with a long delay needs its rate times its round trip
//	MaxCalls                 1,024    the goroutines that a client can make a connection have
//	(With)MaxReceive         4 MiB    grpc-go's
//	(With)MaxMetadata        16 KiB   it goes before the first byte of a message
//	(With)KeepAlive          off      an idle connection costs nothing; TCP finds most losses
//	AliasRequests            off      a handler that keeps a request must know; see there
//	(With)Spin               off      it burns a CPU; see there
//	HandshakeTimeout         120 s    grpc-go's
//	WithConnectTimeout       20 s     grpc-go's
//	WithBackoff              100 ms   doubles up to 10 s
//
// # Errors
//
// All are statuses. Those that no server sent begin with "creditrpc:".
//
//	code                what happened
//	Unavailable         the connection could not be opened, or was lost; errors.Is finds the
//	                    cause, such as ECONNREFUSED
//	Canceled            the context was cancelled, or the client closed ([ErrClosed])
//	DeadlineExceeded    the deadline passed, at either end
//	ResourceExhausted   a message or metadata longer than a limit of either end
//	Unimplemented       the server has no such method; the client has no such call option
//	Unauthenticated     the call's credentials failed, or need a secure connection
//	Internal            a message that is no message of its type; one too few or too many
//
// A call that its server cannot have begun is made again on another connection, up to five
// times. No other call is ever repeated.
//
// # Where it differs from grpc-go
//
// A test plays some sixty calls over both: metadata, statuses, ends, limits. They differ so:
//
//   - metadata may hold any bytes, in keys and in values. grpc-go fails calls with keys that
//     are no HTTP/2 header's, and with values that are not printable, unless the key ends in -bin;
//   - a message longer than the other end takes is refused to who sends it, and the stream goes
//     on. Over grpc-go the call fails at who receives it;
//   - the call options for compressors and codecs fail a call as Unimplemented.
//
// # What bounds a peer
//
// What a client can make a server keep of a connection is bounded by [MaxCalls] calls with
// [MaxMetadata] each, [StreamWindow] bytes unread for each of them that streams, [Window]
// bytes for those that do not, 64 MiB of messages that are longer than a stream's window,
// 4,096 names of methods, and the answers of so many calls that it does not take. Whoever
// breaks the rules, as by sending without credit, loses the connection. Messages of a stream
// count with 64 bytes more than they have, so that empty ones are bounded too.
//
// # What it leaves out
//
// Gateways, proxies and other languages (there is one small client in Python, in the tests);
// name resolution beyond what net.Dial does, balancing (package chanpool, or one Client a
// server); retries by policy; compression; codecs other than Protocol Buffers; statistics
// handlers; reflection is served as any service is, and only clients of this package can ask.
//
// # Versions
//
// Versions follow semantic versioning. Until 1.0.0 a minor version may change the API or the
// wire format, and CHANGELOG.md says how; each Hello names the version of the format, and ends
// that differ refuse each other with words that say so.
package creditrpc
