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
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/system"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// AgentOptions configures an agent. A controller's orders cannot change these options.
type AgentOptions struct {
	Name     string
	Labels   map[string]string
	Programs []Program      // programs that the agent may start; the first is wirelab's own worker
	Dial     []netip.Prefix // ranges of addresses that clients may dial
	Listen   netip.Addr     // the address at which servers listen
	Port     int            // the port at which servers listen; 0 means any
	CPUs     []int          // CPUs for workers; empty means all
	Nice     int
	Probes   []string // probes that orders may ask for; they observe the agent's own workers only
	Spool    string   // directory for workers' samples until the controller fetches them
	// Identities is the directory for the agent's own credentials, after it has joined with a token.
	Identities string
	Log        io.Writer // gets a line for each refused order and each important event
	Version    string

	// start starts a worker; nil means worker.Start. A test uses start to simulate 1,000 agents.
	start func(worker.Launch) (workerProcess, error)
}

func (o *AgentOptions) launchWorker(l worker.Launch) (workerProcess, error) {
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
	// cardRenewPeriod is the time between two renewals of the card. It is long, since each renewal
	// sends a kilobyte; but a card must be renewed twice before it can expire.
	cardRenewPeriod = 4 * time.Second
	// maxLease is the longest lease that a controller may ask for.
	maxLease = time.Minute
	// maxWorkersPerAgent bounds the number of workers that run on an agent at the same time.
	maxWorkersPerAgent = 32
)

// agent executes the orders of a fleet's controllers.
type agent struct {
	AgentOptions
	credentials *protocol.Credentials
	conn        *nats.Conn
	leave       context.CancelCauseFunc // ends the agent
	got         receipts
	allowed     agentPermissions
	card        protocol.Card
	door        *orderChecker // checks orders; only the goroutine that handles orders uses it
	spool       string        // the agent's own folder inside Spool
	meter       cpuMeter

	guard   sync.Mutex // guards the fields below
	holder  string     // the run that has leased the agent; empty means that the agent is free
	leaves  bool       // true when the agent is ending and accepts no new lease
	expiry  *time.Timer
	terms   int // number of times that a lease was granted or renewed
	workers map[string]*hostedWorker
	turns   *turnsSentinel // of the last workers that took turns; nil before the first ones
	running sync.WaitGroup
}

// RunAgent runs an agent until ctx ends. The agent's workers end with the agent.
func RunAgent(ctx context.Context, credentials *protocol.Credentials, o AgentOptions) error {
	a := &agent{AgentOptions: o, workers: map[string]*hostedWorker{}}
	var err error
	if a.credentials, a.conn, err = connectAgent(ctx, credentials, &o, a.report); err != nil {
		return err
	}
	defer a.conn.Close()
	if err := a.setIdentity(); err != nil {
		return err
	}
	ctx, a.leave = context.WithCancelCause(ctx)
	defer a.leave(nil)
	a.conn.SetClosedHandler(func(*nats.Conn) { a.leave(errShutOut) })
	release, err := a.clearSpool()
	if err != nil {
		return err
	}
	defer release()
	if err := a.subscribe(); err != nil {
		return err
	}
	a.sendCard()
	a.report(fmt.Sprintf("agent %s is in the fleet %s: its clients dial %s, its servers listen on %s, its programs are %s", a.Name, a.credentials.Project, joinRanges(a.Dial), a.Listen, a.allowed.describePrograms()))
	a.renewCard(ctx)
	a.endWorkers()
	if err := context.Cause(ctx); errors.Is(err, errShutOut) || errors.Is(err, errNameTaken) {
		return err // the card is another agent's now
	}
	a.card.Left = true
	a.sendCard()
	_ = a.conn.FlushTimeout(time.Second) // if this fails, the card expires later
	return nil
}

// setIdentity sets the agent's permissions, its session identifier and its card.
func (a *agent) setIdentity() error {
	if err := protocol.CheckName(a.Name); err != nil {
		return err
	}
	a.allowed = agentPermissions{programs: map[string]Program{}, ranges: a.Dial, listen: a.Listen, probes: a.Probes}
	told := map[string]string{}
	for _, p := range a.Programs {
		hash, err := FileHash(p.Command[0])
		if err != nil {
			return fmt.Errorf("program %s: %w", p.Name, err)
		}
		a.allowed.programs[hash], told[p.Name] = p, hash
	}
	session := nuid.Next()
	var err error
	if a.door, err = newOrderChecker(a.Name, session, a.credentials.OrdersKey); err != nil {
		return err
	}
	a.card = newCard(&a.AgentOptions)
	a.card.Session, a.card.Programs = session, told
	return nil
}

