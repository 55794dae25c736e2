package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/run/fleet/protocol"
)

const (
	// defaultLease is the length of a lease if the plan sets no length.
	defaultLease = 5 * time.Second
	// leaseRenewPeriod is the time between two renewals of a lease, of about 500 bytes each.
	leaseRenewPeriod = 2 * time.Second
	// lostCheckPeriod is the time between two checks for silent agents.
	lostCheckPeriod = 250 * time.Millisecond
	// missingAgentsTimeout limits the time that a trial waits for missing agents.
	missingAgentsTimeout = 30 * time.Second
)

// A Plan says which agents a controller uses.
type Plan struct {
	Server *protocol.Selector // the server's agent; nil if the server already runs
	Client protocol.Selector
	Worker string   // the path of wirelab's own program, which agents must also have
	Probes []string // probes that all agents must be able to run
	// Lease is the time after which an agent stops if its controller is silent, and after which the
	// controller drops a silent agent. 0 means defaultLease.
	Lease time.Duration
	// Report gets a line for each important event. It may be nil.
	Report func(line string)
}

// Controller runs a trial's server and clients on agents. Close must be called.
type Controller struct {
	plan        Plan
	credentials *protocol.Credentials
	conn        *nats.Conn
	key         nkeys.KeyPair
	run         string // the identifier of this controller's run; agents are leased to the run
	answers     *answerReceiver
	stopRenew   context.CancelFunc
	renewing    sync.WaitGroup

	guard  sync.Mutex // guards the fields below
	held   map[string]*leasedAgent
	lines  map[string]*orderLine    // key: the agent's session
	ends   map[string]*remoteWorker // key: the names of agent and worker
	names  int                      // number of worker names that are used up
	serves *leasedAgent             // the server's agent that was chosen last; nil if the server already runs
	alone  string                   // the last reported reason of WhyAlone
}

// A leasedAgent is an agent that is leased to this controller.
type leasedAgent struct {
	protocol.Card
	line   *orderLine
	placed bool // its address for servers was checked
	hears  *nats.Subscription

	agentFigures

	guard sync.Mutex
	heard time.Time
}

// silentFor returns how long ago the agent's last message arrived.
func (h *leasedAgent) silentFor() time.Duration {
	h.guard.Lock()
	defer h.guard.Unlock()
	return time.Since(h.heard)
}

// An orderLine numbers the orders to one session of an agent. If the agent is lost and comes back
// in the same session, the numbers continue.
type orderLine struct {
	guard  sync.Mutex // locked while an order is numbered and sent, to keep the order of numbers
	number uint64
}

func (h *leasedAgent) markHeard() {
	h.guard.Lock()
	defer h.guard.Unlock()
	h.heard = time.Now()
}

// NewController connects to a fleet as a controller.
func NewController(ctx context.Context, credentials *protocol.Credentials, plan Plan) (*Controller, error) {
	if len(credentials.OrdersSeed) == 0 {
		return nil, errors.New("these are an agent's credentials, which cannot give orders: use the controller's token (`wirelab fleet token --role controller`)")
	}
	plan.Lease = cmp.Or(plan.Lease, defaultLease)
	key, err := nkeys.FromSeed(credentials.OrdersSeed)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs orders: %w", err)
	}
	c := &Controller{plan: plan, credentials: credentials, key: key, answers: &answerReceiver{waiting: map[string]chan *nats.Msg{}}, run: nuid.Next(), held: map[string]*leasedAgent{}, lines: map[string]*orderLine{}, ends: map[string]*remoteWorker{}}
	if c.conn, err = protocol.Connect(ctx, credentials, "controller", c.report); err != nil {
		return nil, err
	}
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopRenew = cancel
	c.renewing.Go(func() { c.renewLeases(renewing) })
	return c, nil
}

// maxPendingBytes bounds the messages of one agent that the controller has not yet handled. What an
// agent sends beyond that is lost, and other agents' messages are not.
const maxPendingBytes = 64 << 20

