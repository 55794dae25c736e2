// Package fastgrpc has a gRPC client and a gRPC server over HTTP/2 that use less CPU time per
// call than grpc-go.
//
// [Server] implements grpc.ServiceRegistrar and [Client] implements
// grpc.ClientConnInterface, so generated code works unchanged. Both interoperate with
// gRPC peers in any language. Interceptors, call options, credentials, resolvers,
// balancers, codecs, compressors, metadata and statuses are grpc-go's own types. The
// balancing policies that grpc-go registers run as they are, and service configs mean
// what they mean there: retries, timeouts, limits, health checks.
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
//	grpc.UseCompressor, grpc.Header, …     the same: call options are grpc-go's
//	grpc.SetHeader, grpc.SetTrailer, …     the same
//	grpc.SetSendCompressor                 fastgrpc.SetSendCompressor
//	status, codes, metadata, peer, …       the same
//
// An option with another name here does not compile; the list below says what to use. To move
// back, change the two constructors. The bytes on the wire are gRPC's, so either end can move
// alone.
//
// # What it costs
//
// With two CPUs, one per end, and short messages of 50 callers on one connection, a call takes
// a sixth of grpc-go's CPU time. With long messages, streams or one caller it takes a quarter
// to two fifths. `wirelab run fast-grpc` has the table and measures it again. A connection at rest
// has two goroutines and no buffers.
//
// # Errors
//
// All errors are statuses with grpc-go's codes. These come from the library and not from a
// server:
//
//	code                what happened
//	Unavailable         no connection could be opened, or it was lost, or the server drains;
//	                    errors.Is and errors.As find the cause, such as ECONNREFUSED
//	Canceled            the context was cancelled, or the client closed
//	DeadlineExceeded    the deadline passed, at either end
//	ResourceExhausted   a message or metadata longer than a limit of either end
//	Unauthenticated     the call's credentials failed, or need a secure connection
//	Unimplemented       the server has no such method, or not the message's compressor
//	Internal            the peer breaks HTTP/2's or gRPC's rules; a message cannot be decoded
//
// # Versions
//
// Versions follow semantic versioning. Until 1.0.0 a minor version may change the API, and
// CHANGELOG.md says how. The default limits for a peer change only in such a version, too. The
// library is built and tested with the versions of Go and grpc-go in its go.mod.
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
//	 3. The writer goroutine yields once, so that other calls can queue too, and then
//	    writes all queued frames in one system call (package batchio).
//	 4. The reader goroutine parses frames in its read buffer and passes them to the
//	    h2.Conn, which calls back with headers and content.
//	 5. The call assembles messages from the content and wakes the caller. On a server,
//	    a worker goroutine of package call runs the handler.
//
// Long messages are not copied on either side: they are sent from the codec's buffer
// and decoded from the read buffer. Repeated header blocks are encoded and decoded
// once.
//
// # What bounds a peer
//
//   - Received messages: 4 MiB, see [MaxRecvMsgSize]. Metadata: 16 MiB, see
//     [MaxHeaderListSize].
//   - Calls and their metadata: 64 MiB per connection, counted at their cost on the heap.
//     Beyond that, new calls are refused with REFUSED_STREAM; see also
//     [MaxConcurrentStreams].
//   - Unread and incomplete messages: 64 MiB per connection. Each stream's window is 2 MiB,
//     and less while memory is short. Streams that nobody reads do not stop the others. One
//     message may be longer than the limit.
//   - Answers that the client does not read: 64 MiB per connection, and the answers of the
//     handlers that already run, 512 of them before the client has read an answer.
//   - Work without progress, such as pings, settings or empty DATA: a burst of 10000 frames
//     and then 1000 per second, and more with each frame that this end sends. Beyond that,
//     the connection ends with ENHANCE_YOUR_CALM.
//
// SECURITY.md names the test of each limit, and what is not limited.
//
// # Raw system calls
//
// On Linux, short reads and writes of cleartext sockets are system calls that bypass
// Go's scheduler. They cannot wait, whatever mode the descriptor is in. The
// environment variable FASTGRPC_RAW=off and the build tag fastgrpc_noraw turn them off, at
// a cost in CPU time if the peer is the slower end; under the race detector they are
// off.
//
// # What it leaves out
//
//	grpc-go has                      here
//	xDS, grpclb, google-c2p          NewClient returns ErrUnsupported
//	hedging                          no more than grpc-go: hedgingPolicy is ignored
//	NewSubConnOptions.CredsBundle    NewSubConn returns ErrUnsupported
//	ALTS                             works as credentials, untested
//	binary logging, tracing          missing; use a stats handler
//	grpc.SetSendCompressor and       an error; the functions of these names here
//	  ClientSupportedCompressors
//	all compressors announced        those with usual names, and WithCompressors
//	*grpc.ClientConn in client       nil
//	  interceptors
//
// With [AliasRequests] or [WithAliasedResponses], bytes fields point into the receive
// buffer instead of being copied; the options say how long they stay valid.
package fastgrpc
