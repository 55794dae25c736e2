package body

import (
	"context"
	"runtime/trace"
	"sync"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
)

// An instantRecorder records when the last calls began and ended.
type instantRecorder struct {
	guard sync.Mutex // a server's handlers can overlap
	kept  worker.CallInstants
	most  int
	next  int
	// every is n if every nth call of a caller is recorded, in all of the load. It doubles when kept is
	// full. It is 0 if all calls are recorded, and the last ones kept.
	every, skipped int
}

// newInstantRecorder returns a recorder for one of several callers, or nil if the spec does not ask
// for instants.
func (s *task) newInstantRecorder(callers int) *instantRecorder {
	if s.Probe != record.ProbeLife {
		return nil
	}
	const least = 64
	recorder := &instantRecorder{most: max(least, worker.MaxInstants/max(1, callers))}
	if s.Traces { // the calls of traced turns and of others are compared, in all of the window
		recorder.every = 1
	}
	return recorder
}

// skips reports whether the caller's next call is not recorded. Only the caller may call it.
func (i *instantRecorder) skips() bool {
	i.skipped++
	return i.skipped < i.every
}

func (i *instantRecorder) addCall(begin, end int64) {
	i.guard.Lock()
	defer i.guard.Unlock()
	i.skipped = 0
	if i.every > 0 && len(i.kept) == i.most {
		for n := range len(i.kept) / 2 {
			i.kept[n] = i.kept[2*n]
		}
		i.kept = i.kept[:len(i.kept)/2]
		i.every *= 2
	}
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
	calls  *instantRecorder
	marker *callMarker
}

func (c recordingCaller) Call(ctx context.Context) error {
	skip, begin := c.calls.skips(), int64(0)
	if !skip {
		begin = clock.Now()
	}
	region := c.marker.begin()
	err := c.Caller.Call(ctx)
	endRegion(region)
	if !skip {
		c.calls.addCall(begin, clock.Now())
	}
	return err
}

// Check calls Check of the wrapped caller, if that caller has a Check.
func (c recordingCaller) Check() error {
	if checker, checks := c.Caller.(load.Checker); checks {
		return checker.Check()
	}
	return nil
}

// recordingRegistrar records when each handler of its services began and ended. In a process that
// traces itself, the handlers of marked calls are regions instead.
type recordingRegistrar struct {
	grpc.ServiceRegistrar
	calls           *instantRecorder // nil if the process traces itself
	marksInMetadata bool
}

// wrapRegistrar returns a registrar whose services record their handlers and keep busy, if the spec asks
// for it, and the recorder of the handlers' instants, if any.
func (s *task) wrapRegistrar(to grpc.ServiceRegistrar) (_ grpc.ServiceRegistrar, calls *instantRecorder) {
	if s.Traces {
		to = recordingRegistrar{ServiceRegistrar: to, marksInMetadata: s.own.Info().MarksInMetadata}
	} else if calls = s.newInstantRecorder(1); calls != nil {
		to = recordingRegistrar{ServiceRegistrar: to, calls: calls}
	}
	if extra := catalog.BusyServer(s.variant); extra > 0 {
		to = busyRegistrar{to, extra}
	}
	return to, calls
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
			begin, region := r.begin(calls.Context(), nil)
			err := handler(service, calls)
			r.end(begin, region)
			return err
		}
		noted.Streams = append(noted.Streams, stream)
	}
	r.ServiceRegistrar.RegisterService(&noted, service)
}

func (r recordingRegistrar) begin(ctx context.Context, request any) (begin int64, region *trace.Region) {
	if r.calls == nil {
		return 0, beginHandler(ctx, request, r.marksInMetadata)
	}
	return clock.Now(), nil
}

func (r recordingRegistrar) end(begin int64, region *trace.Region) {
	endRegion(region)
	if r.calls != nil {
		r.calls.addCall(begin, clock.Now())
	}
}

// wrapInterceptor records when a handler began and ended. This leaves out decoding the request.
func (r recordingRegistrar) wrapInterceptor(outer grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	noted := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		begin, region := r.begin(ctx, request)
		answer, err := handler(ctx, request)
		r.end(begin, region)
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
