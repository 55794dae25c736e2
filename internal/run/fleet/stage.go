package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

var _ lab.Fleet = (*Controller)(nil)

// A trialStage holds the agents that are used in one trial.
type trialStage struct {
	controller *Controller
	server     *leasedAgent // nil if the server already runs, without an agent
	clients    []*leasedAgent
	before     map[string]clockComparison
	started    []worker.TrialEnd
	samples    string // the file for the samples; empty means no samples
}

// Agents returns the number of client agents that share this number of callers.
func (c *Controller) Agents(callers int) int {
	if c.plan.Client.Count == 0 {
		c.guard.Lock()
		defer c.guard.Unlock()
		return min(callers, max(1, len(c.held)-c.serverCount()))
	}
	return min(callers, c.plan.Client.Count)
}

func (c *Controller) serverCount() int {
	if c.plan.Server == nil {
		return 0
	}
	return 1
}

// maxTrialsTogether bounds the trials that take turns. An agent may have as many workers of the block
// before, which are just ending.
const maxTrialsTogether = maxWorkersPerAgent / 2

// WhyAlone explains why the agents cannot run this many trials at the same time, or returns "". It
// reports each reason once.
func (c *Controller) WhyAlone(trials int) (why string) {
	c.guard.Lock()
	switch {
	case trials > maxTrialsTogether:
		why = fmt.Sprintf("an agent runs at most %d trials at the same time, found %d", maxTrialsTogether, trials)
	case c.serves != nil && c.serves.Port != 0:
		why = fmt.Sprintf("the servers of the agent %s have one port, %d: start it without --port to let trials take turns", c.serves.Name, c.serves.Port)
	}
	told := c.alone
	c.alone = why
	c.guard.Unlock()
	if why != "" && why != told {
		c.report("measured without slices: " + why)
	}
	return why
}

// TakeFirst leases the agents before the run begins, to report missing agents early. If another run
// has leased some agents, it waits for about one lease: the leases of a killed run then expire.
func (c *Controller) TakeFirst(ctx context.Context) error {
	until := time.Now().Add(c.plan.Lease + leaseRenewPeriod)
	for {
		_, _, err := c.takeWantedAgents(ctx)
		if !errors.Is(err, errBusy) || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(missingAgentsPeriod):
		case <-ctx.Done():
		}
	}
}

// AgentElsewhere returns the name of a leased agent on another machine, or "".
func (c *Controller) AgentElsewhere() (agent string) {
	c.guard.Lock()
	defer c.guard.Unlock()
	here := bootID()
	for name, h := range c.held {
		if h.Boot != here && (agent == "" || name < agent) {
			agent = name
		}
	}
	return agent
}

// missingAgentsPeriod is the time between two attempts to lease missing agents.
const missingAgentsPeriod = 500 * time.Millisecond

// Stage leases agents for a trial and compares their clocks. It waits for missing agents.
func (c *Controller) Stage(ctx context.Context, callers int) (lab.Stage, error) {
	until := time.Now().Add(missingAgentsTimeout)
	for told := false; ; told = true {
		s, err := c.newStage(ctx, callers)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, err
		}
		if !told {
			c.report(fmt.Sprintf("waiting up to %v for missing agents: %v", missingAgentsTimeout, err))
		}
		select {
		case <-time.After(missingAgentsPeriod):
		case <-ctx.Done():
		}
	}
}

func (c *Controller) newStage(ctx context.Context, callers int) (*trialStage, error) {
	server, clients, err := c.takeWantedAgents(ctx)
	if err != nil {
		return nil, err
	}
	s := &trialStage{controller: c, server: server, clients: clients[:min(len(clients), callers)]}
	if s.before, err = c.compareClocks(ctx, s.agents()); err != nil {
		return nil, fmt.Errorf("%w: %w", lab.ErrTooFewAgents, err)
	}
	return s, nil
}

// takeWantedAgents leases the agents that the plan selects. It prefers agents already leased.
func (c *Controller) takeWantedAgents(ctx context.Context) (server *leasedAgent, clients []*leasedAgent, err error) {
	listing, cancel := context.WithTimeout(ctx, protocol.HubTimeout)
	defer cancel()
	cards, err := protocol.ReadCards(listing, c.conn, c.credentials.Project)
	if err != nil {
		return nil, nil, fmt.Errorf("read the list of agents: %w", err)
	}
	if c.plan.Server != nil {
		servers, err := c.takeAgents(ctx, *c.plan.Server, cards, nil, "--server")
		if err != nil {
			return nil, nil, err
		}
		server = servers[0]
		if err := c.checkPlace(ctx, server); err != nil {
			return nil, nil, err
		}
		c.guard.Lock()
		c.serves = server
		c.guard.Unlock()
	}
	if clients, err = c.takeAgents(ctx, c.plan.Client, cards, server, "--client"); err != nil {
		return nil, nil, err
	}
	return server, clients, c.checkProbes(server, clients)
}

