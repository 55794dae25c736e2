package fleet

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nkeys"
	"github.com/nats-io/nuid"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// lines is a log that is read while it is written.
type lines struct {
	guard sync.Mutex
	text  bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.text.String()
}

// besieged is an agent in a fleet, and what an attacker needs who is in the network.
type besieged struct {
	t       *testing.T
	hub     *hub.Hub
	log     *lines
	conn    *nats.Conn // with all that a controller may do at the hub
	key     nkeys.KeyPair
	session string
	own     string // the hash of the agent's own program
	number  uint64
	spool   string
	end     func() // ends the agent and waits for it
}

func besiege(t *testing.T, instead ...func(worker.Launch) (workerProcess, error)) *besieged {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	hub, err := hub.StartHub(ctx, hub.HubOptions{Project: "mine", Listen: "127.0.0.1:0", StateDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = hub.Close() })
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b := &besieged{t: t, hub: hub, log: &lines{}, spool: t.TempDir()}
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	var start func(worker.Launch) (workerProcess, error)
	if len(instead) > 0 {
		start = instead[0]
	}
	own, err := hub.Agent(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	go func() { // ends with its context
		ended <- RunAgent(running, own, AgentOptions{
			Name: "a", Programs: []Program{{Name: "wirelab", Command: []string{program, "worker"}}},
			Dial: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Listen: netip.MustParseAddr("127.0.0.1"),
			Spool: b.spool, Log: b.log, Version: "test", start: start,
		})
	}()
	b.end = sync.OnceFunc(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.end)
	credentials := must(hub.Controller())
	if b.conn, err = protocol.Connect(ctx, credentials, "attacker", nil); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.conn.Close)
	if b.key, err = nkeys.FromSeed(credentials.OrdersSeed); err != nil {
		t.Fatal(err)
	}
	if b.own, err = FileHash(program); err != nil {
		t.Fatal(err)
	}
	b.session = b.waitForCard(ctx).Session
	return b
}

