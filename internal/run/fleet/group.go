package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/excerpt"
	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/service/reach"
)

// A clientGroup holds clients on several agents. The lab treats them as one client.
type clientGroup struct {
	members []*remoteWorker
	clients []int       // the number of callers of each member
	load    worker.Load // the load of all members together
	block   bool        // the clients rest once they are warmed up, and wait for slices
	stop    context.CancelCauseFunc
	over    chan struct{} // closed when merged or failed is set
	merged  worker.Result
	failed  error

	watch   *crowd.Tracker
	unwatch func()
}

var _ worker.TrialEnd = (*clientGroup)(nil)

const (
	// controlLead is the time from sending a control to the control's instant.
	controlLead = 150 * time.Millisecond
	// controlLeadPerMember is added to controlLead for each member of the group.
	controlLeadPerMember = time.Millisecond
	// settleTimeout limits the wait for clients to settle, after the longest warm-up.
	settleTimeout = 30 * time.Second
)

// startGroup starts a client on each agent.
func (s *trialStage) startGroup(ctx context.Context, hash string, l worker.Launch) (worker.TrialEnd, error) {
	if l.Command[0] != s.controller.plan.Worker {
		return nil, fmt.Errorf("%s: only wirelab's own clients can run on several machines: choose one machine, as in --client role=client", l.Name)
	}
	specs, err := crowd.Split(l.Spec, len(s.clients))
	if err != nil {
		return nil, err
	}
	leading, cancel := context.WithCancelCause(context.Background())
	g := &clientGroup{
		members: make([]*remoteWorker, len(specs)), clients: make([]int, len(specs)),
		load: l.Spec.Client.Load, block: l.Spec.Client.Block, stop: cancel,
		over: make(chan struct{}), watch: newTracker(len(specs), l.Spec.Client),
	}
	g.unwatch = g.watch.ReportEvery(l.OnProgress)
	errs := make([]error, len(specs))
	forEach(specs, len(specs), func(i int, spec worker.Spec) {
		spec.Client.IntervalNS = intervalNS(spec.Client)
		g.clients[i] = spec.Client.Clients
		one := l
		one.Spec, one.OnInterval = spec, g.watch.Stream.Add
		one.OnProgress = func(p live.Progress) { g.watch.Report(i, p) }
		g.members[i], errs[i] = s.controller.startOn(ctx, s.clients[i], hash, s.before[s.clients[i].Name].offsetNS, one)
	})
	if err := cmp.Or(errs...); err != nil {
		g.members = slices.DeleteFunc(g.members, func(m *remoteWorker) bool { return m == nil })
		g.killAll()
		g.unwatch()
		cancel(nil)
		return nil, err
	}
	go g.runTrial(leading) // ends when the members end, or when the group is killed
	return g, nil
}

// runTrial runs the trial on all members. It sets the merged result, or the failure.
func (g *clientGroup) runTrial(ctx context.Context) {
	defer close(g.over)
	defer g.unwatch() // nothing is reported after the trial
	if err := g.runSteps(ctx); err != nil {
		g.failed = err
		g.killAll()
	}
}

func (g *clientGroup) runSteps(ctx context.Context) error {
	if err := g.forEachMember(func(_ int, m *remoteWorker) error { _, err := m.Ready(ctx); return err }); err != nil {
		return err
	}
	searched := groupSearch{clientGroup: g}
	conduct := g.openWindows
	if g.load.Model == scenario.Search {
		conduct = searched.run
	}
	if err := conduct(ctx); err != nil {
		return err
	}
	if err := g.forEachMember(func(_ int, m *remoteWorker) error { _, err := m.Result(ctx); return err }); err != nil {
		return err
	}
	if err := g.forEachMember(func(_ int, m *remoteWorker) error { return m.stop(ctx) }); err != nil {
		return err
	}
	if err := g.mergeResults(ctx); err != nil {
		return err
	}
	return searched.finish(&g.merged)
}

// openWindows lets all members begin, and opens their windows when all have settled.
func (g *clientGroup) openWindows(ctx context.Context) error {
	if _, err := g.sendToAll(worker.ControlOrder{Control: worker.GoControl}); err != nil {
		return err
	}
	if g.load.WarmUpAtMostNS <= 0 {
		g.watch.SetOpening(clock.Now())
		return nil
	}
	if err := g.awaitSettled(ctx); err != nil {
		return err
	}
	at, err := g.sendToAll(worker.ControlOrder{Control: worker.OpenControl})
	if !g.block {
		g.watch.SetOpening(at)
	}
	return err
}

