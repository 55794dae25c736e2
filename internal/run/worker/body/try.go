package body

import (
	"context"
	"errors"
	"fmt"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// TryCall connects like a client of the spec and makes one call in this process. It does not check
// the answer. If another program makes the calls of the spec, it does nothing.
func TryCall(ctx context.Context, in *worker.Spec) error { return wirelab().TryCall(ctx, in) }

// TryCall is the function TryCall for a program.
func (p Program) TryCall(ctx context.Context, in *worker.Spec) error {
	spec, err := p.newTask(*in)
	if err != nil {
		return err
	}
	if _, foreign := stack.ForeignClient(spec.variant); foreign {
		return nil
	}
	conns, err := connect(ctx, spec)
	if err != nil {
		return err
	}
	defer conns.close()
	if err := conns.callers[0].Call(ctx); err != nil {
		return fmt.Errorf("call %s: %w", spec.Address, err)
	}
	return nil
}

// TryBothEnds serves the spec's workload over its variant in this process, and makes one call.
func (p Program) TryBothEnds(ctx context.Context, in worker.Spec) (err error) {
	spec, err := p.newTask(in)
	if err != nil {
		return err
	}
	server, err := spec.newServer(nil)
	if err != nil {
		return err
	}
	address, err := server.Listen(ctx, "127.0.0.1:0")
	if err != nil {
		return errors.Join(fmt.Errorf("listen: %w", err), server.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends when the server is closed
	defer func() { err = errors.Join(err, server.Close(), <-ended) }()
	in.Address, in.Client = address.String(), &worker.ClientSpec{
		Clients: 1, Connection: catalog.ConnectionOf(spec.own, spec.variant, scenario.Connection{}).String(),
	}
	if secured, ok := server.(stack.TLSServer); ok {
		in.Client.RootPEM = string(secured.RootPEM())
	}
	return p.TryCall(ctx, &in)
}