// clearSpool makes the spool folder, and removes files of an earlier agent with the same name. It locks
// the folder until release is called: another process may be this agent, too.
func (a *agent) clearSpool() (release func(), err error) {
	a.spool = filepath.Join(a.Spool, a.credentials.Project+"."+a.Name)
	if err := os.MkdirAll(a.Spool, 0o700); err != nil {
		return nil, fmt.Errorf("prepare the spool folder: %w", err)
	}
	lock, err := os.OpenFile(a.spool+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the spool folder: %w", err)
	}
	release = func() { _ = lock.Close() } // which ends the lock
	switch err := system.Lock(lock); {
	case errors.Is(err, system.ErrLocked):
		release()
		return nil, fmt.Errorf("%w: %s, on this machine: end that one, or give this agent another --name", errNameTaken, a.Name)
	case err != nil:
		release()
		return nil, fmt.Errorf("lock the spool folder: %w", err)
	}
	if err := errors.Join(os.RemoveAll(a.spool), os.MkdirAll(a.spool, 0o700)); err != nil {
		release()
		return nil, fmt.Errorf("prepare the spool folder: %w", err)
	}
	return release, nil
}

// endWorkers ends all workers and refuses new leases. It waits for the workers' last messages.
func (a *agent) endWorkers() {
	a.guard.Lock()
	a.leaves = true
	a.guard.Unlock()
	a.freeAgent("", "the agent is ending")
	a.running.Wait()
	_ = os.Remove(a.spool) // the folder is empty now, so Remove works
}

// renewCard renews the agent's card until ctx ends.
func (a *agent) renewCard(ctx context.Context) {
	ticker := time.NewTicker(cardRenewPeriod)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.sendCard()
		}
	}
}

func (a *agent) sendCard() {
	a.guard.Lock()
	card := a.card
	card.Busy = a.holder
	a.guard.Unlock()
	if err := protocol.PutCard(a.conn, a.credentials.CardSubject(a.Name), card); err != nil {
		a.report(err.Error()) // the next renewal tries again
	}
}

// subscribe starts to receive orders and questions for the agent's clock.
func (a *agent) subscribe() error {
	for subject, handle := range map[string]nats.MsgHandler{
		a.credentials.ClockSubject(a.Name): answerClock, a.credentials.OrderSubject(a.Name): a.handleOrder,
		a.credentials.GotSubject(a.Name): a.got.handle, a.credentials.CardSubject(a.Name): a.handleCard,
	} {
		if _, err := a.conn.Subscribe(subject, handle); err != nil {
			return err
		}
	}
	return a.conn.Flush()
}

// answerClock answers a question for the agent's clock with the current instants.
func answerClock(m *nats.Msg) {
	came := clock.Now()
	reply, err := json.Marshal(clockReply{CameNS: came, WentNS: clock.Now(), WallNS: time.Now().UnixNano()})
	if err == nil {
		_ = m.Respond(reply) // if this fails, the controller asks again
	}
}

// handleOrder checks and executes an order. If it refuses the order, its answer says why.
func (a *agent) handleOrder(m *nats.Msg) {
	o, err := a.door.checkOrder(m.Data)
	if err != nil {
		a.refuseOrder(m, "an order was refused: "+err.Error())
		return
	}
	// Ending a worker takes a while. Other orders must not wait for it.
	if o.Do == stopVerb || o.Do == killVerb {
		go func() { a.sendAnswer(m, a.executeOrder(o)) }()
		return
	}
	a.sendAnswer(m, a.executeOrder(o))
}

func (a *agent) refuseOrder(m *nats.Msg, why string) {
	a.report(why)
	a.sendAnswer(m, orderAnswer{Refused: why})
}

func (a *agent) sendAnswer(m *nats.Msg, with orderAnswer) {
	if m.Reply == "" {
		return
	}
	reply, err := json.Marshal(with)
	if err == nil {
		_ = m.Respond(reply) // if the answer is lost, the lease expires and the run's workers end
	}
}

// executeOrder executes an order that has passed all checks.
func (a *agent) executeOrder(o *controllerOrder) orderAnswer {
	if o.Do == claimAgent {
		return a.grantLease(o)
	}
	a.guard.Lock()
	holds := a.holder == o.Run
	a.guard.Unlock()
	if !holds {
		return orderAnswer{Refused: fmt.Sprintf("the agent %s is not leased to this run: the lease has ended, or was never granted", a.Name)}
	}
	var err error
	switch o.Do {
	case renewAgent:
		answer := a.grantLease(o)
		answer.Use = a.readUse()
		return answer
	case releaseAgent:
		a.freeAgent(o.Run, "the run released the agent")
	case startVerb:
		if err = a.startWorker(o); err != nil {
			a.report("a worker was refused: " + err.Error())
		}
	case tellVerb, stopVerb, killVerb:
		err = a.controlWorker(o)
	default:
		err = fmt.Errorf("the agent %s does not know the order %q: this agent has wirelab %s; use the same version on all machines", a.Name, o.Do, a.Version)
	}
	if err != nil {
		return orderAnswer{Refused: err.Error()}
	}
	return orderAnswer{}
}

