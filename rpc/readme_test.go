package rpc_test

import (
	"context"
	"net"
	"os"
	"regexp"
	"strings"
	"testing"

	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/chanpool"
	"wirelab.dev/rpc/creditrpc"
	"wirelab.dev/rpc/fastgrpc"
)

// service is a gRPC service.
type service struct {
	testgrpc.UnimplementedTestServiceServer
}

func (service) EmptyCall(context.Context, *testgrpc.Empty) (*testgrpc.Empty, error) {
	return &testgrpc.Empty{}, nil
}

// The bodies of these functions are the README's examples.

func useFastgrpc(ctx context.Context, lis net.Listener, target string) error {
	s := fastgrpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(lis) }()
	defer s.GracefulStop()

	c, err := fastgrpc.NewClient(target, fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = testgrpc.NewTestServiceClient(c).EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

func useCreditrpc(ctx context.Context, lis net.Listener) error {
	s := creditrpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, service{})
	go func() { _ = s.Serve(lis) }()
	defer s.GracefulStop()

	c, err := creditrpc.NewClient(lis.Addr().String())
	if err != nil {
		return err
	}
	defer func() { _ = c.Close() }()
	_, err = testgrpc.NewTestServiceClient(c).EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

func useChanpool(ctx context.Context, target string) error {
	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
		return fastgrpc.NewClient(target, fastgrpc.WithTransportCredentials(insecure.NewCredentials()))
	})
	if err != nil {
		return err
	}
	defer func() { _ = pool.Close() }()
	_, err = testgrpc.NewTestServiceClient(pool).EmptyCall(ctx, &testgrpc.Empty{})
	return err
}

// TestExamples runs the README's examples.
func TestExamples(t *testing.T) {
	listen := func() (net.Listener, string) {
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		return lis, "passthrough:///" + lis.Addr().String()
	}
	lis, target := listen()
	if err := useFastgrpc(t.Context(), lis, target); err != nil {
		t.Errorf("fastgrpc: %v", err)
	}
	lis, _ = listen()
	if err := useCreditrpc(t.Context(), lis); err != nil {
		t.Errorf("creditrpc: %v", err)
	}
	s := fastgrpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, service{})
	lis, target = listen()
	go func() { _ = s.Serve(lis) }()
	defer s.Stop()
	if err := useChanpool(t.Context(), target); err != nil {
		t.Errorf("chanpool: %v", err)
	}
}

// TestReadmeCompiles checks that the README's examples stand in this file.
func TestReadmeCompiles(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("readme_test.go")
	if err != nil {
		t.Fatal(err)
	}
	examples := regexp.MustCompile("(?s)```go\n(.*?)```").FindAllSubmatch(page, -1)
	if len(examples) != 3 {
		t.Errorf("the README has %d examples, want one for each library", len(examples))
	}
	for _, e := range examples {
		indented := regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(string(e[1]), "\t$1")
		if !strings.Contains(string(source), indented) {
			t.Errorf("this example of the README is not in readme_test.go:\n%s", e[1])
		}
	}
}
