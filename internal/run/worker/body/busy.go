package body

import (
	"context"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/wire/workload"
)

// keepBusy computes for a time.
func keepBusy(most time.Duration) {
	for until := time.Now().Add(most); time.Now().Before(until); { // it only takes CPU time
	}
}

// busyRegistrar makes each handler of its services compute for a time first: once per request, and in
// streams once per received message.
type busyRegistrar struct {
	grpc.ServiceRegistrar
	extra time.Duration
}

func (r busyRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	busy := *desc
	busy.Methods, busy.Streams = nil, nil
	for _, method := range desc.Methods {
		handler := method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			return handler(service, ctx, func(request any) error {
				defer keepBusy(r.extra)
				return decode(request)
			}, outer)
		}
		busy.Methods = append(busy.Methods, method)
	}
	for _, stream := range desc.Streams {
		handler := stream.Handler
		stream.Handler = func(service any, calls grpc.ServerStream) error { return handler(service, busyStream{calls, r.extra}) }
		busy.Streams = append(busy.Streams, stream)
	}
	r.ServiceRegistrar.RegisterService(&busy, service)
}

type busyStream struct {
	grpc.ServerStream
	extra time.Duration
}

func (s busyStream) RecvMsg(message any) error {
	defer keepBusy(s.extra)
	return s.ServerStream.RecvMsg(message)
}

// busyCaller computes for a time in each call, before it sends the request.
type busyCaller struct {
	workload.Caller
	extra time.Duration
}

func (c busyCaller) Call(ctx context.Context) error {
	keepBusy(c.extra)
	return c.Caller.Call(ctx)
}

// Check calls Check of the wrapped caller, if that caller has a Check.
func (c busyCaller) Check() error {
	if checker, checks := c.Caller.(load.Checker); checks {
		return checker.Check()
	}
	return nil
}
