package conform

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"wirelab.dev/internal/run/worker"
)

// askPatience is for who need not do anything.
const askPatience = 10 * time.Second

// ErrNotStarted is wrapped where there is no worker to ask.
var ErrNotStarted = errors.New("the worker could not be started")

// Ask asks a worker for its capabilities.
func Ask(ctx context.Context, command []string) (*worker.Capabilities, error) {
	process, err := worker.Start(worker.Launch{
		Name: "worker", Command: command, Spec: worker.Spec{Contract: worker.Contract, Role: worker.CapabilitiesRole},
	})
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrNotStarted, err)
	}
	defer process.Kill()
	ctx, cancel := context.WithTimeoutCause(ctx, askPatience, fmt.Errorf("within %v", askPatience))
	defer cancel()
	able, err := process.Capabilities(ctx)
	if err != nil {
		return nil, err
	}
	return &able, process.Stop()
}

// Choose returns a peer for each stack to be checked: those that the worker says it speaks, or
// those that p asks for. Say is told of a worker that does not say what it can do.
func Choose(ctx context.Context, p Peer, say func(line string)) ([]Peer, error) {
	asked := p.Server || p.Client
	able, err := Ask(ctx, p.Command)
	switch {
	case ctx.Err() != nil || errors.Is(err, ErrNotStarted):
		return nil, err
	case err != nil && (p.Stack == "" || !asked):
		return nil, fmt.Errorf("the worker does not say what it can do (%w): say it with --stack, and --server, --client or both", err)
	case err != nil:
		say(fmt.Sprintf("the worker does not say what it can do, and is held against what was asked for: %v", err))
		return []Peer{p}, nil
	}
	p.Able = able
	if !asked {
		p.Server, p.Client = slices.Contains(able.Roles, worker.ServerRole), slices.Contains(able.Roles, worker.ClientRole)
	}
	if p.Stack != "" {
		return []Peer{p}, nil
	}
	var all []Peer
	for _, name := range slices.Sorted(maps.Keys(able.Stacks)) {
		p.Stack = name
		all = append(all, p)
	}
	return all, nil
}
