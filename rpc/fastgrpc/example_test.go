package fastgrpc_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	testpb "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/resolver"
	"google.golang.org/grpc/resolver/manual"
	"google.golang.org/grpc/stats"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc"
)

// serve runs a server of the health service, which stands for any generated one.
func serve(s *fastgrpc.Server) (address string) {
	healthpb.RegisterHealthServer(s, health.NewServer())
	lis, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		panic(err)
	}
	go func() {
		if err := s.Serve(lis); err != nil && !errors.Is(err, fastgrpc.ErrServerStopped) {
			panic(err)
		}
	}()
	return lis.Addr().String()
}

func check(c *fastgrpc.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, err := healthpb.NewHealthClient(c).Check(ctx, &healthpb.HealthCheckRequest{})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.Status)
}

// cleartext is for examples. Use TLS.
var cleartext = fastgrpc.WithTransportCredentials(insecure.NewCredentials())

// A server and a client of generated code.
func Example() {
	s := fastgrpc.NewServer()
	address := serve(s) // registers a service and calls Serve
	defer s.Stop()

	c, err := fastgrpc.NewClient(address, cleartext)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	reply, err := healthpb.NewHealthClient(c).Check(context.Background(), &healthpb.HealthCheckRequest{})
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.Status)
	// Output: SERVING
}

// Credentials are grpc-go's.
func Example_tls() {
	web := httptest.NewTLSServer(nil) // for its certificate
	defer web.Close()
	roots := x509.NewCertPool()
	roots.AddCert(web.Certificate())

	s := fastgrpc.NewServer(fastgrpc.Creds(credentials.NewServerTLSFromCert(&web.TLS.Certificates[0])))
	address := serve(s)
	defer s.Stop()

	c, err := fastgrpc.NewClient(address, fastgrpc.WithTransportCredentials(
		credentials.NewTLS(&tls.Config{RootCAs: roots, ServerName: "example.com"})))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	check(c)
	// Output: SERVING
}

// echo answers each message of a stream.
type echo struct {
	testpb.UnimplementedTestServiceServer
}

func (echo) FullDuplexCall(stream testpb.TestService_FullDuplexCallServer) error {
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := stream.Send(&testpb.StreamingOutputCallResponse{Payload: in.Payload}); err != nil {
			return err
		}
	}
}

// The generated code's streams work unchanged.
func Example_streaming() {
	s := fastgrpc.NewServer()
	testpb.RegisterTestServiceServer(s, echo{})
	address := serve(s)
	defer s.Stop()

	c, err := fastgrpc.NewClient(address, cleartext)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // ends the stream if it is not read to its end
	stream, err := testpb.NewTestServiceClient(c).FullDuplexCall(ctx)
	if err != nil {
		panic(err)
	}
	for _, word := range []string{"hello", "again"} {
		if err := stream.Send(&testpb.StreamingOutputCallRequest{Payload: &testpb.Payload{Body: []byte(word)}}); err != nil {
			panic(err)
		}
		out, err := stream.Recv()
		if err != nil {
			panic(err)
		}
		fmt.Printf("%s\n", out.Payload.Body)
	}
	if err := stream.CloseSend(); err != nil {
		panic(err)
	}
	_, err = stream.Recv()
	fmt.Println(err)
	// Output:
	// hello
	// again
	// EOF
}

// Interceptors are grpc-go's.
func Example_interceptors() {
	s := fastgrpc.NewServer(fastgrpc.UnaryInterceptor(
		func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
			fmt.Println("serving", info.FullMethod)
			return handler(ctx, req)
		}))
	address := serve(s)
	defer s.Stop()

	c, err := fastgrpc.NewClient(address, cleartext, fastgrpc.WithUnaryInterceptor(
		func(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoker grpc.UnaryInvoker, opts ...grpc.CallOption) error {
			err := invoker(ctx, method, req, reply, cc, opts...)
			fmt.Println("called", method, status.Code(err) == codes.OK)
			return err
		}))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	check(c)
	// Output:
	// serving /grpc.health.v1.Health/Check
	// called /grpc.health.v1.Health/Check true
	// SERVING
}

