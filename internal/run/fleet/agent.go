package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// AgentOptions configures an agent. Orders cannot change any of it.
type AgentOptions struct {
	Name     string
	Labels   map[string]string
	Programs []Program      // the first is wirelab's own worker
	Dial     []netip.Prefix // where clients may dial
	Listen   netip.Addr     // where servers listen
	Port     int            // of servers; 0: any
	CPUs     []int          // for workers; none: all
	Nice     int
	Spool    string    // directory for samples until they are fetched
	Log      io.Writer // one line for each refusal and each event that matters
	Version  string

	// start starts a worker; nil: worker.Start. A test simulates a thousand agents with it.
	start func(worker.Launch) (process, error)
}

func (o *AgentOptions) launch(l worker.Launch) (process, error) {
	if o.start != nil {
		return o.start(l)
	}
	started, err := worker.Start(l)
	if err != nil {
		return nil, err
	}
	return started, nil
}

const (
	// cardEvery is the time between two renewals of the card: two renewals within its life,
	// since each renewal takes a kilobyte.
	cardEvery = 4 * time.Second
	// longestLease bounds what a controller may ask for.
	longestLease = time.Minute
	// mostWorkers bounds what one agent runs at a time.
	mostWorkers = 8
)

// agent obeys one fleet's controller.
type agent struct {
	AgentOptions
	credentials *protocol.Credentials
	conn        *nats.Conn
	stream      jetstream.JetStream
	allowed     allowance
	card        protocol.Card
	door        *doorkeeper // used by one goroutine, that of the orders
	spool       string      // the agent's own folder in Spool

	guard   sync.Mutex // guards the fields below
	holder  string     // the run that has the agent; empty: none
	leaves  bool       // it takes no other run any more
	expiry  *time.Timer
	terms   int // leases given, renewed ones too
	workers map[string]*hosted
	running sync.WaitGroup
}

// RunAgent runs an agent until ctx ends. Its workers end with it.
func RunAgent(ctx context.Context, credentials *protocol.Credentials, o AgentOptions) error {
	a := &agent{AgentOptions: o, credentials: credentials, workers: map[string]*hosted{}}
	if err := a.prepare(); err != nil {
		return err
	}
	conn, err := protocol.Connect(ctx, credentials, o.Name, a.report)
	if err != nil {
		return err
	}
	defer conn.Close()
	a.conn = conn
	if a.stream, err = jetstream.New(conn); err != nil {
		return err
	}
	cards, err := a.stream.KeyValue(ctx, credentials.AgentsBucket())
	if err != nil {
		return fmt.Errorf("the fleet's list of agents: %w", err)
	}
	if err := a.introduce(ctx, cards); err != nil {
		return err
	}
	if err := a.clearSpool(); err != nil {
		return err
	}
	if err := a.subscribe(); err != nil {
		return err
	}
	a.report(fmt.Sprintf("%s is in the fleet %s: dials %s, listens on %s, starts %s", a.Name, credentials.Project, rangesInWords(a.Dial), a.Listen, a.allowed.known()))
	a.renewCard(ctx, cards)
	a.leave()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = cards.Delete(leaving, a.Name) // its life ends by itself
	return nil
}

// prepare determines what the agent allows, and its identity.
func (a *agent) prepare() error {
	if err := protocol.CheckName(a.Name); err != nil {
		return err
	}
	a.allowed = allowance{programs: map[string]Program{}, ranges: a.Dial, listen: a.Listen}
	told := map[string]string{}
	for _, p := range a.Programs {
		hash, err := HashOf(p.Command[0])
		if err != nil {
			return fmt.Errorf("program %s: %w", p.Name, err)
		}
		a.allowed.programs[hash], told[p.Name] = p, hash
	}
	session := nuid.Next()
	var err error
	if a.door, err = newDoorkeeper(a.Name, session, a.credentials.OrdersKey); err != nil {
		return err
	}
	a.card = describe(&a.AgentOptions)
	a.card.Session, a.card.Programs = session, told
	return nil
}