// checkProbes returns an error if an agent cannot run a probe of the run, or if clients' machines run a
// probe by different methods, whose figures have no sum.
func (c *Controller) checkProbes(server *leasedAgent, clients []*leasedAgent) error {
	for _, name := range c.plan.Probes {
		for _, h := range clients {
			if err := h.CheckProbe(name); err != nil {
				return fmt.Errorf("%w: %w", lab.ErrTooFewAgents, err)
			}
			if first := clients[0]; h.Probes[name].Method != first.Probes[name].Method {
				return fmt.Errorf("%w: the agents %s and %s run the probe %s by different methods (%s; %s), whose figures cannot be added up: choose one of them with --client, or leave out the probe",
					lab.ErrTooFewAgents, first.Name, h.Name, name, first.Probes[name].Method, h.Probes[name].Method)
			}
		}
		if server != nil {
			if err := server.CheckProbe(name); err != nil {
				return fmt.Errorf("%w: %w", lab.ErrTooFewAgents, err)
			}
		}
	}
	return nil
}

// takeAgents leases agents that match want, except the agent but. Errors name the flag.
func (c *Controller) takeAgents(ctx context.Context, want protocol.Selector, cards []protocol.Card, but *leasedAgent, flag string) ([]*leasedAgent, error) {
	var matching []protocol.Card
	var others []string
	for _, card := range c.sortLeasedFirst(cards) {
		switch {
		case but != nil && card.Name == but.Name:
		case want.Matches(card):
			matching = append(matching, card)
		default:
			others = append(others, card.Name)
		}
	}
	wanted := want.Count
	if wanted == 0 {
		wanted = max(1, len(matching))
	}
	var taken []*leasedAgent
	var refusals []error
	for len(taken) < wanted && len(matching) > 0 {
		next := min(len(matching), wanted-len(taken))
		more, refused := c.leaseAgents(ctx, matching[:next])
		matching = matching[next:]
		taken, refusals = append(taken, more...), append(refusals, refused...)
	}
	if len(taken) > 0 && (len(taken) == wanted || want.Count == 0) {
		slices.SortFunc(taken, func(a, b *leasedAgent) int { return cmp.Compare(a.Name, b.Name) })
		return taken, nil
	}
	var names []string
	for _, h := range taken {
		names = append(names, h.Name)
	}
	var refused []string
	for _, err := range refusals {
		refused = append(refused, err.Error())
	}
	why := fmt.Sprintf("%s %s: found %d of %d agents", flag, want, len(taken), wanted)
	for _, list := range []struct {
		what  string
		names []string
	}{{"these match", names}, {"others have other labels", others}, {"refused", refused}} {
		if len(list.names) > 0 {
			why += "; " + list.what + ": " + joinFirst(list.names)
		}
	}
	return nil, &tooFewError{fmt.Sprintf("%v: %s (see `wirelab fleet list`)", lab.ErrTooFewAgents, why), append(refusals, lab.ErrTooFewAgents)}
}

// A tooFewError says which agents match a selector, and why wirelab did not lease the others.
type tooFewError struct {
	text   string
	causes []error
}

func (e *tooFewError) Error() string   { return e.text }
func (e *tooFewError) Unwrap() []error { return e.causes }

// joinFirst lists the first five names, and says how many other names there are.
func joinFirst(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// leaseAgents leases agents for this controller. It returns an error for each agent that refused.
func (c *Controller) leaseAgents(ctx context.Context, cards []protocol.Card) (taken []*leasedAgent, refusals []error) {
	all, errs := make([]*leasedAgent, len(cards)), make([]error, len(cards))
	forEach(cards, maxClaimsAtOnce, func(i int, card protocol.Card) { all[i], errs[i] = c.leaseAgent(ctx, card) })
	for i, h := range all {
		if errs[i] != nil {
			refusals = append(refusals, errs[i])
			continue
		}
		taken = append(taken, h)
	}
	return taken, refusals
}

// maxClaimsAtOnce bounds the number of agents that are asked for a lease at the same time.
const maxClaimsAtOnce = 64

// sortLeasedFirst sorts cards by name, but the cards of already leased agents come first.
func (c *Controller) sortLeasedFirst(cards []protocol.Card) []protocol.Card {
	c.guard.Lock()
	defer c.guard.Unlock()
	rank := func(card protocol.Card) int {
		if h := c.held[card.Name]; h != nil && h.Session == card.Session {
			return 0
		}
		return 1
	}
	sorted := slices.Clone(cards)
	slices.SortStableFunc(sorted, func(a, b protocol.Card) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Name, b.Name))
	})
	return sorted
}

