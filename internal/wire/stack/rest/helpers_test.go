package rest

import (
	"context"
	"testing"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// scripted is a service that a test fills in.
type scripted struct {
	testpb.UnimplementedTestServiceServer
	unary        func(context.Context, *testpb.TestRequest) (*testpb.TestResponse, error)
	clientStream func(grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error
	serverStream func(*testpb.TestRequest, grpc.ServerStreamingServer[testpb.TestResponse]) error
}

func (s *scripted) Unary(ctx context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
	if s.unary == nil {
		return &testpb.TestResponse{Body: in.Body}, nil
	}
	return s.unary(ctx, in)
}

func (s *scripted) ClientStream(stream grpc.ClientStreamingServer[testpb.TestRequest, testpb.TestResponse]) error {
	return s.clientStream(stream)
}

func (s *scripted) ServerStream(in *testpb.TestRequest, stream grpc.ServerStreamingServer[testpb.TestResponse]) error {
	return s.serverStream(in, stream)
}

// serve serves the service until the test ends.
func serve(tb testing.TB, service testpb.TestServiceServer) (address string) {
	tb.Helper()
	address, _ = serveOn(tb, "rest", service)
	return address
}

// variantOf reads a variant of this package's stacks.
func variantOf(tb testing.TB, text string) (Stack, scenario.Variant) {
	tb.Helper()
	v, err := scenario.ParseVariant(text)
	if err != nil {
		tb.Fatal(err)
	}
	for _, s := range []Stack{REST, H1, H2, H3} {
		if s.Info().Name == v.Stack {
			return s, v
		}
	}
	tb.Fatalf("%s is not of this package", text)
	return Stack{}, v
}

// serveOn is serve on a variant, with the root that a client must trust.
func serveOn(tb testing.TB, variant string, service testpb.TestServiceServer) (address string, rootPEM []byte) {
	tb.Helper()
	s, v := variantOf(tb, variant)
	server, err := s.NewServer(v)
	if err != nil {
		tb.Fatal(err)
	}
	testpb.RegisterTestServiceServer(server, service)
	bound, err := server.Listen(context.Background(), "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve() }()
	tb.Cleanup(func() {
		if err := server.Close(); err != nil {
			tb.Error(err)
		}
		if err := <-served; err != nil {
			tb.Error(err)
		}
	})
	return bound.String(), server.(stack.TLSServer).RootPEM()
}

// dial makes a client that is closed when the test ends.
func dial(tb testing.TB, address string, connections int) stack.Client {
	tb.Helper()
	client, _ := dialCounted(tb, address, connections)
	return client
}

// dialCounted is dial with the dialer that counts its connections.
func dialCounted(tb testing.TB, address string, connections int) (stack.Client, *conn.Dialer) {
	tb.Helper()
	dialer := &conn.Dialer{}
	return dialOn(tb, "rest", stack.Target{Address: address, Connections: connections, Dialer: dialer}), dialer
}

// dialOn is dial on a variant.
func dialOn(tb testing.TB, variant string, target stack.Target) stack.Client {
	tb.Helper()
	s, v := variantOf(tb, variant)
	client, err := s.NewClient(bounded(tb), v, target)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func bounded(tb testing.TB) context.Context {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx
}
