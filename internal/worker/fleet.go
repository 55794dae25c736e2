package worker

import (
	"context"
	"fmt"
	"io"
	"sync"

	"google.golang.org/grpc"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/secure"
	"wirelab.dev/internal/service"
	"wirelab.dev/internal/stack"
	"wirelab.dev/internal/stack/catalog"
	"wirelab.dev/internal/tuning"
	"wirelab.dev/internal/workload"
)

// dialsAtOnce limits the connections that are being opened at the same time, to fit into
// a listen backlog of 128.
const dialsAtOnce = 64

// fleet is the stack clients of one worker, and the callers that use them.
type fleet struct {
	mode     scenario.Connection
	dialer   *stack.Dialer
	clients  []stack.Client
	callers  []workload.Caller
	settings []tuning.Setting // those that are not a library's default
	calls    *instants        // nil: they are not noted
	service  io.Closer        // of a service of the user's own; then clients, and what follows own, are not set
	own      []*service.Caller

	target    stack.Target
	dial      func(context.Context, stack.Target) (stack.Client, error)
	newCaller func(conn grpc.ClientConnInterface, client int) workload.Caller
}

// connect opens the connections of the spec's mode and makes a caller for each client.
func connect(ctx context.Context, spec *Spec) (*fleet, error) {
	if spec.isService() {
		return connectService(ctx, spec)
	}
	variant, s, err := find(spec.Stack)
	if err != nil {
		return nil, err
	}
	if stack.CallsPrepared(variant) {
		return connectPrepared(ctx, spec)
	}
	return connectStack(ctx, spec, variant, s)
}

// connectStack does so with the stack's own client.
func connectStack(ctx context.Context, spec *Spec, variant scenario.Variant, s stack.Stack) (*fleet, error) {
	work, parameters, err := spec.Workload.find(variant)
	if err != nil {
		return nil, err
	}
	var asked scenario.Connection
	if err := asked.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	f := &fleet{mode: catalog.ConnectionOf(s, variant, asked), dialer: &stack.Dialer{Sources: spec.Client.Sources, Congestion: catalog.Congestion(variant)}}
	target := stack.Target{
		Address: spec.Address, Operations: work.Info().Operations,
		Lifecycle: stack.LifecycleOf(f.mode.Mode),
		Trust:     secure.Trust{RootPEM: []byte(spec.Client.RootPEM), SkipVerify: spec.Client.SkipVerify},
		Dialer:    f.dialer,
	}
	if err := stack.CheckLifecycle(s, variant, target.Lifecycle); err != nil {
		return nil, err
	}
	n := 1
	if f.mode.Mode == scenario.PerWorker {
		n = spec.Client.Clients
	} else {
		target.Connections = f.mode.Want(spec.Client.Clients)
	}
	if f.settings, err = clientSettings(s, variant, spec.Client, target); err != nil {
		return nil, err
	}
	f.dial = func(ctx context.Context, target stack.Target) (stack.Client, error) {
		return s.NewClient(ctx, catalog.OwnOptions(variant), target)
	}
	f.calls = spec.noteInstants()
	f.newCaller = func(conn grpc.ClientConnInterface, client int) workload.Caller {
		return f.noted(work.NewCaller(conn, workload.Job{Parameters: parameters, Client: client, Seed: spec.Client.Seed}))
	}
	f.target = target
	if err := f.open(ctx, n); err != nil {
		f.close()
		return nil, fmt.Errorf("connect to %s: %w", spec.Address, err)
	}
	for i := range spec.Client.Clients {
		f.callers = append(f.callers, f.newCaller(f.clients[i%len(f.clients)], i))
	}
	return f, nil
}

// noted makes a caller note the instants of its calls, where that was asked for.
func (f *fleet) noted(caller workload.Caller) workload.Caller {
	if f.calls == nil {
		return caller
	}
	return notedCaller{caller, f.calls}
}

// open makes n clients, up to dialsAtOnce at a time.
func (f *fleet) open(ctx context.Context, n int) error {
	f.clients = make([]stack.Client, n)
	errs := make([]error, n)
	turns := make(chan struct{}, dialsAtOnce)
	var dialing sync.WaitGroup
	for i := range n {
		turns <- struct{}{}
		dialing.Go(func() {
			defer func() { <-turns }()
			client, err := f.dial(ctx, f.target)
			if err != nil {
				errs[i] = err
				return
			}
			f.clients[i] = client
		})
	}
	dialing.Wait()
	for _, err := range errs {
		if err != nil {
			return err // one is enough: they mostly fail alike
		}
	}
	return nil
}

// trafficOf returns the traffic so far of all connections of a dialer's clients.
func trafficOf(dialer *stack.Dialer, clients ...stack.Client) stack.Traffic {
	sum := dialer.Traffic()
	for _, c := range clients {
		if own, tells := c.(stack.TrafficReporter); tells {
			if one, known := own.Traffic(); known {
				sum = sum.Plus(one)
			}
		}
	}
	return sum
}

// close ends all clients. Their errors come too late to matter.
func (f *fleet) close() {
	for _, c := range f.clients {
		if c != nil {
			_ = c.Close()
		}
	}
	if f.service != nil {
		_ = f.service.Close()
	}
}
