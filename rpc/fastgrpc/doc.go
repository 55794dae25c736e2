// Package fastgrpc provides a gRPC client and a gRPC server over HTTP/2. They use less CPU time
// per call than grpc-go.
//
// [Server] implements grpc.ServiceRegistrar and [Client] implements
// grpc.ClientConnInterface, so generated code works unchanged. Both interoperate with
// gRPC peers in any language. Interceptors, call options, credentials, resolvers,
// balancers, codecs, compressors, metadata and statuses are grpc-go's own types. grpc-go's
// registered balancing policies run unchanged. Service configs work as in grpc-go, with
// retries, timeouts, limits and health checks.
//
// Some libraries accept only a *grpc.ClientConn. [Client.ClientConn] returns one, whose calls the
// Client makes. Libraries that dial by themselves with a list of grpc.DialOption cannot use
// fastgrpc.
//
//	s := fastgrpc.NewServer()
//	pb.RegisterGreeterServer(s, greeter{})
//	go s.Serve(lis)
//
//	c, err := fastgrpc.NewClient("dns:///host:443", fastgrpc.WithTransportCredentials(creds))
//	reply, err := pb.NewGreeterClient(c).Hello(ctx, request)
//
// # Moving from grpc-go, and back
//
//	s := grpc.NewServer(opts...)           s := fastgrpc.NewServer(opts...)
//	pb.RegisterGreeterServer(s, greeter{}) the same
//	grpc.Creds, grpc.KeepaliveParams, …    fastgrpc.Creds, fastgrpc.KeepaliveParams, …
//	cc, err := grpc.NewClient(target, …)   c, err := fastgrpc.NewClient(target, …)
//	grpc.WithTransportCredentials, …       fastgrpc.WithTransportCredentials, …
//	pb.NewGreeterClient(cc)                pb.NewGreeterClient(c)
//	library.New(cc)                        library.New(c.ClientConn())
//	grpc.UseCompressor, grpc.Header, …     the same: call options are grpc-go's
//	grpc.SetHeader, grpc.SetTrailer, …     the same
//	grpc.SetSendCompressor                 fastgrpc.SetSendCompressor
//	status, codes, metadata, peer, …       the same
//
// Some options have another name in fastgrpc, and code with the old name does not compile. The
// section Options lists the new names. To move back, change the two constructors. A client and
// its server can move independently, because both libraries send the same protocol.
//
// # What it costs
//
// The measurement uses one CPU per end. For short messages from 50 callers on one connection, a
// call uses a sixth of grpc-go's CPU time. For long messages, streams or one caller, a call uses
// a quarter to two fifths. The command `wirelab run fast-grpc` measures this again and prints a
// table. An idle connection has two goroutines and no buffers.
//
// # Errors
//
// All errors are statuses with grpc-go's codes. The library itself returns these codes; a server
// may return them too:
//
//	code                what happened
//	Unavailable         the client could not connect or lost the connection, or the server stops;
//	                    errors.Is and errors.As find the cause, such as ECONNREFUSED
//	Canceled            the context was cancelled, or the client closed
//	DeadlineExceeded    the deadline passed, at either end
//	ResourceExhausted   a message or its metadata is longer than a limit of either end
//	Unauthenticated     the call's credentials failed, or need a secure connection
//	Unimplemented       the server lacks the method or the message's compressor
//	Internal            the peer broke HTTP/2's or gRPC's rules, or a message cannot be decoded
//
// # Versions
//
// Versions follow semantic versioning. Before 1.0.0, a minor version may change the API or the
// default limits for a peer; CHANGELOG.md describes each change. The library is built and
// tested with the versions of Go and grpc-go in its go.mod.
//
// # How data passes through it
//
//		caller ─ codec ─> message ─> call ─┐                      ┌─> call ─> codec ─> caller
//		caller ─ codec ─> message ─> call ─┼─> h2.Conn ─> writer ─┤ socket
//		caller ─ codec ─> message ─> call ─┘   (lock)             └─ reader ─> h2.Conn
//
//	 1. The codec marshals the message into a pooled buffer, behind the gRPC prefix.
//	 2. Under the connection's lock, the call queues its frames in an h2.Conn: a state
//	    machine that owns windows, header tables and stream states, and has no socket.
//	 3. The writer goroutine first lets other goroutines run, so that they can queue frames,
//	    too. Then it writes all queued frames in one system call (package batchio).
//	 4. The reader goroutine parses frames in its read buffer and passes them to the
//	    h2.Conn, which calls back with headers and content.
//	 5. The call assembles messages from the content and wakes the caller. On a server,
//	    a worker goroutine of package call runs the handler.
//
// Neither end copies long messages: they are sent from the codec's buffer and decoded from the
// read buffer. A repeated header block is encoded and decoded once.
//
// # Limits for a peer
//
//   - Received messages: 4 MiB, see [MaxRecvMsgSize]. Metadata: 16 MiB, see
//     [MaxHeaderListSize].
//   - Calls and their metadata: 64 MiB of heap memory per connection. Above this limit, new
//     calls are refused with REFUSED_STREAM; see also [MaxConcurrentStreams].
//   - Unread and incomplete messages: 64 MiB per connection. Each stream's window is 2 MiB,
//     and smaller while memory is short. Unread streams do not block other streams. A single
//     message may exceed this limit.
//   - Unread responses: 64 MiB per connection, plus the responses of running handlers. At most
//     512 handlers run before the client reads its first response, and 160 more per second while
//     it reads nothing.
//   - Frames without content, such as pings, settings or empty DATA: a burst of 10000, then
//     1000 per second. Each frame that this end sends allows the peer more such frames. Above
//     this limit, the connection ends with ENHANCE_YOUR_CALM.
//
// SECURITY.md names the test of each limit and lists what has no limit.
//
// # Raw system calls
//
// On Linux, short reads and writes of unencrypted sockets bypass Go's scheduler. They never
// block, even if the socket is in blocking mode. The environment variable FASTGRPC_RAW=off and
// the build tag fastgrpc_noraw disable them. Calls then use more CPU time if the peer is the
// slower end. The race detector also disables them.
//
// # What it leaves out
//
//	grpc-go has                      here
//	xDS, grpclb, google-c2p          NewClient returns ErrUnsupported
//	hedgingPolicy in service configs the same: both libraries ignore it
//	NewSubConnOptions.CredsBundle    NewSubConn returns ErrUnsupported
//	ALTS                             accepted as credentials, but not tested
//	binary logging, tracing          missing; use a stats handler
//	grpc.SetSendCompressor and       an error: call fastgrpc's functions of these names
//	  ClientSupportedCompressors
//	all compressors announced        only common compressors announced; see WithCompressors
//	GetMethodConfig of the           it returns nothing
//	  *grpc.ClientConn
//
// With [AliasRequests] or [WithAliasedResponses], bytes fields are not copied but point into the
// receive buffer. The comments of both options say how long these fields stay valid.
package fastgrpc
