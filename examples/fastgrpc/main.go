// Command fastgrpc serves and calls a generated service with fastgrpc in place of grpc-go. Only the
// lines with the word fastgrpc differ from a program with grpc-go.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"wirelab.dev/rpc/fastgrpc"
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	server := fastgrpc.NewServer()                            // grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer()) // any generated service
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	credentials := fastgrpc.WithTransportCredentials(insecure.NewCredentials())
	client, err := fastgrpc.NewClient(listener.Addr().String(), credentials) // grpc.NewClient(…)
	if err != nil {
		return err
	}
	answer, err := healthpb.NewHealthClient(client).Check(ctx, &healthpb.HealthCheckRequest{})
	if err == nil {
		fmt.Println("the server is", answer.GetStatus())
	}
	err = errors.Join(err, client.Close())
	server.Stop()
	if ended := <-served; !errors.Is(ended, fastgrpc.ErrServerStopped) {
		err = errors.Join(err, ended)
	}
	return err
}
