// Package fastgrpc carries gRPC over HTTP/2 at a part of the usual cost.
//
// A [Server] satisfies grpc.ServiceRegistrar and a [Client] grpc.ClientConnInterface,
// so ordinary generated code works on them unchanged, and either speaks to any gRPC
// peer in any language. Interceptors, call options, credentials, resolvers, codecs,
// compressors, metadata and statuses are grpc-go's own types.
//
//	s := fastgrpc.NewServer()
//	pb.RegisterGreeterServer(s, greeter{})
//	go s.Serve(lis)
//
//	c, err := fastgrpc.NewClient("dns:///host:443", fastgrpc.WithTransportCredentials(creds))
//	reply, err := pb.NewGreeterClient(c).Hello(ctx, request)
//
// # How data passes through it
//
//	caller ─ codec ─> message ─> call ─┐                      ┌─> call ─> codec ─> caller
//	caller ─ codec ─> message ─> call ─┼─> h2.Conn ─> writer ─┤ socket
//	caller ─ codec ─> message ─> call ─┘   (lock)             └─ reader ─> h2.Conn
//
// Package internal/h2 is a pure state machine: it owns windows, header tables and
// stream states, and knows no socket. The transport around it has one writer, which
// yields once and then writes whatever all callers have queued, and one reader, which
// parses frames where they lie. Long messages are neither copied from the chunk they
// were received in nor into the buffer they are sent from. A header block that comes
// again is neither encoded nor decoded again. On a server, workers run handlers; see
// the workers type for why a slow one holds up nobody.
//
// # What bounds a peer
//
// Messages: 4 MiB received, see [MaxRecvMsgSize]. Metadata: 64 KiB, see
// [MaxHeaderListSize]. Calls on a connection: 1000, see [MaxConcurrentStreams]; more
// wait at a client and are refused by a server. Unread bytes: a window a stream, and
// 64 MiB a connection, see [Windows]. Frames that bring nothing, such as pings, empty
// DATA or resets: 10000 at once and 1000 a second, and more with each frame of an
// answer; beyond that the connection ends with ENHANCE_YOUR_CALM.
//
// # What it leaves out
//
//	grpc-go has                      here
//	xDS, grpclb, google-c2p          NewClient returns ErrUnsupported
//	balancers other than pick_first  NewClient returns ErrUnsupported
//	  and round_robin
//	service config, retry policies,  ignored: options that are not there; calls that a server
//	  hedging                        promises not to have begun are repeated, streams until
//	                                 they have sent 256 KiB
//	ALTS                             works as credentials, untested
//	HTTP proxies                     ignored; dial through WithContextDialer
//	grpc.CallCustomCodec             an error; use grpc.ForceCodec
//	binary logging, tracing          not there; use a stats handler
//	*grpc.ClientConn in client       nil
//	  interceptors
//	handlers on net/http             not there; cleartext and TLS listeners only
//
// Bytes fields may be aliased to the receive buffer, where [AliasRequests] or
// [WithAliasedResponses] asks for it; the options say for how long.
package fastgrpc
