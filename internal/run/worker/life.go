package worker

import (
	"cmp"
	"context"
	"slices"
	"sync"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/wire/workload"
)

// Instants are the begin of each of some calls, and how long it took.
type Instants [][2]int64

// mostInstants bounds what is kept: the last seconds of the fastest wire.
const mostInstants = 1 << 16

// Plus returns the instants of both in order, as far as mostInstants allows.
func (i Instants) Plus(other Instants) Instants {
	all := slices.Concat(i, other)
	slices.SortFunc(all, func(a, b [2]int64) int { return cmp.Compare(a[0], b[0]) })
	return all[:min(len(all), mostInstants)]
}

// instants keeps those of the last calls.
type instants struct {
	guard sync.Mutex // a server's handlers may overlap where a client gave up a call
	kept  Instants
	next  int
}

// noteInstants returns where they are kept, or nil if the spec does not ask for them.
func (s *Spec) noteInstants() *instants {
	if s.Probe != record.ProbeLife {
		return nil
	}
	return &instants{kept: make(Instants, 0, mostInstants)}
}

func (i *instants) add(begin, end int64) {
	i.guard.Lock()
	defer i.guard.Unlock()
	one := [2]int64{begin, end - begin}
	if len(i.kept) < mostInstants {
		i.kept = append(i.kept, one)
		return
	}
	i.kept[i.next] = one
	i.next = (i.next + 1) % mostInstants
}

// all returns them in order.
func (i *instants) all() Instants {
	i.guard.Lock()
	defer i.guard.Unlock()
	return append(append(Instants{}, i.kept[i.next:]...), i.kept[:i.next]...)
}

// within returns those of the calls that lie between two instants.
func (i Instants) within(begin, end int64) Instants {
	var found Instants
	for _, one := range i {
		if begin <= one[0] && one[0]+one[1] <= end {
			found = append(found, one)
		}
	}
	return found
}

// notedCaller notes when each call begins and ends.
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

// Check is that of the caller, if it has one.
func (c notedCaller) Check() error {
	if checker, checks := c.Caller.(load.Checker); checks {
		return checker.Check()
	}
	return nil
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
