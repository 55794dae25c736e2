package chanpool_test

import (
	"context"
	"fmt"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"wirelab.dev/rpc/chanpool"
	"wirelab.dev/rpc/creditrpc"
)

// greeter stands for a service of the program's own.
type greeter struct {
	testgrpc.UnimplementedTestServiceServer
}

func (greeter) UnaryCall(_ context.Context, in *testgrpc.SimpleRequest) (*testgrpc.SimpleResponse, error) {
	return &testgrpc.SimpleResponse{Payload: in.GetPayload()}, nil
}

// listen starts a server, and returns its address and how to stop it.
func listen() (string, func()) {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	s := grpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, greeter{})
	go func() { _ = s.Serve(lis) }() // ends with Stop
	return lis.Addr().String(), s.Stop
}

// A pool of grpc-go's channels.
func Example() {
	address, stop := listen()
	defer stop()
	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	reply, err := testgrpc.NewTestServiceClient(pool).UnaryCall(context.Background(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte("hello")}})
	fmt.Printf("%s %v\n", reply.GetPayload().GetBody(), err)
	// Output: hello <nil>
}

// A pool of another library's channels, here creditrpc's.
func ExampleNew() {
	lis, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	s := creditrpc.NewServer()
	testgrpc.RegisterTestServiceServer(s, greeter{})
	go func() { _ = s.Serve(lis) }() // ends with Stop
	defer s.Stop()
	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) { return creditrpc.NewClient(lis.Addr().String()) }, chanpool.Max(4))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	reply, err := testgrpc.NewTestServiceClient(pool).UnaryCall(context.Background(), &testgrpc.SimpleRequest{Payload: &testgrpc.Payload{Body: []byte("hello")}})
	fmt.Printf("%s %v\n", reply.GetPayload().GetBody(), err)
	// Output: hello <nil>
}

// A size that the program chooses, and what the pool says of itself.
func ExampleFixed() {
	address, stop := listen()
	defer stop()
	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
		return grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	}, chanpool.Fixed(3))
	if err != nil {
		fmt.Println(err)
		return
	}
	defer pool.Close()
	client := testgrpc.NewTestServiceClient(pool)
	for range 30 {
		if _, err := client.UnaryCall(context.Background(), &testgrpc.SimpleRequest{}); err != nil {
			fmt.Println(err)
		}
	}
	state := pool.State()
	fmt.Println(state.Size, state.InFlight, len(state.Channels), state.Trying)
	// Output: 3 0 3 false
}
