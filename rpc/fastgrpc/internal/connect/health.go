package connect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	healthgrpc "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// WatchHealth asks the server's health service on this connection for the health of a service,
// and reports it until ctx ends. A server without that service counts as healthy.
func WatchHealth(ctx context.Context, cc grpc.ClientConnInterface, service string, report func(connectivity.State, error)) {
	for failures := 0; ctx.Err() == nil; failures++ {
		if failures > 0 && !Sleep(ctx, Backoff(&backoff.DefaultConfig, failures-1), nil) {
			return
		}
		report(connectivity.Connecting, nil)
		err := watchOnce(ctx, cc, service, func(state connectivity.State, err error) {
			failures = -1 // the next call needs no pause
			report(state, err)
		})
		switch {
		case status.Code(err) == codes.Unimplemented:
			report(connectivity.Ready, nil)
			return
		case !errors.Is(err, errNoHealthStream):
			report(connectivity.TransientFailure, fmt.Errorf("connection active but received health check RPC error: %w", err))
		}
	}
}

var errNoHealthStream = errors.New("fastgrpc: the health service could not be called")

// watchOnce makes one call of the health service and returns how it ended.
func watchOnce(ctx context.Context, cc grpc.ClientConnInterface, service string, report func(connectivity.State, error)) error {
	s, err := cc.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true}, healthgrpc.Health_Watch_FullMethodName)
	if err != nil {
		return errNoHealthStream
	}
	if err := s.SendMsg(&healthgrpc.HealthCheckRequest{Service: service}); err != nil && !errors.Is(err, io.EOF) {
		return errNoHealthStream
	}
	_ = s.CloseSend()
	for {
		reply := new(healthgrpc.HealthCheckResponse)
		if err := s.RecvMsg(reply); err != nil {
			return err
		}
		if reply.Status == healthgrpc.HealthCheckResponse_SERVING {
			report(connectivity.Ready, nil)
		} else {
			report(connectivity.TransientFailure, fmt.Errorf("connection active but health check failed. status=%s", reply.Status))
		}
	}
}
