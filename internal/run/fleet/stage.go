package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
)

var _ lab.Fleet = (*Controller)(nil)

// A stage holds the agents of one trial.
type stage struct {
	controller *Controller
	server     *leasedAgent // nil: the server is given
	clients    []*leasedAgent
	before     map[string]comparison
	started    []worker.End
	samples    string // where the samples are wanted; empty: nowhere
}

// Agents returns how many of the wanted client agents get some of the callers.
func (c *Controller) Agents(callers int) int {
	if c.plan.Client.Count == 0 {
		c.guard.Lock()
		defer c.guard.Unlock()
		return min(callers, max(1, len(c.held)-c.servers()))
	}
	return min(callers, c.plan.Client.Count)
}

func (c *Controller) servers() int {
	if c.plan.Server == nil {
		return 0
	}
	return 1
}

// Join takes the agents for the first time, so that missing agents are known before a run begins.
// For agents that another run has, it waits at most one lease: if that run was killed, its lease
// ends.
func (c *Controller) Join(ctx context.Context) error {
	until := time.Now().Add(c.plan.Lease + renewEvery)
	for {
		_, _, err := c.gather(ctx)
		if !errors.Is(err, errBusy) || time.Now().After(until) || ctx.Err() != nil {
			return err
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

// Elsewhere returns the name of a taken agent that is not on this machine, or "".
func (c *Controller) Elsewhere() (agent string) {
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

// lookEvery is the time between two looks for missing agents.
const lookEvery = 500 * time.Millisecond

// Stage takes agents and compares their clocks. It waits for missing agents.
func (c *Controller) Stage(ctx context.Context, callers int) (lab.Stage, error) {
	until := time.Now().Add(returnPatience)
	for told := false; ; told = true {
		s, err := c.stage(ctx, callers)
		if err == nil {
			return s, nil
		}
		if time.Now().After(until) || ctx.Err() != nil {
			return nil, err
		}
		if !told {
			c.report(fmt.Sprintf("waiting for %v at most: %v", returnPatience, err))
		}
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
		}
	}
}

func (c *Controller) stage(ctx context.Context, callers int) (*stage, error) {
	server, clients, err := c.gather(ctx)
	if err != nil {
		return nil, err
	}
	s := &stage{controller: c, server: server, clients: clients[:min(len(clients), callers)]}
	if s.before, err = c.compareClocks(ctx, s.all()); err != nil {
		return nil, fmt.Errorf("%w: %w", lab.ErrTooFewAgents, err)
	}
	return s, nil
}

// gather takes the agents that the plan wants. It prefers agents that it already has.
func (c *Controller) gather(ctx context.Context) (server *leasedAgent, clients []*leasedAgent, err error) {
	listing, cancel := context.WithTimeout(ctx, protocol.HubPatience)
	defer cancel()
	cards, err := protocol.Cards(listing, c.cards)
	if err != nil {
		return nil, nil, fmt.Errorf("read the list of agents: %w", err)
	}
	if c.plan.Server != nil {
		servers, err := c.take(ctx, *c.plan.Server, cards, nil, "--server")
		if err != nil {
			return nil, nil, err
		}
		server = servers[0]
	}
	clients, err = c.take(ctx, c.plan.Client, cards, server, "--client")
	return server, clients, err
}

// take takes as many agents as a selector wants.
func (c *Controller) take(ctx context.Context, want protocol.Selector, cards []protocol.Card, but *leasedAgent, flag string) ([]*leasedAgent, error) {
	var matching []protocol.Card
	var others []string
	for _, card := range c.order(cards) {
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
		more, refused := c.holdAll(ctx, matching[:next])
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
			why += "; " + list.what + ": " + inShort(list.names)
		}
	}
	return nil, &tooFew{fmt.Sprintf("%v: %s (see `wirelab fleet list`)", lab.ErrTooFewAgents, why), append(refusals, lab.ErrTooFewAgents)}
}

// A tooFew names the agents that a selector found, and why they are too few.
type tooFew struct {
	text   string
	causes []error
}

func (e *tooFew) Error() string   { return e.text }
func (e *tooFew) Unwrap() []error { return e.causes }

// inShort lists the first of many names.
func inShort(names []string) string {
	const most = 5
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// holdAll leases some agents for this controller, and returns the refusals of the others.
func (c *Controller) holdAll(ctx context.Context, cards []protocol.Card) (taken []*leasedAgent, refusals []error) {
	all, errs := make([]*leasedAgent, len(cards)), make([]error, len(cards))
	forEach(cards, claimedAtOnce, func(i int, card protocol.Card) { all[i], errs[i] = c.hold(ctx, card) })
	for i, h := range all {
		if errs[i] != nil {
			refusals = append(refusals, errs[i])
			continue
		}
		taken = append(taken, h)
	}
	return taken, refusals
}

// claimedAtOnce bounds the agents that are claimed at the same time.
const claimedAtOnce = 64

// order sorts agents that are already leased first, and the others by name.
func (c *Controller) order(cards []protocol.Card) []protocol.Card {
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

// hold leases an agent for this controller, if it has the same wirelab.
func (c *Controller) hold(ctx context.Context, card protocol.Card) (*leasedAgent, error) {
	own, err := HashOf(c.plan.Worker)
	if err != nil {
		return nil, err
	}
	if !card.Has(own) {
		return nil, fmt.Errorf("%s has another build of wirelab (%s) than this one: copy this program there", card.Name, card.Version)
	}
	c.guard.Lock()
	h := c.held[card.Name]
	if c.lines[card.Session] == nil {
		c.lines[card.Session] = &line{}
	}
	to := c.lines[card.Session]
	c.guard.Unlock()
	if h != nil && h.Session == card.Session {
		return h, nil
	}
	h = &leasedAgent{Card: card, line: to, heard: time.Now()}
	if _, err := c.send(ctx, h, order{Do: claim, LeaseNS: int64(c.plan.Lease)}); err != nil {
		return nil, err
	}
	c.guard.Lock()
	c.held[card.Name] = h
	c.guard.Unlock()
	return h, nil
}

func (s *stage) all() []*leasedAgent {
	if s.server == nil {
		return s.clients
	}
	return append([]*leasedAgent{s.server}, s.clients...)
}

// Address returns the address that servers of the server's agent listen on.
func (s *stage) Address() string {
	if s.server == nil {
		return ""
	}
	return net.JoinHostPort(s.server.Address, "0")
}

// Limits returns the lowest limits of the clients' machines.
func (s *stage) Limits() host.Limits {
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

// Start starts an end on its agents.
func (s *stage) Start(ctx context.Context, l worker.Launch) (worker.End, error) {
	hash, err := HashOf(l.Command[0])
	if err != nil {
		return nil, err
	}
	var end worker.End
	switch {
	case l.Spec.Role == worker.ServerRole && s.server == nil:
		return nil, errors.New("the fleet has no agent for servers: give --server")
	case l.Spec.Role == worker.ServerRole:
		end, err = s.controller.startOn(ctx, s.server, hash, s.before[s.server.Name].offsetNS, l)
	case len(s.clients) == 1:
		s.samples = l.Spec.Client.SamplesFile
		end, err = s.startAlone(ctx, hash, l)
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

// End compares the clocks again, and fills in the agents' descriptions.
func (s *stage) End(ctx context.Context, r *record.Record) error {
	after, err := s.controller.compareClocks(ctx, s.all())
	if err != nil {
		return err
	}
	describe := func(h *leasedAgent) record.Agent {
		return record.Agent{
			Name: h.Name, Labels: h.Labels, Machine: h.Machine, Boot: h.Boot,
			Clock: clockBetween(s.before[h.Name], after[h.Name]),
		}
	}
	if s.server != nil {
		r.Fleet.Server = describe(s.server)
	}
	for _, h := range s.clients {
		if i := clientOf(r.Fleet, h.Name); i >= 0 {
			r.Fleet.Clients[i].Agent = describe(h)
		}
	}
	if s.samples != "" {
		if err := s.fetchSamples(ctx, r); err != nil {
			r.Warnings = append(r.Warnings, "the samples were not kept: "+err.Error())
		}
	}
	return nil
}

func clientOf(f *record.Fleet, name string) int {
	return slices.IndexFunc(f.Clients, func(c record.FleetClient) bool { return c.Name == name })
}

// fetchSamples writes the samples of all clients, each to a file.
func (s *stage) fetchSamples(ctx context.Context, r *record.Record) error {
	if err := os.MkdirAll(filepath.Dir(s.samples), 0o755); err != nil {
		return err
	}
	store, err := s.controller.stream.ObjectStore(ctx, s.controller.credentials.SamplesStore())
	if err != nil {
		return err
	}
	for _, m := range s.members() {
		m.guard.Lock()
		object, missing := m.last.Samples, m.last.SamplesMissing
		m.guard.Unlock()
		if object == "" {
			return fmt.Errorf("%s: %s", m.on.Name, cmp.Or(missing, "it has none"))
		}
		if err := store.GetFile(ctx, object, s.samplesOf(m)); err != nil {
			return fmt.Errorf("%s: %w", m.on.Name, err)
		}
		if i := clientOf(r.Fleet, m.on.Name); i >= 0 {
			r.Fleet.Clients[i].SamplesFile = s.samplesOf(m)
		}
		_ = store.Delete(ctx, object) // without this, it expires
	}
	return nil
}

// samplesOf returns the file of a client's samples.
func (s *stage) samplesOf(m *remote) string {
	extension := filepath.Ext(s.samples)
	return strings.TrimSuffix(s.samples, extension) + "-" + m.on.Name + extension
}

func (s *stage) members() []*remote {
	for _, end := range s.started {
		switch e := end.(type) {
		case *group:
			return e.members
		case *alone:
			return []*remote{e.remote}
		}
	}
	return nil
}
