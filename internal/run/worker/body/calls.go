package body

import (
	"context"
	"sync"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/workload"
)

// An instantRecorder records when the last calls began and ended.
type instantRecorder struct {
	guard sync.Mutex // a server's handlers can overlap
	kept  worker.CallInstants
	most  int
	next  int
}

// newInstantRecorder returns a recorder for one of several callers, or nil if the spec does not ask
// for instants.
func (s *task) newInstantRecorder(callers int) *instantRecorder {
	if s.Probe != record.ProbeLife {
		return nil
	}
	const least = 64
	return &instantRecorder{most: max(least, worker.MaxInstants/max(1, callers))}
}

func (i *instantRecorder) addCall(begin, end int64) {
	i.guard.Lock()
	defer i.guard.Unlock()
	one := [2]int64{begin, end - begin}
	if len(i.kept) < i.most {
		i.kept = append(i.kept, one)
		return
	}
	i.kept[i.next] = one
	i.next = (i.next + 1) % i.most
}

func (i *instantRecorder) allCalls() worker.CallInstants {
	i.guard.Lock()
	defer i.guard.Unlock()
	return append(append(worker.CallInstants{}, i.kept[i.next:]...), i.kept[:i.next]...)
}

// A recordingCaller records the instants of its calls. If its process traces itself, it marks them.
type recordingCaller struct {
	workload.Caller
	calls *instantRecorder
	marks *callMarker
}

func (c recordingCaller) Call(ctx context.Context) error {
	begin := clock.Now()
	ctx, region := c.marks.begin(ctx)
	err := c.Caller.Call(ctx)
	endRegion(region)
	c.calls.addCall(begin, clock.Now())
	return err
}

// Check calls Check of the wrapped caller, if that caller has a Check.
func (c recordingCaller) Check() error {
	if checker, checks := c.Caller.(load.Checker); checks {
		return checker.Check()
	}
	return nil
}

// wrapRegistrar returns a registrar whose services record the instants of their handlers. If the
// recorder is nil, it returns the registrar itself.
func (i *instantRecorder) wrapRegistrar(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	if i == nil {
		return to
	}
	return recordingRegistrar{to, i}
}

// recordingRegistrar records when each handler of its services began and ended.
type recordingRegistrar struct {
	grpc.ServiceRegistrar
	calls *instantRecorder
}

func (r recordingRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	noted := *desc
	noted.Methods, noted.Streams = nil, nil
	for _, method := range desc.Methods {
		handler := method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			return handler(service, ctx, decode, r.wrapInterceptor(outer))
		}
		noted.Methods = append(noted.Methods, method)
	}
	for _, stream := range desc.Streams {
		handler := stream.Handler
		stream.Handler = func(service any, calls grpc.ServerStream) error {
			begin, region := clock.Now(), beginHandler(calls.Context(), nil)
			err := handler(service, calls)
			endRegion(region)
			r.calls.addCall(begin, clock.Now())
			return err
		}
		noted.Streams = append(noted.Streams, stream)
	}
	r.ServiceRegistrar.RegisterService(&noted, service)
}

// wrapInterceptor records when a handler began and ended. This leaves out decoding the request.
func (r recordingRegistrar) wrapInterceptor(outer grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	noted := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		begin, region := clock.Now(), beginHandler(ctx, request)
		answer, err := handler(ctx, request)
		endRegion(region)
		r.calls.addCall(begin, clock.Now())
		return answer, err
	}
	if outer == nil {
		return noted
	}
	return func(ctx context.Context, request any, info *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		return outer(ctx, request, info, func(ctx context.Context, request any) (any, error) {
			return noted(ctx, request, info, handler)
		})
	}
}
