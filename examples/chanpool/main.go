// Command chanpool makes many calls at once through a pool of grpc-go's channels, which finds out how
// many connections are best.
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"

	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"wirelab.dev/rpc/chanpool"
)

const (
	callers        = 50
	callsPerCaller = 200
)

func main() {
	if err := run(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	healthpb.RegisterHealthServer(server, health.NewServer())
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	defer func() { server.Stop(); <-served }()

	pool, err := chanpool.New(func(context.Context) (chanpool.Channel, error) {
		return grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	}, chanpool.Max(8))
	if err != nil {
		return err
	}
	client := healthpb.NewHealthClient(pool) // a pool is a grpc.ClientConnInterface
	var calling errgroup.Group
	for range callers {
		calling.Go(func() error {
			for range callsPerCaller {
				if _, err := client.Check(ctx, &healthpb.HealthCheckRequest{}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := errors.Join(calling.Wait(), pool.Close()); err != nil {
		return err
	}
	fmt.Printf("%d calls are answered\n", callers*callsPerCaller)
	return nil
}
