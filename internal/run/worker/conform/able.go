package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

// Peers returns the peers that a worker can be: one for each of its stacks.
func Peers(p Peer) []Peer {
	var all []Peer
	for name := range p.Able.Stacks {
		p.Stack = name
		p.Server = slices.Contains(p.Able.Roles, worker.ServerRole)
		p.Client = slices.Contains(p.Able.Roles, worker.ClientRole)
		all = append(all, p)
	}
	slices.SortFunc(all, func(a, b Peer) int { return strings.Compare(a.Stack, b.Stack) })
	return all
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
	var all []Peer
	for _, one := range Peers(p) {
		if asked {
			one.Server, one.Client = p.Server, p.Client
		}
		if p.Stack == "" {
			all = append(all, one)
		}
	}
	if p.Stack != "" {
		if !asked {
			p.Server, p.Client = slices.Contains(able.Roles, worker.ServerRole), slices.Contains(able.Roles, worker.ClientRole)
		}
		all = []Peer{p}
	}
	return all, nil
}
