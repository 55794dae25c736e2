package creditrpc_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"
	"google.golang.org/grpc/status"

	"wirelab.dev/rpc/creditrpc"
)

// greeter stands for a service of the program's own.
type greeter struct {
	testgrpc.UnimplementedTestServiceServer
}

func (greeter) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	if len(in.GetPayload().GetBody()) == 0 {
		return nil, status.Error(codes.InvalidArgument, "nothing to say")
	}
	return &testgrpc.SimpleResponse{Payload: in.GetPayload()}, nil
}

func (greeter) StreamingOutputCall(in *testgrpc.StreamingOutputCallRequest, out grpc.ServerStreamingServer[testgrpc.StreamingOutputCallResponse]) error {
	for _, p := range in.GetResponseParameters() {
		if err := out.Send(&testgrpc.StreamingOutputCallResponse{Payload: &testgrpc.Payload{Body: make([]byte, p.GetSize())}}); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server on a listener, and returns how to stop it.
func serve(lis net.Listener, opts ...creditrpc.ServerOption) (stop func()) {
	s := creditrpc.NewServer(opts...)
	testgrpc.RegisterTestServiceServer(s, greeter{})
	go func() { _ = s.Serve(lis) }() // ends with GracefulStop
	return s.GracefulStop
}

func listen(network, address string) net.Listener {
	lis, err := net.Listen(network, address)
	if err != nil {
		panic(err)
	}
	return lis
}

func hello(c *creditrpc.Client) {
	reply, err := testgrpc.NewTestServiceClient(c).UnaryCall(context.Background(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte("hello")}})
	fmt.Printf("%s %v\n", reply.GetPayload().GetBody(), err)
}

// A server, a client, a call that succeeds and one that does not.
func Example() {
	lis := listen("tcp", "127.0.0.1:0")
	defer serve(lis)()
	c, err := creditrpc.NewClient(lis.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hello(c)
	_, err = testgrpc.NewTestServiceClient(c).UnaryCall(context.Background(), &testgrpc.SimpleRequest{})
	fmt.Println(status.Code(err), status.Convert(err).Message())
	// Output:
	// hello <nil>
	// InvalidArgument nothing to say
}

// A unix socket.
func ExampleNewClient_unix() {
	folder, err := os.MkdirTemp("", "creditrpc")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(folder) }()
	path := filepath.Join(folder, "socket")
	defer serve(listen("unix", path))()
	c, err := creditrpc.NewClient("unix:" + path)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hello(c)
	// Output: hello <nil>
}

// A stream is read like any other.
func ExampleClient_NewStream() {
	lis := listen("tcp", "127.0.0.1:0")
	defer serve(lis)()
	c, err := creditrpc.NewClient(lis.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	stream, err := testgrpc.NewTestServiceClient(c).StreamingOutputCall(context.Background(), &testgrpc.StreamingOutputCallRequest{
		ResponseParameters: []*testgrpc.ResponseParameters{{Size: 3}, {Size: 300_000}},
	})
	for err == nil {
		var m *testgrpc.StreamingOutputCallResponse
		if m, err = stream.Recv(); err == nil {
			fmt.Println(len(m.GetPayload().GetBody()), "bytes")
		}
	}
	fmt.Println(errors.Is(err, io.EOF))
	// Output:
	// 3 bytes
	// 300000 bytes
	// true
}

// What a server takes from a client at once: 32 calls, and 512 KiB of their messages.
func ExampleWindow() {
	lis := listen("tcp", "127.0.0.1:0")
	defer serve(lis, creditrpc.MaxCalls(32), creditrpc.Window(512<<10))()
	c, err := creditrpc.NewClient(lis.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hello(c)
	// Output: hello <nil>
}

// An interceptor sees calls as grpc-go's do.
func ExampleUnaryInterceptor() {
	lis := listen("tcp", "127.0.0.1:0")
	defer serve(lis, creditrpc.UnaryInterceptor(func(ctx context.Context, req any, info *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
		fmt.Println(info.FullMethod)
		return handle(ctx, req)
	}))()
	c, err := creditrpc.NewClient(lis.Addr().String())
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hello(c)
	// Output:
	// /grpc.testing.TestService/UnaryCall
	// hello <nil>
}

// Ends that notice a silent peer, and, for one caller who is in a hurry, that spin.
func ExampleWithKeepAlive() {
	lis := listen("tcp", "127.0.0.1:0")
	defer serve(lis, creditrpc.KeepAlive(time.Minute, 10*time.Second), creditrpc.Spin(100*time.Microsecond))()
	c, err := creditrpc.NewClient(lis.Addr().String(), creditrpc.WithKeepAlive(time.Minute, 10*time.Second), creditrpc.WithSpin(100*time.Microsecond))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	hello(c)
	// Output: hello <nil>
}
