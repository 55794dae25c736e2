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
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/run/fleet/protocol"
)

const (
	// lease is the usual lease.
	lease = 5 * time.Second
	// renewEvery is the time between two renewals of the lease: an order to renew and its answer
	// take 500 bytes.
	renewEvery = 2 * time.Second
	// noticeEvery is the time between two checks for lost agents.
	noticeEvery = 250 * time.Millisecond
	// returnPatience limits the wait for missing agents before a trial.
	returnPatience = 30 * time.Second
)

// Plan says which agents a controller wants.
type Plan struct {
	Server *protocol.Selector // nil: the server is given
	Client protocol.Selector
	Worker string // wirelab's own program, which agents must have, too
	// Lease is the time that an agent goes on without a message of its controller, and the time
	// that the controller waits for a silent agent. 0: the usual lease.
	Lease time.Duration
	// Report, if not nil, gets one line for each event that matters to a person.
	Report func(line string)
}

// Controller runs the ends of trials on a fleet's agents. Close must be called.
type Controller struct {
	plan        Plan
	credentials *protocol.Credentials
	conn        *nats.Conn
	stream      jetstream.JetStream
	cards       jetstream.KeyValue
	key         nkeys.KeyPair
	run         string // of this controller; agents belong to it
	kept        jetstream.ConsumeContext
	answers     *answers
	stopRenew   context.CancelFunc
	renewing    sync.WaitGroup

	guard sync.Mutex // guards the fields below
	held  map[string]*leasedAgent
	lines map[string]*line   // by sessions
	ends  map[string]*remote // by agent and worker
	names int                // the number of worker names given
}

// A leasedAgent is an agent that belongs to this controller.
type leasedAgent struct {
	protocol.Card
	line *line

	guard sync.Mutex
	heard time.Time
}

// silent returns the time since the agent was last heard.
func (h *leasedAgent) silent() time.Duration {
	h.guard.Lock()
	defer h.guard.Unlock()
	return time.Since(h.heard)
}

// A line carries orders to one session of an agent, even if the agent was lost for a while.
type line struct {
	guard  sync.Mutex // one order at a time, so that orders arrive in order
	number uint64
}

func (h *leasedAgent) hear() {
	h.guard.Lock()
	defer h.guard.Unlock()
	h.heard = time.Now()
}

// NewController connects to the fleet as its controller.
func NewController(ctx context.Context, credentials *protocol.Credentials, plan Plan) (*Controller, error) {
	if len(credentials.OrdersSeed) == 0 {
		return nil, errors.New("these are an agent's credentials, which give no orders: use the controller's token (`wirelab fleet token --role controller`)")
	}
	plan.Lease = cmp.Or(plan.Lease, lease)
	key, err := nkeys.FromSeed(credentials.OrdersSeed)
	if err != nil {
		return nil, fmt.Errorf("the key that orders are signed with: %w", err)
	}
	c := &Controller{plan: plan, credentials: credentials, key: key, run: nuid.Next(), held: map[string]*leasedAgent{}, lines: map[string]*line{}, ends: map[string]*remote{}}
	if c.conn, err = protocol.Connect(ctx, credentials, "controller", c.report); err != nil {
		return nil, err
	}
	if err := c.listen(ctx); err != nil {
		c.conn.Close()
		return nil, err
	}
	renewing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c.stopRenew = cancel
	c.renewing.Go(func() { c.renewAll(renewing) })
	return c, nil
}

// listen receives the messages of agents about this controller's workers.
func (c *Controller) listen(ctx context.Context) (err error) {
	if c.stream, err = jetstream.New(c.conn); err != nil {
		return err
	}
	if c.cards, err = c.stream.KeyValue(ctx, c.credentials.AgentsBucket()); err != nil {
		return fmt.Errorf("the fleet's list of agents: %w", err)
	}
	if c.answers, err = hearAnswers(c.conn); err != nil {
		return err
	}
	live, err := c.conn.Subscribe(c.credentials.LiveSubject("*", c.run, "*"), func(m *nats.Msg) { c.hear(m.Subject, m.Data) })
	if err != nil {
		return err
	}
	if err := live.SetPendingLimits(1<<20, 256<<20); err != nil {
		return err
	}
	kept, err := c.stream.OrderedConsumer(ctx, c.credentials.KeptStream(), jetstream.OrderedConsumerConfig{
		FilterSubjects: []string{c.credentials.KeptSubject("*", c.run, "*")},
	})
	if err != nil {
		return fmt.Errorf("the fleet's stream of results: %w", err)
	}
	c.kept, err = kept.Consume(func(m jetstream.Msg) { c.hearKept(m.Subject(), m.Headers().Get(partHeader), m.Data()) })
	return err
}

// hear passes on a message that may be lost, from an agent about a worker.
func (c *Controller) hear(subject string, data []byte) {
	end := c.endOf(subject)
	if end == nil {
		return // of an earlier trial
	}
	if t, err := decodeWorkerEvent(data); err == nil {
		end.take(t)
	}
}

// hearKept passes on a message that must not be lost. A message that cannot be read fails its
// worker for the controller.
func (c *Controller) hearKept(subject, part string, data []byte) {
	end := c.endOf(subject)
	if end == nil {
		return
	}
	whole, done, err := end.parts.add(part, data)
	if err == nil && !done {
		return
	}
	var t workerEvent
	if err == nil {
		t, err = decodeWorkerEvent(whole)
	}
	if err != nil {
		end.fail(fmt.Errorf("%s: its message about a worker cannot be read: %w", end.on.Name, err))
		return
	}
	end.take(t)
}

