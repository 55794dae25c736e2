package connectstack_test

import (
	"context"
	"os/exec"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection/grpc_reflection_v1"
	"google.golang.org/grpc/status"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/connectstack"
	"wirelab.dev/internal/wire/stack/stacktest/testpb"
)

// echo answers with the body, and fails where it is told to.
type echo struct {
	testpb.UnimplementedTestServiceServer
}

func (echo) Unary(_ context.Context, in *testpb.TestRequest) (*testpb.TestResponse, error) {
	if in.Code != 0 {
		return nil, status.Error(codes.Code(in.Code), in.Message)
	}
	return &testpb.TestResponse{Body: in.Body}, nil
}

// serve starts a server of echo. Its clean-up closes it.
func serve(t *testing.T, s connectstack.Stack) (address string, trust secure.Trust) {
	t.Helper()
	server, err := s.NewServer(scenario.Variant{Stack: s.Info().Name})
	if err != nil {
		t.Fatal(err)
	}
	testpb.RegisterTestServiceServer(server, echo{})
	bound, err := server.Listen(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = server.Serve() }() // ends with Close; the suite looks at what it returns
	t.Cleanup(func() { _ = server.Close() })
	return bound.String(), secure.Trust{RootPEM: server.(stack.TLSServer).RootPEM()}
}

// TestCurl speaks Connect in JSON, as its manual shows.
func TestCurl(t *testing.T) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("no curl on this machine:", err)
	}
	address, _ := serve(t, connectstack.Connect)
	ask := func(request string) string {
		t.Helper()
		out, err := exec.CommandContext(t.Context(), curl, "--silent", "--show-error", "--max-time", "10", "--http2-prior-knowledge",
			"--header", "Content-Type: application/json", "--data", request,
			"http://"+address+testpb.TestService_Unary_FullMethodName).CombinedOutput()
		if err != nil {
			t.Fatalf("curl: %v: %s", err, out)
		}
		return string(out)
	}
	if got := ask(`{"body":"aGVsbG8="}`); !strings.Contains(got, `"aGVsbG8="`) {
		t.Errorf("answered with %s", got)
	}
	if got := ask(`{"code":5,"message":"no such thing"}`); !strings.Contains(got, `"not_found"`) || !strings.Contains(got, "no such thing") {
		t.Errorf("answered with %s", got)
	}
}

// TestGRPCGo has grpc-go call the Connect server, which speaks gRPC as well, and
// ask what grpcurl asks.
func TestGRPCGo(t *testing.T) {
	address, _ := serve(t, connectstack.Connect)
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithNoProxy())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	stub := testpb.NewTestServiceClient(conn)
	if out, err := stub.Unary(t.Context(), &testpb.TestRequest{Body: []byte("hello")}); err != nil || string(out.Body) != "hello" {
		t.Errorf("answered with %v, %v", out, err)
	}
	_, err = stub.Unary(t.Context(), &testpb.TestRequest{Code: int32(codes.NotFound), Message: "no such thing"})
	if got := status.Convert(err); got.Code() != codes.NotFound || got.Message() != "no such thing" {
		t.Errorf("failed with %v", err)
	}
	describe(t, conn)
}

// TestOwnClientDescribes asks the same over HTTP/3, with a certificate that is
// checked.
func TestOwnClientDescribes(t *testing.T) {
	address, trust := serve(t, connectstack.GRPC3)
	dialTrusting := func(trust secure.Trust) (stack.Client, error) {
		return connectstack.GRPC3.NewClient(t.Context(), scenario.Variant{Stack: "grpc-h3"}, stack.Target{Address: address, Trust: trust})
	}
	client, err := dialTrusting(trust)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	describe(t, client)
	if stranger, err := dialTrusting(secure.Trust{}); err == nil {
		_ = stranger.Close()
		t.Error("a server was believed whose root nobody trusts")
	}
}

func describe(t *testing.T, conn grpc.ClientConnInterface) {
	t.Helper()
	const service = "wirelab.stacktest.v1.TestService"
	health, err := grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{Service: service})
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("the health is %v, %v", health.GetStatus(), err)
	}
	stream, err := grpc_reflection_v1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	err = stream.Send(&grpc_reflection_v1.ServerReflectionRequest{
		MessageRequest: &grpc_reflection_v1.ServerReflectionRequest_FileContainingSymbol{FileContainingSymbol: service},
	})
	if err != nil {
		t.Fatal(err)
	}
	answer, err := stream.Recv()
	if err != nil || len(answer.GetFileDescriptorResponse().GetFileDescriptorProto()) == 0 {
		t.Errorf("reflection describes %s as %v, %v", service, answer, err)
	}
	if err := stream.CloseSend(); err != nil {
		t.Error(err)
	}
}
