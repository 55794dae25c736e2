package fleet

import (
	"context"
	"sync"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/worker"
)

// An alone is a client on one agent. Its result has one part, itself, so that it is judged and
// described as those of a group are.
type alone struct {
	*remote
	unwatch func()

	once   sync.Once
	merged worker.Result
	failed error
}

func (s *stage) startAlone(ctx context.Context, hash string, l worker.Launch) (worker.End, error) {
	h, spec := s.clients[0], *l.Spec.Client
	watch := crowd.NewTracker(1, spec.Load.DurationNS)
	a := &alone{unwatch: watch.Tell(l.OnProgress)}
	if spec.Load.Model != scenario.Search && l.Command[0] == s.controller.plan.Worker {
		spec.IntervalNS = int64(crowd.IntervalLength)
	}
	l.Spec.Client, l.OnInterval = &spec, watch.Stream.Add
	l.OnProgress = func(p live.Progress) { watch.Report(0, p) }
	var err error
	if a.remote, err = s.controller.startOn(ctx, h, hash, s.before[h.Name].offsetNS, l); err != nil {
		a.unwatch()
		return nil, err
	}
	return a, nil
}

// Kill ends the worker at once.
func (a *alone) Kill() {
	a.unwatch()
	a.remote.Kill()
}

// Result waits for the result, and ends the worker: the readings of its machine come then.
func (a *alone) Result(ctx context.Context) (worker.Result, error) {
	_, err := a.remote.Result(ctx)
	a.unwatch() // nothing is told of a trial that is over
	if err != nil {
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
	if err := crowd.Check(&part); err != nil {
		return result, err
	}
	return worker.Result{Client: result.Client, Parts: []worker.Part{part}}, nil
}