// awaitSettled waits until every member is ready to end its warm-up. It fails if a member ends.
func (g *clientGroup) awaitSettled(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, len(g.members))
	for _, m := range g.members {
		go func() { // ends with ctx
			err := m.awaitEvent(ctx, m.result, "result")
			ended <- cmp.Or(err, fmt.Errorf("the client on %s ended before the window could open", m.on.Name))
		}()
	}
	atMost := time.Duration(g.load.WarmUpAtMostNS) + settleTimeout
	late := time.NewTimer(atMost)
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
		return fmt.Errorf("the clients on %s did not finish their warm-up within %v", joinFirst(names), atMost)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// forEachMember calls do for all members at the same time, and returns the first error.
func (g *clientGroup) forEachMember(do func(int, *remoteWorker) error) error {
	errs := make(chan error, len(g.members))
	for i, m := range g.members {
		go func() { errs <- do(i, m) }()
	}
	for range g.members {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// sendToAll sends a control with one instant to all members. It returns the instant.
func (g *clientGroup) sendToAll(o worker.ControlOrder) (at int64, err error) {
	o.AtNS = clock.Now() + int64(controlLead+time.Duration(len(g.members))*controlLeadPerMember)
	return o.AtNS, g.forEachMember(func(_ int, m *remoteWorker) error { return m.SendControl(o) })
}

// mergeResults merges the members' results into one.
func (g *clientGroup) mergeResults(ctx context.Context) error {
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
		g.merged.Parts = append(g.merged.Parts, worker.ClientPart{Agent: m.on.Name, Clients: g.clients[i], Ready: ready, Result: result})
		intervals = append(intervals, m.intervals)
	}
	var err error
	g.merged.Client, err = crowd.Merge(g.merged.Parts, intervals)
	return err
}

// Ready returns the first member's ready message.
func (g *clientGroup) Ready(ctx context.Context) (worker.Ready, error) {
	return g.members[0].Ready(ctx)
}

// Result waits until all members have ended. It returns the merged result.
func (g *clientGroup) Result(ctx context.Context) (worker.Result, error) {
	select {
	case <-g.over:
		return g.merged, g.failed
	case <-ctx.Done():
		return worker.Result{}, context.Cause(ctx)
	}
}

// Stop waits until all members have ended.
func (g *clientGroup) Stop() error {
	<-g.over
	return g.failed
}

// Kill ends all members at once.
func (g *clientGroup) Kill() {
	g.stop(fmt.Errorf("the clients were killed"))
	<-g.over
}

func (g *clientGroup) killAll() {
	forEach(g.members, len(g.members), func(_ int, m *remoteWorker) { m.Kill() })
}

// SendControl sends the control to all members.
func (g *clientGroup) SendControl(o worker.ControlOrder) error {
	if o.Control == worker.SlicesControl {
		g.watch.SetOpening(o.Slices[0].From)
	}
	return g.forEachMember(func(_ int, m *remoteWorker) error { return m.SendControl(o) })
}

// PID returns 0, since the group has no process on this machine.
func (g *clientGroup) PID() int { return 0 }

// CPU returns 0, since the members used no CPU time of this machine.
func (g *clientGroup) CPU() time.Duration { return 0 }

// Warnings returns nil, since the group has no process on this machine.
func (g *clientGroup) Warnings() []string { return nil }

// intervalNS returns the length of the intervals that a client reports. In a search there are none: its
// loads follow one another, and the intervals of all would be taken for those of one. Nor does a client
// report any that takes turns: it must not disturb the others' slices.
func intervalNS(c *worker.ClientSpec) int64 {
	if c.Load.Model == scenario.Search || c.Block {
		return 0
	}
	return int64(crowd.IntervalLength)
}

// A singleClient is a client on one agent. Its result has one part, as if it were a clientGroup.
type singleClient struct {
	*remoteWorker
	unwatch func()

	once   sync.Once
	merged worker.Result
	failed error
}

// newTracker returns a tracker for clients that share the spec's load.
func newTracker(clients int, spec *worker.ClientSpec) *crowd.Tracker {
	if spec.Block { // the time between slices says nothing about the window
		return crowd.NewTracker(clients, 0)
	}
	return crowd.NewTracker(clients, spec.Load.DurationNS)
}

func (s *trialStage) startSingleClient(ctx context.Context, hash string, l worker.Launch) (worker.TrialEnd, error) {
	h, spec := s.clients[0], *l.Spec.Client
	watch := newTracker(1, &spec)
	a := &singleClient{unwatch: watch.ReportEvery(l.OnProgress)}
	if l.Command[0] == s.controller.plan.Worker {
		spec.IntervalNS = intervalNS(&spec)
	}
	l.Spec.Client, l.OnInterval = &spec, watch.Stream.Add
	l.OnProgress = func(p live.Progress) { watch.Report(0, p) }
	var err error
	if a.remoteWorker, err = s.controller.startOn(ctx, h, hash, s.before[h.Name].offsetNS, l); err != nil {
		a.unwatch()
		return nil, err
	}
	return a, nil
}

// Kill ends the worker at once.
func (a *singleClient) Kill() {
	a.unwatch()
	a.remoteWorker.Kill()
}

// Result returns the worker's result. It first ends the worker, to get its machine's readings.
func (a *singleClient) Result(ctx context.Context) (worker.Result, error) {
	_, err := a.remoteWorker.Result(ctx)
	a.unwatch() // nothing is reported after the trial
	if err != nil {
		return worker.Result{}, err
	}
	a.once.Do(func() { a.merged, a.failed = a.finishResult(ctx) })
	return a.merged, a.failed
}

func (a *singleClient) finishResult(ctx context.Context) (worker.Result, error) {
	if err := a.remoteWorker.Stop(); err != nil {
		return worker.Result{}, err
	}
	result, err := a.remoteWorker.Result(ctx)
	if err != nil {
		return result, err
	}
	ready, err := a.remoteWorker.Ready(ctx)
	if err != nil {
		return result, err
	}
	part := worker.ClientPart{Agent: a.on.Name, Clients: a.spec.Client.Clients, Ready: ready, Result: result}
	if err := crowd.CheckPart(&part); err != nil {
		return result, err
	}
	return worker.Result{Client: result.Client, Parts: []worker.ClientPart{part}}, nil
}

const (
	// longestVisit bounds the wait for the end of a first call, besides the time limit of a call.
	longestVisit = 10 * time.Minute
	// These bound the notes that the controller prints.
	maxVisitNotes = 100
	maxVisitText  = 2000
)

// Visit makes the first call to a service from the first client agent. It changes the call's
// definition as FirstCall.Try does, but never the requests: an agent is another owner's machine.
func (c *Controller) Visit(ctx context.Context, call *reach.FirstCall) error {
	ctx, cancel := context.WithTimeout(ctx, longestVisit+call.Limit)
	defer cancel()
	d := call.Definition
	text, err := d.Encode()
	if err != nil {
		return err
	}
	hash, err := FileHash(c.plan.Worker)
	if err != nil {
		return err
	}
	_, clients, err := c.takeWantedAgents(ctx)
	if err != nil {
		return err
	}
	h := clients[0]
	variant := scenario.Variant{Stack: service.StackName}.With("wire", string(d.Wire))
	r, err := c.startOn(ctx, h, hash, 0, worker.Launch{Spec: worker.Spec{
		Contract: worker.Contract, Role: worker.VisitRole, Stack: variant.String(), Workload: worker.Workload{Definition: text}, Address: d.Address,
		Visit: &worker.VisitSpec{Seed: call.Seed, LimitNS: int64(call.Limit), Whole: call.Whole},
	}})
	if err != nil {
		return err
	}
	result, err := r.Result(ctx)
	if err != nil {
		r.Kill()
		return fmt.Errorf("the first call from %s: %w", h.Name, err)
	}
	if err := r.stop(ctx); err != nil {
		return fmt.Errorf("the first call from %s: %w", h.Name, err)
	}
	return applyVisit(h.Name, call, result.Visit)
}

// applyVisit prints an agent's notes, and changes the definition. It returns the failure of the call.
func applyVisit(agent string, call *reach.FirstCall, v *worker.VisitResult) error {
	d := call.Definition
	for _, note := range v.Notes[:min(len(v.Notes), maxVisitNotes)] {
		what, text, _ := strings.Cut(printable(note), ":")
		fmt.Fprintf(call.Notes, "%s from %s:%s\n", what, agent, text)
	}
	switch {
	case v.Failure != "":
		return failure.WithClass(failure.Class(v.Class), fmt.Errorf("the first call from %s: %s", agent, printable(v.Failure)))
	case !slices.Contains(d.Addressed(), v.Address):
		return fmt.Errorf("the first call from %s: the agent says that it called %.80q, which is no address of the service", agent, v.Address)
	case v.Events && (call.Whole || call.Script != nil || d.Holding != nil || d.Wire.IsGRPC()):
		return fmt.Errorf("the first call from %s: the agent says that the answer is a stream of events, which was not asked for", agent)
	}
	d.Address = v.Address
	if v.Events {
		d.HoldEvents()
	}
	return nil
}

// printable returns an agent's text for the terminal: as one line, without control characters, not
// too long.
func printable(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return ' '
	}, text)
	return excerpt.Start(text, maxVisitText)
}