// endOf returns the end that a subject is about, or nil if there is none. It notes that the agent
// was heard.
func (c *Controller) endOf(subject string) *remote {
	agent, name := workerOf(subject)
	c.guard.Lock()
	of, end := c.held[agent], c.ends[agent+"/"+name]
	c.guard.Unlock()
	if of != nil {
		of.hear()
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
	ctx, cancel := context.WithTimeout(context.Background(), renewEvery)
	defer cancel()
	held := slices.Collect(maps.Values(all))
	forEach(held, len(held), func(_ int, h *leasedAgent) { _, _ = c.send(ctx, h, order{Do: release}) }) // their leases end anyway
	if c.kept != nil {
		c.kept.Stop()
	}
	c.conn.Close()
}

func (c *Controller) report(line string) {
	if c.plan.Report != nil {
		c.plan.Report(line)
	}
}

// send gives an agent an order and returns its answer.
func (c *Controller) send(ctx context.Context, to *leasedAgent, o order) (answer, error) {
	o.Agent, o.Session, o.Run = to.Name, to.Session, c.run
	to.line.guard.Lock()
	to.line.number++
	o.Number = to.line.number
	message, err := sign(o, c.key)
	if err != nil {
		to.line.guard.Unlock()
		return answer{}, err
	}
	reply := c.answers.expect()
	defer reply.forget()
	err = c.conn.PublishRequest(c.credentials.OrderSubject(to.Name), reply.inbox, message)
	to.line.guard.Unlock()
	if err != nil {
		return answer{}, fmt.Errorf("%s: send an order: %w", to.Name, err)
	}
	waiting, cancel := context.WithTimeout(ctx, c.plan.Lease+stopTakes(o.Do))
	defer cancel()
	data, err := reply.await(waiting)
	if err != nil {
		c.notice(to, err)
		return answer{}, fmt.Errorf("%s did not answer the order %q: %w", to.Name, o.Do, sayNoAnswer(err))
	}
	to.hear()
	var a answer
	if err := json.Unmarshal(data, &a); err != nil {
		return a, fmt.Errorf("%s: its answer cannot be read: %w", to.Name, err)
	}
	if a.Refused != "" {
		return a, &refusal{fmt.Sprintf("%s refuses: %s", to.Name, a.Refused), a.Busy}
	}
	return a, nil
}

// errBusy matches a refusal by an agent that another run has.
var errBusy = errors.New("it works for another run")

// A refusal is an agent's answer that it does not obey an order.
type refusal struct {
	text string
	busy bool
}

func (r *refusal) Error() string { return r.text }

// Is reports whether the agent will obey when it is free.
func (r *refusal) Is(target error) bool { return r.busy && target == errBusy }

// stopTakes returns the time that a worker may take to end.
func stopTakes(do verb) time.Duration {
	if do == stop {
		return 6 * time.Second
	}
	return 0
}

// renewAll keeps the leases, and finds lost agents.
func (c *Controller) renewAll(ctx context.Context) {
	ticker := time.NewTicker(noticeEvery)
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
		renews := time.Since(last) >= renewEvery
		if renews {
			last = time.Now()
		}
		for _, h := range all {
			if silent := h.silent(); silent >= c.plan.Lease {
				c.lose(h, fmt.Errorf("%s was silent for %v", h.Name, silent.Round(100*time.Millisecond)))
			} else if renews {
				c.renewing.Go(func() { c.renewOne(ctx, h) })
			}
		}
	}
}

// renewOne renews an agent's lease. An agent that refuses, or is silent for as long as its lease,
// is lost, and its workers end by themselves. A late answer counts, too.
func (c *Controller) renewOne(ctx context.Context, h *leasedAgent) {
	asking, cancel := context.WithTimeout(ctx, c.plan.Lease)
	defer cancel()
	if a, err := c.send(asking, h, order{Do: renew, LeaseNS: int64(c.plan.Lease)}); a.Refused != "" {
		c.lose(h, err)
	}
}

// notice gives up an agent if the error says that the hub has no such agent.
func (c *Controller) notice(h *leasedAgent, err error) {
	if errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errGone) {
		c.lose(h, fmt.Errorf("%s: %w", h.Name, errGone))
	}
}

// workerOf returns the agent and the worker of a subject: wl.P.from.A.live.RUN.W.
func workerOf(subject string) (agent, name string) {
	parts := strings.Split(subject, ".")
	if len(parts) != 7 {
		return "", ""
	}
	return parts[3], parts[6]
}

// lose gives up an agent, and fails the workers that ran on it.
func (c *Controller) lose(h *leasedAgent, why error) {
	c.guard.Lock()
	if c.held[h.Name] != h {
		c.guard.Unlock()
		return
	}
	delete(c.held, h.Name)
	var ends []*remote
	for _, end := range c.ends {
		if end.on == h {
			ends = append(ends, end)
		}
	}
	c.guard.Unlock()
	c.report(fmt.Sprintf("agent lost: %v", why))
	for _, end := range ends {
		end.fail(fmt.Errorf("the agent was lost: %w", why))
	}
}

// compareClock compares an agent's clock with this machine's, and gives up an agent that is gone.
func (c *Controller) compareClock(ctx context.Context, h *leasedAgent) (comparison, error) {
	found, err := compareWith(ctx, c.conn, c.credentials, h.Name)
	if err != nil {
		c.notice(h, err)
	}
	return found, err
}

// compareClocks compares the clocks of some agents, a few at a time.
func (c *Controller) compareClocks(ctx context.Context, agents []*leasedAgent) (map[string]comparison, error) {
	all, errs := make([]comparison, len(agents)), make([]error, len(agents))
	forEach(agents, askedAtOnce, func(i int, h *leasedAgent) { all[i], errs[i] = c.compareClock(ctx, h) })
	found := map[string]comparison{}
	for i, h := range agents {
		found[h.Name] = all[i]
	}
	return found, cmp.Or(errs...)
}