// leaseAgent leases an agent for this controller. The agent must have the same build of wirelab.
func (c *Controller) leaseAgent(ctx context.Context, card protocol.Card) (*leasedAgent, error) {
	own, err := FileHash(c.plan.Worker)
	if err != nil {
		return nil, err
	}
	if !card.HasProgram(own) {
		return nil, fmt.Errorf("the agent %s has another build of wirelab (%s): copy this program to the agent's machine", card.Name, card.Version)
	}
	c.guard.Lock()
	h := c.held[card.Name]
	if c.lines[card.Session] == nil {
		c.lines[card.Session] = &orderLine{}
	}
	to := c.lines[card.Session]
	c.guard.Unlock()
	if h != nil && h.Session == card.Session {
		return h, nil
	}
	h = &leasedAgent{Card: card, line: to, heard: time.Now()}
	if h.hears, err = c.hear(card.Name); err != nil {
		return nil, err
	}
	if _, err := c.sendOrder(ctx, h, controllerOrder{Do: claimAgent, LeaseNS: int64(c.plan.Lease)}); err != nil {
		return nil, errors.Join(err, h.hears.Unsubscribe())
	}
	c.guard.Lock()
	earlier := c.held[card.Name] // a session that has ended, although nobody has noticed yet
	c.held[card.Name] = h
	c.guard.Unlock()
	if earlier != nil {
		_ = earlier.hears.Unsubscribe() // fails only if the connection is closed
	}
	return h, nil
}

func (s *trialStage) agents() []*leasedAgent {
	if s.server == nil {
		return s.clients
	}
	return append([]*leasedAgent{s.server}, s.clients...)
}

// Address returns the address at which the server's agent lets servers listen.
func (s *trialStage) Address() string {
	if s.server == nil {
		return ""
	}
	return net.JoinHostPort(s.server.Address, "0")
}

// Another returns a stage for another trial, with the same agents.
func (s *trialStage) Another() lab.Stage {
	return &trialStage{controller: s.controller, server: s.server, clients: s.clients, before: s.before}
}

// maxClockDrift is the drift of a clock, per nanosecond, that ClocksApart reckons with. Usual quartz
// clocks drift less. The check of clocks after a trial finds one that drifted more.
const maxClockDrift = 20e-6

// ClocksApart compares the clocks again. It returns the largest possible difference between the clocks of
// two clients until span is over, as far as the controller can correct them.
func (s *trialStage) ClocksApart(ctx context.Context, span time.Duration) time.Duration {
	if now, err := s.controller.compareClocks(ctx, s.agents()); err == nil { // else those before the trial count
		maps.Copy(s.before, now)
		s.controller.setOffsets(now)
	}
	until := clock.Now() + int64(span)
	var errs []int64
	for _, h := range s.clients {
		compared := s.before[h.Name]
		errs = append(errs, compared.errorNS+int64(maxClockDrift*float64(until-compared.atNS)))
	}
	slices.Sort(errs)
	if len(errs) < 2 {
		return 0
	}
	return time.Duration(errs[len(errs)-1] + errs[len(errs)-2])
}

// Limits returns the lowest value of each limit among the clients' machines.
func (s *trialStage) Limits() host.Limits {
	least := s.clients[0].Limits
	for _, h := range s.clients[1:] {
		least.Files = min(least.Files, h.Limits.Files)
		least.Ports = min(least.Ports, h.Limits.Ports)
		least.TimeWait = max(least.TimeWait, h.Limits.TimeWait)
		least.UDPReceive = min(least.UDPReceive, h.Limits.UDPReceive)
	}
	if s.server != nil {
		least.Backlog = s.server.Limits.Backlog
		least.UDPReceive = min(least.UDPReceive, s.server.Limits.UDPReceive)
	}
	return least
}

