package body

import (
	"context"
	"fmt"
	"io"

	"google.golang.org/grpc"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
)

// connected is the stack clients of one worker, and the callers that use them.
type connected struct {
	mode     scenario.Connection
	dialer   *conn.Dialer
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
func connect(ctx context.Context, spec *task) (*connected, error) {
	if spec.own == nil {
		return connectService(ctx, spec)
	}
	if stack.CallsPrepared(spec.variant) {
		return connectPrepared(ctx, spec)
	}
	return connectStack(ctx, spec)
}

// connectStack connects with the stack's own client.
func connectStack(ctx context.Context, spec *task) (*connected, error) {
	own, variant := spec.own, spec.variant
	work, parameters, err := spec.workload()
	if err != nil {
		return nil, err
	}
	var asked scenario.Connection
	if err := asked.UnmarshalText([]byte(spec.Client.Connection)); err != nil {
		return nil, err
	}
	conns := &connected{mode: catalog.ConnectionOf(own, variant, asked), dialer: &conn.Dialer{Sources: spec.Client.Sources, Congestion: catalog.Congestion(variant)}}
	target := stack.Target{
		Address: spec.Address, Operations: work.Info().Operations,
		Lifecycle: conn.LifecycleOf(conns.mode.Mode),
		Trust:     secure.Trust{RootPEM: []byte(spec.Client.RootPEM), SkipVerify: spec.Client.SkipVerify},
		Dialer:    conns.dialer,
	}
	if err := stack.CheckLifecycle(own, variant, target.Lifecycle); err != nil {
		return nil, err
	}
	n := 1
	if conns.mode.Mode == scenario.PerWorker {
		n = spec.Client.Clients
	} else {
		target.Connections = conns.mode.Want(spec.Client.Clients)
	}
	if conns.settings, err = spec.clientSettings(target); err != nil {
		return nil, err
	}
	conns.dial = func(ctx context.Context, target stack.Target) (stack.Client, error) {
		return own.NewClient(ctx, catalog.OwnOptions(variant), target)
	}
	conns.calls = spec.noteInstants()
	first := spec.Client.GroupOf().First
	conns.newCaller = func(conn grpc.ClientConnInterface, client int) workload.Caller {
		return conns.noted(work.NewCaller(conn, workload.Job{Parameters: parameters, Client: first + client, Seed: spec.Client.Seed}))
	}
	conns.target = target
	if err := conns.open(ctx, n); err != nil {
		conns.close()
		return nil, fmt.Errorf("connect to %s: %w", spec.Address, err)
	}
	for i := range spec.Client.Clients {
		conns.callers = append(conns.callers, conns.newCaller(conns.clients[i%len(conns.clients)], i))
	}
	return conns, nil
}

// noted makes a caller note the instants of its calls, where that was asked for.
func (conns *connected) noted(caller workload.Caller) workload.Caller {
	if conns.calls == nil {
		return caller
	}
	return notedCaller{caller, conns.calls}
}

// open makes n clients. It returns one error of several: they mostly fail alike.
func (conns *connected) open(ctx context.Context, n int) error {
	conns.clients = make([]stack.Client, n)
	return conn.OpenEach(ctx, n, func(ctx context.Context, i int) error {
		client, err := conns.dial(ctx, conns.target)
		if err == nil { // otherwise client may be a nil pointer
			conns.clients[i] = client
		}
		return err
	})
}

// trafficOf returns the traffic so far of all connections of a dialer's clients.
func trafficOf(dialer *conn.Dialer, clients ...stack.Client) conn.Traffic {
	all := dialer.Traffic()
	for _, c := range clients {
		if own, tells := c.(stack.TrafficReporter); tells {
			if one, known := own.Traffic(); known {
				all = all.Plus(one)
			}
		}
	}
	return all
}

// close ends all clients. Their errors come too late to matter.
func (conns *connected) close() {
	for _, one := range conns.clients {
		if one != nil {
			_ = one.Close()
		}
	}
	if conns.service != nil {
		_ = conns.service.Close()
	}
}
