// Package ping is the workload `ping`: a call with nothing in it.
//
// What it takes is the call itself: the wire's framing, the two ends' work on
// it, and the way. It is the workload of the client-bottleneck study.
package ping

import (
	"context"

	"google.golang.org/grpc"

	"wirelab.dev/internal/workload"
	"wirelab.dev/internal/workload/ping/pingpb"
)

// Workload is ping. The zero value is ready.
type Workload struct{}

var _ workload.Workload = Workload{}

// Name is `ping`.
func (Workload) Name() string { return "ping" }

// Describe says what a call asks for.
func (Workload) Describe() string { return "nothing, with nothing: empty messages" }

// Options lists what may be set.
func (Workload) Options() []workload.Option { return workload.StallOptions() }

// Sized is false: an empty message has one size.
func (Workload) Sized() bool { return false }

// Operations is one.
func (Workload) Operations() int { return len(pingpb.PingService_ServiceDesc.Methods) }

// Check wants no sizes.
func (w Workload) Check(p workload.Parameters) error {
	if err := p.Unsized(w.Name()); err != nil {
		return err
	}
	settings := workload.Read(w, p)
	workload.ReadStall(settings)
	return settings.Err()
}

// Register hands the handler to a server.
func (w Workload) Register(to grpc.ServiceRegistrar, p workload.Parameters) {
	pingpb.RegisterPingServiceServer(to, &handler{stall: workload.ReadStall(workload.Read(w, p))})
}

// NewCaller makes one client.
func (Workload) NewCaller(conn grpc.ClientConnInterface, _ workload.Job) workload.Caller {
	return &caller{stub: pingpb.NewPingServiceClient(conn), request: &pingpb.PingRequest{}}
}

type handler struct {
	pingpb.UnimplementedPingServiceServer
	stall *workload.Stall
}

// Ping answers.
func (h *handler) Ping(ctx context.Context, _ *pingpb.PingRequest) (*pingpb.PingResponse, error) {
	if err := h.stall.Hold(ctx); err != nil {
		return nil, err
	}
	return &pingpb.PingResponse{}, nil
}

type caller struct {
	stub    pingpb.PingServiceClient
	request *pingpb.PingRequest
}

// Call pings. There is nothing in the answer that could be wrong.
func (c *caller) Call(ctx context.Context) error {
	_, err := c.stub.Ping(ctx, c.request)
	return err
}