// clearSpool makes the agent's spool, and removes files that a killed agent of the same name
// left there.
func (a *agent) clearSpool() error {
	a.spool = filepath.Join(a.Spool, a.credentials.Project+"."+a.Name)
	if err := errors.Join(os.RemoveAll(a.spool), os.MkdirAll(a.spool, 0o700)); err != nil {
		return fmt.Errorf("the spool: %w", err)
	}
	return nil
}

// leave ends all workers, and takes no others. Their last messages are sent for a moment more, but
// without its hub the agent ends, too.
func (a *agent) leave() {
	a.guard.Lock()
	a.leaves = true
	a.guard.Unlock()
	a.letGo("", "the agent ends")
	a.running.Wait()
	_ = os.Remove(a.spool) // it is empty now
}

// errNameTaken is wrapped by the error of an agent whose name another agent has.
var errNameTaken = errors.New("another agent has this name")

// introduce puts the agent's card into the list, if no other agent of its name is there. A card
// that is not renewed was left by an agent that was killed.
func (a *agent) introduce(ctx context.Context, cards jetstream.KeyValue) error {
	other, err := cards.Get(ctx, a.Name)
	if err == nil {
		a.report("another agent's card has this name: waiting to see whether that agent still runs")
		select {
		case <-time.After(cardEvery + cardEvery/2):
		case <-ctx.Done():
			return nil
		}
		now, err := cards.Get(ctx, a.Name)
		if err == nil && now.Revision() != other.Revision() {
			var card protocol.Card
			_ = json.Unmarshal(now.Value(), &card) // the card is there, whatever its content
			return fmt.Errorf("%w: %s, on %s: give it another by --name", errNameTaken, a.Name, card.Machine)
		}
	}
	return protocol.PutCard(ctx, cards, a.card)
}

// renewCard keeps the card in the list, until ctx ends.
func (a *agent) renewCard(ctx context.Context, cards jetstream.KeyValue) {
	ticker := time.NewTicker(cardEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		a.guard.Lock()
		card := a.card
		card.Busy = a.holder
		a.guard.Unlock()
		putting, cancel := context.WithTimeout(ctx, cardEvery)
		_ = protocol.PutCard(putting, cards, card) // the hub may be away for a while
		cancel()
	}
}

// subscribe starts to answer questions for the clock, and to take orders.
func (a *agent) subscribe() error {
	if _, err := a.conn.Subscribe(a.credentials.ClockSubject(a.Name), tellClock); err != nil {
		return err
	}
	if _, err := a.conn.Subscribe(a.credentials.OrderSubject(a.Name), a.takeOrder); err != nil {
		return err
	}
	return a.conn.Flush()
}

// tellClock answers one exchange of instants.
func tellClock(m *nats.Msg) {
	came := clock.Now()
	reply, err := json.Marshal(instants{CameNS: came, WentNS: clock.Now(), WallNS: time.Now().UnixNano()})
	if err == nil {
		_ = m.Respond(reply) // the controller will ask again
	}
}

// takeOrder obeys an order, or answers why not.
func (a *agent) takeOrder(m *nats.Msg) {
	o, err := a.door.open(m.Data)
	if err != nil {
		a.refuse(m, "an order was refused: "+err.Error())
		return
	}
	if o.Do == stop || o.Do == kill { // takes a while, and must not delay other orders
		go func() { a.answer(m, a.obey(o)) }()
		return
	}
	a.answer(m, a.obey(o))
}

func (a *agent) refuse(m *nats.Msg, why string) {
	a.report(why)
	a.answer(m, answer{Refused: why})
}

func (a *agent) answer(m *nats.Msg, with answer) {
	if m.Reply == "" {
		return
	}
	reply, err := json.Marshal(with)
	if err == nil {
		_ = m.Respond(reply) // without an answer, the lease ends the run's workers
	}
}