// hear starts to receive the messages of an agent. No other agent can send on their subjects.
func (c *Controller) hear(agent string) (*nats.Subscription, error) {
	var flood floodWatch
	heard, err := c.conn.Subscribe(c.credentials.FromSubjects(agent), func(m *nats.Msg) {
		awaited := false
		what := strings.Split(m.Subject, ".")[4:] // wl.P.from.A.…
		switch what[0] {
		case "answer":
			c.answers.deliver(m)
		case "live":
			c.handleLive(agent, m.Subject, m.Data)
		case "kept", "samples":
			awaited = c.handleKept(agent, what[0], m)
		}
		if !awaited && flood.isOn(m.Size()) {
			c.guard.Lock()
			h := c.held[agent]
			c.guard.Unlock()
			c.giveUpAgent(h, fmt.Errorf("the agent %s floods the fleet with messages: shut it out with `wirelab fleet revoke %s`", agent, agent))
		}
	})
	if err == nil {
		err = heard.SetPendingLimits(-1, maxPendingBytes)
	}
	return heard, err
}

// handleLive handles a message about a worker. The hub may lose such messages.
func (c *Controller) handleLive(agent, subject string, data []byte) {
	parts := strings.Split(subject, ".") // wl.P.from.A.live.RUN.W
	if len(parts) != 7 || parts[5] != c.run {
		return
	}
	end := c.remoteFor(agent, parts[6])
	if end == nil {
		return // the worker belongs to an earlier trial
	}
	if t, err := decodeWorkerEvent(data); err == nil {
		end.handleEvent(t)
	}
}

// handleKept handles a part of a message that must not be lost, and tells the agent that it has the
// part. It reports whether the part was awaited. The controller marks a worker as failed if it cannot
// read the worker's message.
func (c *Controller) handleKept(agent, kind string, m *nats.Msg) (awaited bool) {
	run, name, _ := strings.Cut(m.Header.Get(aboutHeader), ".")
	if run != c.run {
		return false // it is for another controller
	}
	end, id := c.remoteFor(agent, name), m.Header.Get(idHeader)
	if awaited = end != nil && end.seen.isNew(id); awaited {
		if kind == "samples" {
			end.samples.add(m.Data)
		} else {
			end.addKept(m.Header.Get(partHeader), m.Data)
		}
	}
	_ = c.conn.Publish(c.credentials.GotSubject(agent), []byte(id)) // if it is lost, the part comes again
	return awaited
}

// remoteFor returns the worker of an agent, or nil if this controller has no such worker. The agent
// is the one in the subject, on which no other agent can send. It also records that the agent has
// just sent a message.
func (c *Controller) remoteFor(agent, name string) *remoteWorker {
	c.guard.Lock()
	of, end := c.held[agent], c.ends[agent+"/"+name]
	c.guard.Unlock()
	if of != nil {
		of.markHeard()
	}
	return end
}

// Close releases all agents.
func (c *Controller) Close() {
	c.stopRenew()
	c.renewing.Wait()
	c.guard.Lock()
	all := c.held
	c.held = map[string]*leasedAgent{}
	c.guard.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), leaseRenewPeriod)
	defer cancel()
	held := slices.Collect(maps.Values(all))
	// If the order to release an agent is lost, the lease expires.
	forEach(held, len(held), func(_ int, h *leasedAgent) { _, _ = c.sendOrder(ctx, h, controllerOrder{Do: releaseAgent}) })
	c.conn.Close()
}

func (c *Controller) report(line string) {
	if c.plan.Report != nil {
		c.plan.Report(line)
	}
}

// sendOrder sends an order to an agent and returns the agent's answer.
func (c *Controller) sendOrder(ctx context.Context, to *leasedAgent, o controllerOrder) (orderAnswer, error) {
	o.Agent, o.Session, o.Run = to.Name, to.Session, c.run
	to.line.guard.Lock()
	to.line.number++
	o.Number = to.line.number
	message, err := signOrder(o, c.key)
	if err != nil {
		to.line.guard.Unlock()
		return orderAnswer{}, err
	}
	reply := c.answers.register(c.credentials, to.Name)
	defer reply.unregister()
	err = c.conn.PublishRequest(c.credentials.OrderSubject(to.Name), reply.inbox, message)
	to.line.guard.Unlock()
	if err != nil {
		return orderAnswer{}, fmt.Errorf("%s: send an order: %w", to.Name, err)
	}
	waiting, cancel := context.WithTimeout(ctx, c.plan.Lease+maxStopTime(o.Do))
	defer cancel()
	data, err := reply.awaitAnswer(waiting)
	if err != nil {
		c.loseIfGone(to, err)
		return orderAnswer{}, fmt.Errorf("%s did not answer the order %q: %w", to.Name, o.Do, explainNoAnswer(err))
	}
	to.markHeard()
	var a orderAnswer
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%s: read the agent's answer: %w", to.Name, err)
	}
	if a.Refused != "" {
		return a, &refusalError{fmt.Sprintf("the agent %s refused the order: %s", to.Name, a.Refused), a.Busy}
	}
	return a, nil
}