// Start starts the server or the clients of the trial on agents.
func (s *trialStage) Start(ctx context.Context, l worker.Launch) (worker.TrialEnd, error) {
	hash, err := FileHash(l.Command[0])
	if err != nil {
		return nil, err
	}
	if report := l.OnProgress; report != nil && l.Spec.Client != nil {
		window := time.Duration(l.Spec.Client.Load.DurationNS)
		l.OnProgress = func(p live.Progress) {
			p.Agents = s.describeAgents(window)
			report(p)
		}
	}
	var end worker.TrialEnd
	switch {
	case l.Spec.Role == worker.ServerRole && s.server == nil:
		return nil, errors.New("no agent was chosen for the server: choose one with --server")
	case l.Spec.Role == worker.ServerRole:
		end, err = s.controller.startOn(ctx, s.server, hash, s.before[s.server.Name].offsetNS, l)
	case len(s.clients) == 1:
		s.samples = l.Spec.Client.SamplesFile
		end, err = s.startSingleClient(ctx, hash, l)
	default:
		s.samples = l.Spec.Client.SamplesFile
		end, err = s.startGroup(ctx, hash, l)
	}
	if err != nil {
		return nil, err
	}
	s.started = append(s.started, end)
	return end, nil
}

// describeAgents returns the state of each agent of the trial, the server's first.
func (s *trialStage) describeAgents(window time.Duration) []live.Agent {
	all, ownShare := s.agents(), map[string]int{} // the sum over all agents of one machine, by the machine's boot
	for _, h := range all {
		ownShare[h.Boot] += h.ownShare()
	}
	agents := make([]live.Agent, 0, len(all))
	for _, h := range all {
		one := live.Agent{Name: h.Name, Role: string(worker.ClientRole)}
		if h == s.server {
			one.Role = string(worker.ServerRole)
		}
		seen := observedAgent{silent: h.silentFor(), clockError: time.Duration(s.before[h.Name].errorNS), window: window}
		seen.others = h.describe(&one, ownShare[h.Boot])
		s.controller.guard.Lock()
		seen.lost = s.controller.held[h.Name] != h
		s.controller.guard.Unlock()
		one.Health, one.Remark = judgeHealth(&one, seen)
		agents = append(agents, one)
	}
	return agents
}

// End compares the clocks again. It adds the agents and the path of the samples to the record.
func (s *trialStage) End(ctx context.Context, r *record.Record) error {
	after, err := s.controller.compareClocks(ctx, s.agents())
	if err != nil {
		return err
	}
	describe := func(h *leasedAgent) record.Agent {
		return record.Agent{
			Name: h.Name, Labels: h.Labels, Machine: h.Machine, Boot: h.Boot,
			Clock: recordedClock(s.before[h.Name], after[h.Name]),
		}
	}
	if s.server != nil {
		r.Fleet.Server = describe(s.server)
	}
	for _, h := range s.clients {
		if i := clientIndex(r.Fleet, h.Name); i >= 0 {
			r.Fleet.Clients[i].Agent = describe(h)
		}
	}
	if s.samples != "" {
		s.keepSamples(r)
	}
	return nil
}

func clientIndex(f *record.Fleet, name string) int {
	return slices.IndexFunc(f.Clients, func(c record.FleetClient) bool { return c.Name == name })
}

// keepSamples merges the clients' samples into one file, and then removes the clients' files. If it
// cannot, it keeps them, and the record has a warning.
func (s *trialStage) keepSamples(r *record.Record) {
	var parts []latency.SampleFile
	var missing []error
	for _, m := range s.remoteClients() {
		m.guard.Lock()
		last := m.last
		m.guard.Unlock()
		i := clientIndex(r.Fleet, m.on.Name)
		if last.Samples == nil || i < 0 {
			missing = append(missing, fmt.Errorf("%s: %s", m.on.Name, cmp.Or(last.SamplesMissing, "the client has no samples")))
			continue
		}
		one := r.Fleet.Clients[i]
		parts = append(parts, latency.SampleFile{Path: m.samples.path, Agent: m.on.Name, ShiftNS: one.BeginNS, MaxRows: one.Requests})
	}
	err := errors.Join(missing...)
	if err == nil {
		err = latency.MergeSamples(s.samples, parts)
	}
	if err != nil {
		r.Warnings = append(r.Warnings, "the samples were not kept as one file: "+err.Error())
		for _, p := range parts {
			r.Warnings = append(r.Warnings, "the samples of "+p.Agent+" are in samples/"+filepath.Base(p.Path))
		}
		return
	}
	r.SamplesFile = s.samples
	for _, p := range parts {
		if err := os.Remove(p.Path); err != nil {
			r.Warnings = append(r.Warnings, "a file of samples was not removed after it had been merged: "+err.Error())
		}
	}
}

func (s *trialStage) remoteClients() []*remoteWorker {
	for _, end := range s.started {
		switch e := end.(type) {
		case *clientGroup:
			return e.members
		case *singleClient:
			return []*remoteWorker{e.remoteWorker}
		}
	}
	return nil
}
