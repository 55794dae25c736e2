package fleet

import (
	"context"
	"sync"

	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/worker"
)

// alone is a client on one agent. Its result has one part, itself, so that it is judged and
// described as those of a group are.
type alone struct {
	*remote

	once   sync.Once
	merged worker.Result
	failed error
}

func (s *stage) startAlone(ctx context.Context, hash string, l worker.Launch) (worker.End, error) {
	h := s.clients[0]
	if tell := l.OnProgress; tell != nil && l.Spec.Client.Load.Model != string(scenario.Search) {
		spec, stream := *l.Spec.Client, newMerging()
		spec.IntervalNS = int64(intervalLength)
		l.Spec.Client, l.OnInterval = &spec, stream.add
		l.OnProgress = func(p worker.Progress) {
			p.Live = stream.live()
			tell(p)
		}
	}
	r, err := s.controller.startOn(ctx, h, hash, s.before[h.Name].offsetNS, l)
	if err != nil {
		return nil, err
	}
	return &alone{remote: r}, nil
}

// Result waits for the result, and ends the worker, since what its machine saw comes then.
func (a *alone) Result(ctx context.Context) (worker.Result, error) {
	if _, err := a.remote.Result(ctx); err != nil {
		return worker.Result{}, err
	}
	a.once.Do(func() { a.merged, a.failed = a.finish(ctx) })
	return a.merged, a.failed
}

func (a *alone) finish(ctx context.Context) (worker.Result, error) {
	if err := a.remote.Stop(); err != nil {
		return worker.Result{}, err
	}
	result, err := a.remote.Result(ctx)
	if err != nil {
		return result, err
	}
	ready, err := a.remote.Ready(ctx)
	if err != nil {
		return result, err
	}
	part := worker.Part{Agent: a.on.Name, Clients: a.spec.Client.Clients, Ready: ready, Result: result}
	if err := part.Check(); err != nil {
		return result, err
	}
	return worker.Result{Client: result.Client, Parts: []worker.Part{part}}, nil
}
