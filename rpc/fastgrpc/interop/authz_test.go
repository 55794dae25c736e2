package interop

import (
	"context"
	"fmt"
	"net"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/authz"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/fastgrpc"
)

// policy allows unary calls from this machine that say who they are.
const policy = `{"name": "test", "allow_rules": [{"name": "mine",
  "source": {"principals": []},
  "request": {"paths": ["/grpc.testing.TestService/UnaryCall"], "headers": [{"key": "who", "values": ["me"]}]}}]}`

type answering struct {
	testgrpc.UnimplementedTestServiceServer
}

func (answering) UnaryCall(context.Context, *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{}, nil
}

func (answering) FullDuplexCall(grpc.BidiStreamingServer[testgrpc.StreamingOutputCallRequest, testgrpc.StreamingOutputCallResponse]) error {
	return nil
}

// TestAuthz compares calls that grpc-go's authorization policies allow and refuse with
// grpc-go's server.
func TestAuthz(t *testing.T) {
	guard, err := authz.NewStatic(policy)
	if err != nil {
		t.Fatal(err)
	}
	var results [2]string
	for i, s := range []interface {
		grpc.ServiceRegistrar
		Serve(net.Listener) error
		Stop()
	}{
		fastgrpc.NewServer(fastgrpc.UnaryInterceptor(guard.UnaryInterceptor), fastgrpc.StreamInterceptor(guard.StreamInterceptor)),
		grpc.NewServer(grpc.UnaryInterceptor(guard.UnaryInterceptor), grpc.StreamInterceptor(guard.StreamInterceptor)),
	} {
		testgrpc.RegisterTestServiceServer(s, answering{})
		lis, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { _ = s.Serve(lis) }()
		defer s.Stop()
		conn, err := grpc.NewClient(lis.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = conn.Close() }()
		stub := testgrpc.NewTestServiceClient(conn)
		for _, who := range []string{"me", "you"} {
			ctx := metadata.AppendToOutgoingContext(context.Background(), "who", who)
			_, err := stub.UnaryCall(ctx, &testgrpc.SimpleRequest{})
			results[i] += fmt.Sprint(status.Code(err), " ")
			stream, err := stub.FullDuplexCall(ctx)
			if err == nil {
				_, err = stream.Recv()
			}
			results[i] += fmt.Sprint(status.Code(err), " ")
		}
	}
	if results[0] != results[1] || results[0] != "OK PermissionDenied PermissionDenied PermissionDenied " {
		t.Errorf("fastgrpc: %s; grpc-go: %s", results[0], results[1])
	}
}