// errBusy matches the refusal of an agent that is leased to another run.
var errBusy = errors.New("the agent works for another run")

// A refusalError is the error for an order that an agent refused.
type refusalError struct {
	text string
	busy bool
}

func (r *refusalError) Error() string { return r.text }

// Is reports whether target is errBusy, and the agent is leased to another run.
func (r *refusalError) Is(target error) bool { return r.busy && target == errBusy }

// maxStopTime returns how much longer the answer to an order may take: stopping waits for a worker.
func maxStopTime(do orderVerb) time.Duration {
	if do == stopVerb {
		return 6 * time.Second
	}
	return 0
}

// renewLeases renews all leases until ctx ends. It drops agents that are silent for too long.
func (c *Controller) renewLeases(ctx context.Context) {
	ticker := time.NewTicker(lostCheckPeriod)
	defer ticker.Stop()
	for last := (time.Time{}); ; {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		c.guard.Lock()
		all := slices.Collect(maps.Values(c.held))
		c.guard.Unlock()
		renews := time.Since(last) >= leaseRenewPeriod
		if renews {
			last = time.Now()
		}
		for _, h := range all {
			if silent := h.silentFor(); silent >= c.plan.Lease {
				c.giveUpAgent(h, fmt.Errorf("the agent %s was silent for %v", h.Name, silent.Round(100*time.Millisecond)))
			} else if renews {
				c.renewing.Go(func() { c.renewLease(ctx, h) })
			}
		}
	}
}

// renewLease renews an agent's lease. If the agent refuses, the controller drops the agent.
func (c *Controller) renewLease(ctx context.Context, h *leasedAgent) {
	asking, cancel := context.WithTimeout(ctx, c.plan.Lease)
	defer cancel()
	a, err := c.sendOrder(asking, h, controllerOrder{Do: renewAgent, LeaseNS: int64(c.plan.Lease)})
	if a.Refused != "" {
		c.giveUpAgent(h, err)
	}
	h.setUse(a.Use)
}

// loseIfGone drops an agent if err says that the hub does not know the agent.
func (c *Controller) loseIfGone(h *leasedAgent, err error) {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errAgentGone) {
		c.giveUpAgent(h, fmt.Errorf("%s: %w", h.Name, errAgentGone))
	}
}

// giveUpAgent drops an agent. It marks the agent's workers as failed.
func (c *Controller) giveUpAgent(h *leasedAgent, why error) {
	c.guard.Lock()
	if h == nil || c.held[h.Name] != h {
		c.guard.Unlock()
		return
	}
	delete(c.held, h.Name)
	_ = h.hears.Unsubscribe() // fails only if the connection is closed
	var ends []*remoteWorker
	for _, end := range c.ends {
		if end.on == h {
			ends = append(ends, end)
		}
	}
	c.guard.Unlock()
	c.report(fmt.Sprintf("an agent was lost: %v", why))
	for _, end := range ends {
		end.failWorker(fmt.Errorf("the agent was lost: %w", why))
	}
}

// compareClock compares an agent's clock with this machine's clock. If the agent has left the
// fleet, the controller drops the agent.
func (c *Controller) compareClock(ctx context.Context, h *leasedAgent) (clockComparison, error) {
	found, err := compareAgentClock(ctx, c.conn, c.credentials, h.Name)
	if err != nil {
		c.loseIfGone(h, err)
	}
	return found, err
}

// setOffsets gives the results of compareClocks to all workers of the agents.
func (c *Controller) setOffsets(found map[string]clockComparison) {
	c.guard.Lock()
	defer c.guard.Unlock()
	for _, end := range c.ends {
		if now, compared := found[end.on.Name]; compared {
			end.offsetNS.Store(now.offsetNS)
		}
	}
}

// compareClocks compares the clocks of several agents with this machine's clock.
func (c *Controller) compareClocks(ctx context.Context, agents []*leasedAgent) (map[string]clockComparison, error) {
	all, errs := make([]clockComparison, len(agents)), make([]error, len(agents))
	forEach(agents, maxClockComparisons, func(i int, h *leasedAgent) { all[i], errs[i] = c.compareClock(ctx, h) })
	found := map[string]clockComparison{}
	for i, h := range agents {
		found[h.Name] = all[i]
	}
	return found, cmp.Or(errs...)
}