// waitForCard waits until the agent hears orders.
func (b *besieged) waitForCard(ctx context.Context) protocol.Card {
	c, err := NewController(ctx, must(b.hub.Controller()), Plan{})
	if err != nil {
		b.t.Fatal(err)
	}
	defer c.Close()
	for ctx.Err() == nil {
		cards, err := protocol.ReadCards(ctx, c.conn, "mine")
		if _, answers := c.compareClock(ctx, &leasedAgent{Card: protocol.Card{Name: "a"}}); err == nil && len(cards) == 1 && answers == nil {
			return cards[0]
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.t.Fatal("the agent did not come")
	return protocol.Card{}
}

// order makes an order of the run r.
func (b *besieged) order(do orderVerb, change func(*controllerOrder)) controllerOrder {
	b.number++
	o := controllerOrder{Agent: "a", Session: b.session, Run: "r", Number: b.number, Do: do, LeaseNS: int64(defaultLease)}
	if change != nil {
		change(&o)
	}
	return o
}

// send sends a message as if it were an order.
func (b *besieged) send(message []byte) orderAnswer {
	b.t.Helper()
	c := must(b.hub.Controller())
	answers, err := b.conn.SubscribeSync(c.AnswerSubject("a", nuid.Next()))
	if err != nil {
		b.t.Fatal(err)
	}
	if err := b.conn.PublishRequest(c.OrderSubject("a"), answers.Subject, message); err != nil {
		b.t.Fatal(err)
	}
	reply, err := answers.NextMsg(20 * time.Second)
	if err != nil {
		b.t.Fatalf("no answer to %.200q: %v", message, err)
	}
	var a orderAnswer
	if err := json.Unmarshal(reply.Data, &a); err != nil {
		b.t.Fatal(err)
	}
	return a
}

func (b *besieged) sendOrder(o controllerOrder) orderAnswer {
	b.t.Helper()
	return b.send(signed(b.t, o, b.key))
}

// expectRefusal fails the test unless an answer and the log say why.
func (b *besieged) expectRefusal(name string, a orderAnswer, why string) {
	b.t.Helper()
	if !strings.Contains(a.Refused, why) {
		b.t.Errorf("%s: the answer is %+v, want a refusal with %q", name, a, why)
	}
	if !strings.Contains(b.log.String(), why) {
		b.t.Errorf("%s: the log does not say %q:\n%s", name, why, b.log)
	}
}

// serverSpec returns a spec that an agent accepts.
func serverSpec() *worker.Spec {
	return &worker.Spec{Contract: worker.Contract, Role: worker.ServerRole, Stack: "tcp", Workload: worker.Workload{Name: "echo"}, Address: "127.0.0.1:0"}
}

// children counts the processes that this one has.
func children() int { return len(host.ReadProcessTable().Family(os.Getpid())) - 1 }

func TestStrangersOrdersAreRefused(t *testing.T) {
	b := besiege(t)
	before := children()
	if a := b.sendOrder(b.order(claimAgent, nil)); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	other, _ := newKey(t)
	start := func(change func(*controllerOrder)) controllerOrder {
		return b.order(startVerb, func(o *controllerOrder) {
			o.Worker, o.Program, o.Spec = "w", b.own, serverSpec()
			change(o)
		})
	}
	shell, err := FileHash("/bin/sh")
	if err != nil {
		t.Fatalf("there is no /bin/sh: %v", err)
	}
	b.expectRefusal("another project's key", b.send(signed(t, start(func(*controllerOrder) {}), other)), "not signed by this fleet's controller")
	b.expectRefusal("no order", b.send([]byte(`{"do":"start","program":"/bin/sh"}`)), "the message is not a signed order")
	b.expectRefusal("an earlier session", b.sendOrder(start(func(o *controllerOrder) { o.Session = "old" })), "an earlier session")
	b.expectRefusal("another agent", b.sendOrder(start(func(o *controllerOrder) { o.Agent = "b" })), `for the agent "b"`)
	b.expectRefusal("a shell, by its hash", b.sendOrder(start(func(o *controllerOrder) { o.Program = shell })), "a program that this agent does not allow")
	b.expectRefusal("a shell, by its path", b.sendOrder(start(func(o *controllerOrder) { o.Program = "/bin/sh" })), "a program that this agent does not allow")
	b.expectRefusal("a server on all addresses", b.sendOrder(start(func(o *controllerOrder) { o.Spec.Address = "0.0.0.0:0" })), "servers listen on 127.0.0.1")
	b.expectRefusal("a client that dials away", b.sendOrder(start(func(o *controllerOrder) {
		o.Spec.Role, o.Spec.Address, o.Spec.Client = worker.ClientRole, "192.0.2.1:80", &worker.ClientSpec{Clients: 1}
	})), "dials 127.0.0.0/8 only")
	b.expectRefusal("a name that is a path", b.sendOrder(start(func(o *controllerOrder) { o.Worker = "../../x" })), "want 1 to 63 of a-z")
	if a := b.sendOrder(start(func(o *controllerOrder) { o.Run = "another"; o.Number = 1 })); !strings.Contains(a.Refused, "is not leased to this run") {
		t.Errorf("a run that does not hold the agent: %+v", a)
	}
	if now := children(); now != before {
		t.Errorf("%d processes were there before, and %d now", before, now)
	}
}

// An order that was obeyed is not obeyed again, as whoever heard it may wish.
func TestAReplayedOrderIsRefused(t *testing.T) {
	b := besiege(t)
	b.sendOrder(b.order(claimAgent, nil))
	heard := signed(t, b.order(startVerb, func(o *controllerOrder) { o.Worker, o.Program, o.Spec = "w", b.own, serverSpec() }), b.key)
	if a := b.send(heard); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	running := children()
	if a := b.sendOrder(b.order(claimAgent, func(o *controllerOrder) { o.Run = "another" })); !a.Busy {
		t.Errorf("an agent that has a run was given to another: %+v", a)
	}
	if a := b.sendOrder(b.order(killVerb, func(o *controllerOrder) { o.Worker = "w" })); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	b.expectRefusal("the same order", b.send(heard), "the order was sent before")
	if now := children(); now >= running {
		t.Errorf("%d processes ran with the worker, and %d run now", running, now)
	}
}

// A program that was replaced after the agent had begun is not the one whose hash it told.
func TestAReplacedProgramIsRefused(t *testing.T) {
	program := filepath.Join(t.TempDir(), "worker")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(program+".new", []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(program+".new", program); err != nil {
			t.Fatal(err)
		}
	}
	write("#!/bin/sh\nexit 1\n")
	hash, err := FileHash(program)
	if err != nil {
		t.Fatal(err)
	}
	a := &agent{holder: "r", workers: map[string]*hostedWorker{}, allowed: agentPermissions{
		programs: map[string]Program{hash: {Name: "worker", Command: []string{program}}}, listen: netip.MustParseAddr("127.0.0.1"),
	}}
	write("#!/bin/sh\necho something else\n")
	err = a.startWorker(&controllerOrder{Run: "r", Worker: "w", Program: hash, Spec: serverSpec()})
	if err == nil || !strings.Contains(err.Error(), "was replaced") {
		t.Errorf("%v: want a refusal", err)
	}
}

// Whatever is sent to an agent, it goes on.
func TestGarbageDoesNotStopAnAgent(t *testing.T) {
	b := besiege(t)
	b.sendOrder(b.order(claimAgent, nil))
	credentials := must(b.hub.Controller())
	huge := bytes.Repeat([]byte("x"), 1<<20)
	for _, garbage := range [][]byte{nil, {0}, []byte("{"), []byte(`{"order":{},"signature":"AAAA"}`), []byte(strings.Repeat("[", 100_000)), huge} {
		for _, subject := range []string{credentials.OrderSubject("a"), credentials.ClockSubject("a"), "wl.mine.to.a", "wl.mine.to.a.order.x", "wl.mine.from.a.kept.r.w", "wl.mine.from.a.live.r.w"} {
			if err := b.conn.Publish(subject, garbage); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, o := range []controllerOrder{
		b.order("dance", nil), b.order(tellVerb, nil), b.order(stopVerb, func(o *controllerOrder) { o.Worker = "w" }),
		b.order(claimAgent, func(o *controllerOrder) { o.LeaseNS = -1 }), b.order(renewAgent, func(o *controllerOrder) { o.LeaseNS = 1 << 62 }),
		b.order(startVerb, func(o *controllerOrder) { o.Worker, o.Program = "w", b.own }),
	} {
		if a := b.sendOrder(o); a.Refused == "" {
			t.Errorf("%q was obeyed", o.Do)
		}
	}
	if a := b.sendOrder(b.order(renewAgent, nil)); a.Refused != "" {
		t.Errorf("it does not obey any more: %s", a.Refused)
	}
}

// Workers end when nobody renews the lease, and the agent is free for another run.
func TestALeaseEnds(t *testing.T) {
	b := besiege(t)
	before := children()
	short := func(o *controllerOrder) { o.LeaseNS = int64(500 * time.Millisecond) }
	b.sendOrder(b.order(claimAgent, short))
	if a := b.sendOrder(b.order(startVerb, func(o *controllerOrder) { o.Worker, o.Program, o.Spec = "w", b.own, serverSpec() })); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	another := func() orderAnswer {
		return b.sendOrder(b.order(claimAgent, func(o *controllerOrder) { o.Run = "another" }))
	}
	for until := time.Now().Add(30 * time.Second); another().Refused != ""; time.Sleep(20 * time.Millisecond) {
		if time.Now().After(until) {
			t.Fatal("the agent is not free, long after its lease")
		}
	}
	if now := children(); now > before {
		t.Errorf("a worker outlived its lease: %d processes were there before, and %d now", before, now)
	}
	if !strings.Contains(b.log.String(), "the controller was silent for") {
		t.Errorf("the log does not say it:\n%s", b.log)
	}
}
