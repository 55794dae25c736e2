// Package ping is the workload `ping`: calls with empty messages.
//
// It measures only the call itself: the wire's framing, the work of client and server for the call,
// and the network. The client-bottleneck study uses this workload.
package ping

import (
	"context"

	"google.golang.org/grpc"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/workload"
	"wirelab.dev/internal/wire/workload/ping/pingpb"
)

// Workload is ping. The zero value is ready.
type Workload struct{}

// Info describes the workload. It has no sizes, because its messages are empty.
func (Workload) Info() workload.Info {
	return workload.Info{
		Name: "ping", Summary: "an empty message, answered with an empty message",
		Options: workload.StallOptions(), Operations: len(pingpb.PingService_ServiceDesc.Methods), Sweep: true,
	}
}

// Check refuses sizes, because messages are empty.
func (w Workload) Check(p workload.Parameters) error {
	return p.Check(w, 0, func(o *scenario.Options) { workload.ReadStall(o) })
}

// Register implements workload.Workload.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	pingpb.RegisterPingServiceServer(to, &handler{stall: workload.ReadStall(workload.ReadOptions(w, p))})
}

// NewCaller makes one client.
func (Workload) NewCaller(conn grpc.ClientConnInterface, _ workload.Job) workload.Caller {
	return &caller{stub: pingpb.NewPingServiceClient(conn), request: &pingpb.PingRequest{}}
}

type handler struct {
	pingpb.UnimplementedPingServiceServer
	stall *workload.Stall
}

// Ping returns an empty response.
func (h *handler) Ping(ctx context.Context, _ *pingpb.PingRequest) (*pingpb.PingResponse, error) {
	if err := h.stall.DelayIfDue(ctx); err != nil {
		return nil, err
	}
	return &pingpb.PingResponse{}, nil
}

type caller struct {
	stub    pingpb.PingServiceClient
	request *pingpb.PingRequest
}

// Call makes a ping. Its empty answer cannot be wrong.
func (c *caller) Call(ctx context.Context) error {
	_, err := c.stub.Ping(ctx, c.request)
	return err
}