// readUse returns the CPU time that the agent's machine used since the last call. The caller must not
// hold the agent's lock.
func (a *agent) readUse() *cpuUse {
	if a.AgentOptions.start != nil {
		return nil // its workers are not processes
	}
	var workers []int
	others := []int{os.Getpid()}
	a.guard.Lock()
	for _, w := range a.workers {
		if !w.hasEnded() {
			workers = append(workers, w.process.PID())
			others = append(others, w.watch.sentinel.PIDs()...)
		}
	}
	a.guard.Unlock()
	return a.meter.read(a.card.CPUs, workers, others)
}

// grantLease leases the agent to a run, or extends the lease of the run that has the agent.
func (a *agent) grantLease(o *controllerOrder) orderAnswer {
	lease := time.Duration(o.LeaseNS)
	if lease <= 0 || lease > maxLease {
		return orderAnswer{Refused: fmt.Sprintf("the order asks for a lease of %v: want more than 0 and at most %v", lease, maxLease)}
	}
	a.guard.Lock()
	defer a.guard.Unlock()
	switch {
	case a.leaves:
		return orderAnswer{Refused: fmt.Sprintf("the agent %s is ending", a.Name)}
	case a.holder == holderEnding:
		return orderAnswer{Busy: true, Refused: fmt.Sprintf("the agent %s is still ending the workers of an earlier run", a.Name)}
	case a.holder != "" && a.holder != o.Run:
		return orderAnswer{Busy: true, Refused: fmt.Sprintf("the agent %s works for another run, %s", a.Name, a.holder)}
	}
	a.holder = o.Run
	if a.expiry != nil {
		a.expiry.Stop()
	}
	a.terms++
	term := a.terms
	a.expiry = time.AfterFunc(lease, func() { a.expireLease(o.Run, term, lease) })
	return orderAnswer{}
}

// expireLease ends the workers of a run if its lease was not renewed in time. If the lease was
// renewed after all, it does nothing.
func (a *agent) expireLease(run string, term int, lease time.Duration) {
	a.guard.Lock()
	renewed := a.terms != term
	a.guard.Unlock()
	if !renewed {
		a.freeAgent(run, fmt.Sprintf("the controller was silent for %v", lease))
	}
}

// holderEnding is the value of holder while the agent kills workers. No run has this name.
const holderEnding = "-"

// freeAgent kills all workers of a run and then ends the run's lease. If run is empty, it does so
// for the run that has leased the agent.
func (a *agent) freeAgent(run, why string) {
	a.guard.Lock()
	if a.holder == "" || a.holder == holderEnding || run != "" && a.holder != run {
		a.guard.Unlock()
		return
	}
	workers := a.workers
	a.workers, a.holder = map[string]*hostedWorker{}, holderEnding
	a.expiry.Stop()
	a.guard.Unlock()
	if a.killAll(workers) > 0 {
		a.report("workers were killed: " + why)
	}
	a.guard.Lock()
	a.holder = ""
	a.guard.Unlock()
}

// killAll kills the workers that still run. It returns the number of killed workers.
func (a *agent) killAll(workers map[string]*hostedWorker) (killed int) {
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

// findWorker returns the worker with this name, of the run that has leased the agent.
func (a *agent) findWorker(name string) (*hostedWorker, error) {
	a.guard.Lock()
	defer a.guard.Unlock()
	if w := a.workers[name]; w != nil {
		return w, nil
	}
	return nil, fmt.Errorf("the agent %s has no worker %q", a.Name, name)
}

// controlWorker executes an order to end a worker or to send a control to a worker.
func (a *agent) controlWorker(o *controllerOrder) error {
	w, err := a.findWorker(o.Worker)
	if err != nil {
		return err
	}
	switch o.Do {
	case tellVerb:
		if err := checkControl(o.Tell); err != nil {
			return err
		}
		err := w.process.SendControl(*o.Tell)
		if err == nil && o.Tell.Control == worker.SlicesControl {
			a.watchTurns(w, o.Tell.AtNS)
		}
		return err
	case stopVerb:
		w.guard.Lock()
		w.window = o.Window
		w.guard.Unlock()
		w.readCost()         // the cost can be read only while the process exists
		_ = w.process.Stop() // reportUntilEnd reports the worker's failure
	default:
		w.kill()
	}
	return nil
}

// report writes a line to the agent's log.
func (a *agent) report(line string) {
	fmt.Fprintf(a.Log, "%s %s\n", time.Now().UTC().Format("15:04:05.000"), line)
}