// obey carries out an order.
func (a *agent) obey(o *order) answer {
	if o.Do == claim {
		return a.takeLease(o)
	}
	a.guard.Lock()
	holds := a.holder == o.Run
	a.guard.Unlock()
	if !holds {
		return answer{Refused: fmt.Sprintf("%s does not belong to this run: its lease has ended, or was never given", a.Name)}
	}
	var err error
	switch o.Do {
	case renew:
		return a.takeLease(o)
	case release:
		a.letGo(o.Run, "the run let go of the agent")
	case start:
		if err = a.start(o); err != nil {
			a.report("a worker was refused: " + err.Error())
		}
	case tell, stop, kill:
		err = a.direct(o)
	default:
		err = fmt.Errorf("%s does not know the order %q: it has the version %s", a.Name, o.Do, a.Version)
	}
	if err != nil {
		return answer{Refused: err.Error()}
	}
	return answer{}
}

// takeLease leases the agent to a run for a time, or extends the run's lease.
func (a *agent) takeLease(o *order) answer {
	lease := time.Duration(o.LeaseNS)
	if lease <= 0 || lease > longestLease {
		return answer{Refused: fmt.Sprintf("a lease of %v: want at most %v", lease, longestLease)}
	}
	a.guard.Lock()
	defer a.guard.Unlock()
	switch {
	case a.leaves:
		return answer{Refused: fmt.Sprintf("%s is about to end", a.Name)}
	case a.holder == ending:
		return answer{Busy: true, Refused: fmt.Sprintf("%s is still ending the workers of an earlier run", a.Name)}
	case a.holder != "" && a.holder != o.Run:
		return answer{Busy: true, Refused: fmt.Sprintf("%s works for another run, %s", a.Name, a.holder)}
	}
	a.holder = o.Run
	if a.expiry != nil {
		a.expiry.Stop()
	}
	a.terms++
	term := a.terms
	a.expiry = time.AfterFunc(lease, func() { a.expire(o.Run, term, lease) })
	return answer{}
}

// expire ends the workers of a run whose controller is silent, unless the lease was renewed at
// the last moment.
func (a *agent) expire(run string, term int, lease time.Duration) {
	a.guard.Lock()
	renewed := a.terms != term
	a.guard.Unlock()
	if !renewed {
		a.letGo(run, fmt.Sprintf("the controller was silent for %v", lease))
	}
}

// ending holds an agent whose workers are being killed.
const ending = "-"

// letGo kills all workers of a run, and then frees the agent. An empty run stands for the run that
// has the agent.
func (a *agent) letGo(run, why string) {
	a.guard.Lock()
	if a.holder == "" || a.holder == ending || run != "" && a.holder != run {
		a.guard.Unlock()
		return
	}
	workers := a.workers
	a.workers, a.holder = map[string]*hosted{}, ending
	a.expiry.Stop()
	a.guard.Unlock()
	if a.killAll(workers) > 0 {
		a.report("workers were killed: " + why)
	}
	a.guard.Lock()
	a.holder = ""
	a.guard.Unlock()
}

// killAll kills the workers that have not ended, and returns how many.
func (a *agent) killAll(workers map[string]*hosted) (killed int) {
	var killing sync.WaitGroup
	for _, w := range workers {
		if !w.hasEnded() {
			killed++
			killing.Go(w.kill)
		}
	}
	killing.Wait()
	return killed
}

// find returns a worker of the agent's run.
func (a *agent) find(name string) (*hosted, error) {
	a.guard.Lock()
	defer a.guard.Unlock()
	if w := a.workers[name]; w != nil {
		return w, nil
	}
	return nil, fmt.Errorf("%s has no worker %q", a.Name, name)
}

// direct sends a control to a worker, or ends the worker.
func (a *agent) direct(o *order) error {
	w, err := a.find(o.Worker)
	if err != nil {
		return err
	}
	switch o.Do {
	case tell:
		if o.Tell == nil {
			return errors.New("the order has no control for the worker")
		}
		return w.process.Tell(*o.Tell)
	case stop:
		w.cost()             // reads the cost while the process exists
		_ = w.process.Stop() // its failure is reported when it has ended
	default:
		w.kill()
	}
	return nil
}

// report writes a line of the agent's log.
func (a *agent) report(line string) {
	fmt.Fprintf(a.Log, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), line)
}
