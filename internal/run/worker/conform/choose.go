package conform

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"wirelab.dev/internal/run/worker"
)

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
