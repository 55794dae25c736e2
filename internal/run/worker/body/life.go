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

// instants keeps the instants of the last calls.
type instants struct {
	guard sync.Mutex // a server's handlers may overlap where a client gave up a call
	kept  worker.Instants
	next  int
}

// noteInstants returns an empty list, or nil if the spec asks for no instants.
func (s *task) noteInstants() *instants {
	if s.Probe != record.ProbeLife {
		return nil
	}
	return &instants{kept: make(worker.Instants, 0, worker.MostInstants)}
}

func (i *instants) add(begin, end int64) {
	i.guard.Lock()
	defer i.guard.Unlock()
	one := [2]int64{begin, end - begin}
	if len(i.kept) < worker.MostInstants {
		i.kept = append(i.kept, one)
		return
	}
	i.kept[i.next] = one
	i.next = (i.next + 1) % worker.MostInstants
}

func (i *instants) all() worker.Instants {
	i.guard.Lock()
	defer i.guard.Unlock()
	return append(append(worker.Instants{}, i.kept[i.next:]...), i.kept[:i.next]...)
}

type notedCaller struct {
	workload.Caller
	calls *instants
}

func (c notedCaller) Call(ctx context.Context) error {
	begin := clock.Now()
	err := c.Caller.Call(ctx)
	c.calls.add(begin, clock.Now())
	return err
}

// Check calls the Check of the caller, if it has one.
func (c notedCaller) Check() error {
	if checker, checks := c.Caller.(load.Checker); checks {
		return checker.Check()
	}
	return nil
}

// around makes services note their handlers' instants. A nil list leaves them as they are.
func (i *instants) around(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
	if i == nil {
		return to
	}
	return notedRegistrar{to, i}
}

// notedRegistrar notes when each handler of the services begins and ends.
type notedRegistrar struct {
	grpc.ServiceRegistrar
	calls *instants
}

func (r notedRegistrar) RegisterService(desc *grpc.ServiceDesc, service any) {
	noted := *desc
	noted.Methods, noted.Streams = nil, nil
	for _, method := range desc.Methods {
		handler := method.Handler
		method.Handler = func(service any, ctx context.Context, decode func(any) error, outer grpc.UnaryServerInterceptor) (any, error) {
			return handler(service, ctx, decode, r.around(outer))
		}
		noted.Methods = append(noted.Methods, method)
	}
	for _, stream := range desc.Streams {
		handler := stream.Handler
		stream.Handler = func(service any, calls grpc.ServerStream) error {
			begin := clock.Now()
			err := handler(service, calls)
			r.calls.add(begin, clock.Now())
			return err
		}
		noted.Streams = append(noted.Streams, stream)
	}
	r.ServiceRegistrar.RegisterService(&noted, service)
}

// around notes what is innermost: the handler alone, after its request was decoded.
func (r notedRegistrar) around(outer grpc.UnaryServerInterceptor) grpc.UnaryServerInterceptor {
	noted := func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		begin := clock.Now()
		answer, err := handler(ctx, request)
		r.calls.add(begin, clock.Now())
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
