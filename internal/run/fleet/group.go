package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/worker"
)

// A group is several clients on as many agents, which the lab treats as one client.
type group struct {
	members []*remote
	clients []int // callers per member
	atMost  time.Duration
	stop    context.CancelCauseFunc
	over    chan struct{} // closed when merged or failed is set
	merged  worker.Result
	failed  error

	watch   *crowd.Tracker
	unwatch func()
}

var _ worker.End = (*group)(nil)

const (
	// ahead is the time between the announcement of an instant to all members and the instant;
	// aheadEach is added for each member.
	ahead     = 150 * time.Millisecond
	aheadEach = time.Millisecond
	// settlePatience is the wait, after the longest warm-up, for all clients to settle.
	settlePatience = 30 * time.Second
)

// startGroup starts a client on each agent.
func (s *stage) startGroup(ctx context.Context, hash string, l worker.Launch) (worker.End, error) {
	if l.Command[0] != s.controller.plan.Worker {
		return nil, fmt.Errorf("%s: only wirelab's own clients can be several machines: choose one, as in --client role=client", l.Name)
	}
	specs, err := crowd.Split(l.Spec, len(s.clients))
	if err != nil {
		return nil, err
	}
	leading, cancel := context.WithCancelCause(context.Background())
	g := &group{
		members: make([]*remote, len(specs)), clients: make([]int, len(specs)),
		atMost: time.Duration(l.Spec.Client.Load.WarmUpAtMostNS), stop: cancel,
		over: make(chan struct{}), watch: crowd.NewTracker(len(specs), l.Spec.Client.Load.DurationNS),
	}
	g.unwatch = g.watch.Tell(l.OnProgress)
	errs := make([]error, len(specs))
	forEach(specs, len(specs), func(i int, spec worker.Spec) {
		spec.Client.IntervalNS = int64(crowd.IntervalLength)
		g.clients[i] = spec.Client.Clients
		one := l
		one.Spec, one.OnInterval = spec, g.watch.Stream.Add
		one.OnProgress = func(p live.Progress) { g.watch.Report(i, p) }
		g.members[i], errs[i] = s.controller.startOn(ctx, s.clients[i], hash, s.before[s.clients[i].Name].offsetNS, one)
	})
	if err := cmp.Or(errs...); err != nil {
		g.members = slices.DeleteFunc(g.members, func(m *remote) bool { return m == nil })
		g.killAll()
		g.unwatch()
		cancel(nil)
		return nil, err
	}
	go g.lead(leading) // ends with the members, or when it is killed
	return g, nil
}

// lead takes the members through their trial together.
func (g *group) lead(ctx context.Context) {
	defer close(g.over)
	defer g.unwatch() // after the trial, nothing more is reported
	if err := g.through(ctx); err != nil {
		g.failed = err
		g.killAll()
	}
}

func (g *group) through(ctx context.Context) error {
	if err := g.each(func(m *remote) error { _, err := m.Ready(ctx); return err }); err != nil {
		return err
	}
	if err := g.tellAll(worker.GoControl); err != nil {
		return err
	}
	if g.atMost <= 0 {
		g.watch.Opens(clock.Now())
	} else {
		if err := g.awaitSettled(ctx); err != nil {
			return err
		}
		if err := g.tellAll(worker.OpenControl); err != nil {
			return err
		}
	}
	if err := g.each(func(m *remote) error { _, err := m.Result(ctx); return err }); err != nil {
		return err
	}
	if err := g.each(func(m *remote) error { return m.stop(ctx) }); err != nil {
		return err
	}
	return g.merge(ctx)
}

// awaitSettled waits until all are steady, or one has ended.
func (g *group) awaitSettled(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(g.members))
	for _, m := range g.members {
		go func() { // ends with ctx
			err := m.await(ctx, m.result, "result")
			ended <- cmp.Or(err, fmt.Errorf("%s: its client ended before its window was to open", m.on.Name))
		}()
	}
	late := time.NewTimer(g.atMost + settlePatience)
	defer late.Stop()
	select {
	case <-g.watch.Settled:
		return nil
	case err := <-ended:
		return err
	case <-late.C:
		var names []string
		for _, i := range g.watch.Unsettled() {
			names = append(names, g.members[i].on.Name)
		}
		return fmt.Errorf("%s did not report within %v that its warm-up may end", inShort(names), g.atMost+settlePatience)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// each calls do for every member at once, and returns the first error.
func (g *group) each(do func(*remote) error) error {
	errs := make(chan error, len(g.members))
	for _, m := range g.members {
		go func() { errs <- do(m) }()
	}
	for range g.members {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// tellAll sends all members a control for one instant.
func (g *group) tellAll(c worker.Control) error {
	at := clock.Now() + int64(ahead+time.Duration(len(g.members))*aheadEach)
	if c == worker.OpenControl {
		g.watch.Opens(at)
	}
	return g.each(func(m *remote) error { return m.Tell(worker.Order{Control: c, AtNS: at}) })
}

// merge merges the members' results into one.
func (g *group) merge(ctx context.Context) error {
	var intervals [][]worker.Interval
	for i, m := range g.members {
		result, err := m.Result(ctx)
		if err != nil {
			return err
		}
		ready, err := m.Ready(ctx)
		if err != nil {
			return err
		}
		g.merged.Parts = append(g.merged.Parts, worker.Part{Agent: m.on.Name, Clients: g.clients[i], Ready: ready, Result: result})
		intervals = append(intervals, m.intervals)
	}
	var err error
	g.merged.Client, err = crowd.Merge(g.merged.Parts, intervals)
	return err
}

// Ready returns the first member's ready message.
func (g *group) Ready(ctx context.Context) (worker.Ready, error) { return g.members[0].Ready(ctx) }

// Result waits for all results, and ends the members.
func (g *group) Result(ctx context.Context) (worker.Result, error) {
	select {
	case <-g.over:
		return g.merged, g.failed
	case <-ctx.Done():
		return worker.Result{}, context.Cause(ctx)
	}
}

// Stop waits until all have ended.
func (g *group) Stop() error {
	<-g.over
	return g.failed
}

// Kill ends all members at once.
func (g *group) Kill() {
	g.stop(fmt.Errorf("the clients were killed"))
	<-g.over
}

func (g *group) killAll() {
	forEach(g.members, len(g.members), func(_ int, m *remote) { m.Kill() })
}

// Tell sends the order to all members.
func (g *group) Tell(o worker.Order) error {
	return g.each(func(m *remote) error { return m.Tell(o) })
}

// PID returns 0, since the processes are on other machines.
func (g *group) PID() int { return 0 }

// CPU returns 0, since the workers took no CPU time of this machine.
func (g *group) CPU() time.Duration { return 0 }

// Warnings returns none.
func (g *group) Warnings() []string { return nil }

// An alone is a client on one agent. Its result has one part, itself, so that it is judged and
// described like the clients of a group.
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
	a.unwatch() // after the trial, nothing more is reported
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