// Balancing, retries, timeouts and health checks come from a service config, as in
// grpc-go, and resolvers are grpc-go's.
func Example_serviceConfig() {
	one, two := fastgrpc.NewServer(), fastgrpc.NewServer()
	defer one.Stop()
	defer two.Stop()
	backends := manual.NewBuilderWithScheme("backends")
	backends.InitialState(resolver.State{Endpoints: []resolver.Endpoint{
		{Addresses: []resolver.Address{{Addr: serve(one)}}},
		{Addresses: []resolver.Address{{Addr: serve(two)}}},
	}})

	c, err := fastgrpc.NewClient("backends:///greeter", cleartext,
		fastgrpc.WithResolvers(backends),
		fastgrpc.WithDefaultServiceConfig(`{
			"loadBalancingConfig": [{"round_robin": {}}],
			"methodConfig": [{
				"name": [{"service": "grpc.health.v1.Health"}],
				"timeout": "10s",
				"retryPolicy": {
					"maxAttempts": 3, "initialBackoff": "0.1s", "maxBackoff": "1s",
					"backoffMultiplier": 2, "retryableStatusCodes": ["UNAVAILABLE"]
				}
			}]
		}`))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	for one.Counters().CallsStarted == 0 || two.Counters().CallsStarted == 0 {
		if _, err := healthpb.NewHealthClient(c).Check(context.Background(), &healthpb.HealthCheckRequest{}); err != nil {
			panic(err)
		}
	}
	fmt.Println("both backends were called")
	// Output: both backends were called
}

// callCounter is a stats handler, as OpenTelemetry's is.
type callCounter struct{ calls atomic.Int64 }

func (*callCounter) TagRPC(ctx context.Context, _ *stats.RPCTagInfo) context.Context { return ctx }

func (*callCounter) TagConn(ctx context.Context, _ *stats.ConnTagInfo) context.Context { return ctx }
func (*callCounter) HandleConn(context.Context, stats.ConnStats)                       {}

func (c *callCounter) HandleRPC(_ context.Context, s stats.RPCStats) {
	if _, ok := s.(*stats.End); ok {
		c.calls.Add(1)
	}
}

// Stats handlers are grpc-go's. The library also counts by itself.
func Example_stats() {
	counter := new(callCounter)
	s := fastgrpc.NewServer()
	address := serve(s)
	defer s.Stop()
	c, err := fastgrpc.NewClient(address, cleartext, fastgrpc.WithStatsHandler(counter))
	if err != nil {
		panic(err)
	}
	defer c.Close()
	check(c)
	fmt.Println(counter.calls.Load(), "call ended,", c.Counters().CallsSucceeded, "succeeded")
	// Output:
	// SERVING
	// 1 call ended, 1 succeeded
}

// GracefulStop lets running calls end, Stop does not. After a while, do the second.
func ExampleServer_GracefulStop() {
	s := fastgrpc.NewServer()
	serve(s)
	impatient := time.AfterFunc(30*time.Second, s.Stop)
	s.GracefulStop() // Serve returns nil
	impatient.Stop()
	fmt.Println("stopped")
	// Output: stopped
}

// counting uses each message before it receives the next, and keeps none.
type counting struct {
	testpb.UnimplementedTestServiceServer
}

func (counting) StreamingInputCall(stream testpb.TestService_StreamingInputCallServer) error {
	size := 0
	for {
		in, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return stream.SendAndClose(&testpb.StreamingInputCallResponse{AggregatedPayloadSize: int32(size)})
		}
		if err != nil {
			return err
		}
		size += len(in.Payload.Body) // to keep the body, copy it
	}
}

// A handler that uses bytes before it receives the next message needs no copy of them.
// Run tests with FASTGRPC_ALIAS=check, or -race, to find one that keeps them.
func ExampleAliasRequests() {
	s := fastgrpc.NewServer(fastgrpc.AliasRequests())
	testpb.RegisterTestServiceServer(s, counting{})
	address := serve(s)
	defer s.Stop()
	c, err := fastgrpc.NewClient(address, cleartext)
	if err != nil {
		panic(err)
	}
	defer c.Close()

	stream, err := testpb.NewTestServiceClient(c).StreamingInputCall(context.Background())
	if err != nil {
		panic(err)
	}
	for range 10 {
		if err := stream.Send(&testpb.StreamingInputCallRequest{Payload: &testpb.Payload{Body: make([]byte, 100_000)}}); err != nil {
			panic(err)
		}
	}
	reply, err := stream.CloseAndRecv()
	if err != nil {
		panic(err)
	}
	fmt.Println(reply.AggregatedPayloadSize)
	// Output: 1000000
}

// Messages with code of protoc-gen-go-vtproto use it, all others package proto.
func ExampleVTProto() {
	s := fastgrpc.NewServer(fastgrpc.VTProto())
	address := serve(s)
	defer s.Stop()
	c, err := fastgrpc.NewClient(address, cleartext, fastgrpc.WithVTProto())
	if err != nil {
		panic(err)
	}
	defer c.Close()
	check(c)
	// Output: SERVING
}
