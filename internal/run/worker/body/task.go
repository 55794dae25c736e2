// Package body holds what wirelab's own workers do: it reads a spec of package worker, runs the
// server or client that the spec describes, and prints its events.
//
//	spec ── Main ──> server: serve until the input ends ──────────> result
//	            └──> client: connect ── load ── count the bytes ──> result
//
// This package must not know the plan that a trial is part of, nor judge what it measured.
package body

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/rebuild"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
)

// A task is the spec that a worker carries out, with its variant.
type task struct {
	worker.Spec
	variant scenario.Variant
	own     stack.Stack // nil: the client calls a service of the user's own
}

func newTask(spec worker.Spec) (*task, error) {
	variant, err := scenario.ParseVariant(spec.Stack)
	s := &task{Spec: spec, variant: variant}
	if err == nil && variant.Stack != service.Stack {
		s.own, err = catalog.Find(variant.Stack)
	}
	return s, err
}

// emitter prints each event as one whole line.
type emitter struct {
	guard   sync.Mutex
	encoder *json.Encoder
}

func (e *emitter) emit(event worker.Event) error {
	e.guard.Lock()
	defer e.guard.Unlock()
	return e.encoder.Encode(event)
}

// progress reports how far the load has come. If it cannot be printed, printing the result will
// fail too.
func (e *emitter) progress(p live.Progress) {
	_ = e.emit(worker.Event{Event: "progress", Progress: &p})
}

func (e *emitter) ready(r worker.Ready) error {
	r.Contract, r.PID = worker.Contract, cmp.Or(r.PID, os.Getpid())
	if r.Runtime == "" { // otherwise another program serves or calls
		r.Runtime, r.GoMaxProcs = runtime.Version(), runtime.GOMAXPROCS(0)
	}
	return e.emit(worker.Event{Event: "ready", Ready: &r})
}

// spinTime is the time that a worker spins to measure how much of its CPUs others take: short,
// since every trial does it four times, and longer than a scheduler's slice of a few milliseconds.
const spinTime = 10 * time.Millisecond

// spinBefore measures the noise before the work; spinAfter adds the noise after it. The
// result is nil if no CPU could be spun on.
func spinBefore() *worker.Noise {
	spun := host.Calibrate(nil, spinTime)
	if spun.CPUs == 0 {
		return nil
	}
	return &worker.Noise{LostBefore: spun.LostShare, LargestGapNS: int64(spun.LargestGap)}
}

func spinAfter(n *worker.Noise) {
	if n == nil {
		return
	}
	spun := host.Calibrate(nil, spinTime)
	n.LostAfter = spun.LostShare
	n.LargestGapNS = max(n.LargestGapNS, int64(spun.LargestGap))
}

// allowance returns what the kernel let a process of this worker use, or nil.
func allowance(pid int) *host.Allowance {
	a, err := host.AllowanceOf(pid)
	if err != nil {
		return nil
	}
	return &a
}

// setRuntime applies a worker's settings of Go's runtime.
func setRuntime(seen string) {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(worker.MemoryLimit)
	}
	probe.SampleAllocations(seen == record.ProbeAllocations)
}

// setVariantsRuntime applies the variant's settings of Go's runtime, and checks those that it
// cannot apply.
func (s *task) setVariantsRuntime() error {
	if percent := catalog.Collector(s.variant); percent != 0 {
		debug.SetGCPercent(percent)
	}
	if limit := catalog.SmallObject(s.variant); limit != 0 && limit != rebuild.SmallObject() {
		return fmt.Errorf("variant %s: this program's runtime has a limit of %d bytes: it was not rebuilt", s.variant, rebuild.SmallObject())
	}
	return nil
}

// watchAllocations starts counting allocations if the spec asks for it. stop ends the count and
// returns it, or nil if nothing was counted.
func (s *task) watchAllocations() (stop func() *record.Allocations) {
	if s.Probe != record.ProbeAllocations {
		return func() *record.Allocations { return nil }
	}
	return probe.WatchAllocations().Stop
}

// profileCPU samples the CPU time if the spec asks for it. stop ends the sampling and returns
// the stacks, or nil if nothing was sampled.
func (s *task) profileCPU() (stop func() (*record.Stacks, error), _ error) {
	if !s.ProfileCPU {
		return func() (*record.Stacks, error) { return nil, nil }, nil
	}
	profile, err := probe.StartCPUProfile()
	if err != nil {
		return nil, err
	}
	return profile.Stop, nil
}

// instants keeps the instants of the last calls.
type instants struct {
	guard sync.Mutex // a server's handlers may overlap when a client gave up a call
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

// around notes the innermost part: the handler alone, after its request was decoded.
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
