package fleet_test

import (
	"fmt"
	"math/rand/v2"
	"net"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/hub"
)

// besideSecond is a time of up to a second and a half, in which a trial of these tests is
// anywhere from its start to its end.
func atRandom(t *testing.T) time.Duration {
	wait := time.Duration(rand.Int64N(int64(1500 * time.Millisecond)))
	t.Logf("after %v", wait)
	return wait
}

// trials returns a scenario of n trials of about a second.
func trials(t *testing.T, n int) *scenario.Scenario {
	s := scene(t, "tcp", 4, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(500 * time.Millisecond)})
	s.Parts[0].Repeats = n
	return s
}

// A chaos is a fleet whose agents, and controller, are processes.
type chaos struct {
	t                 *testing.T
	hub               *hub.Hub
	agentToken, token string
	agents            map[string]*part
}

func newChaos(t *testing.T) *chaos {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	c := &chaos{t: t, hub: startHub(t, hub.HubOptions{}), agents: map[string]*part{}}
	c.agentToken, c.token = tokens(t, c.hub)
	return c
}

// join starts an agent.
func (c *chaos) join(name, labels string, urls ...string) *part {
	c.t.Helper()
	args := append([]string{"agent", c.agentToken, name, labels, "127.0.0.1", c.t.TempDir()}, urls...)
	c.agents[name] = play(c.t, host.StartOptions{}, args...)
	c.agents[name].says("is in the fleet")
	return c.agents[name]
}

// lab starts to measure.
func (c *chaos) lab(directory string, what labPlan) *part {
	c.t.Helper()
	return play(c.t, host.StartOptions{}, "lab", c.token, directory, planFile(c.t, what))
}

// expectWhole fails the test unless a run has all its trials, each with a measurement or with
// a failure that has one of the names.
func expectWhole(t *testing.T, records []record.Record, n int, names ...string) {
	t.Helper()
	seen, failed := map[int]bool{}, 0
	for _, r := range records {
		if seen[r.Trial] {
			t.Errorf("trial %d is there twice", r.Trial)
		}
		seen[r.Trial] = true
		if r.Failure == "" {
			if r.Requests == 0 || len(r.Fleet.Clients) == 0 {
				t.Errorf("trial %d: %d requests of %d clients", r.Trial, r.Requests, len(r.Fleet.Clients))
			}
			continue
		}
		failed++
		named := false
		for _, name := range names {
			named = named || strings.Contains(r.Failure, name)
		}
		if !named {
			t.Errorf("trial %d: %q names none of %q", r.Trial, r.Failure, names)
		}
	}
	if len(seen) != n || failed == n {
		t.Errorf("%d trials of %d; %d failed", len(seen), n, failed)
	}
}

// An agent that is killed ends its trial, which names it; when it is there again, the run goes on.
func TestAnAgentIsKilled(t *testing.T) {
	for _, victim := range []string{"c", "s"} {
		t.Run(victim, func(t *testing.T) {
			t.Parallel()
			c := newChaos(t)
			c.join("s", "role=server")
			c.join("c", "role=client")
			dir := filepath.Join(t.TempDir(), "run")
			run := c.lab(dir, labPlan{Scenario: trials(t, 5), Server: "role=server", Client: "role=client"})
			run.saysTimes("trial begins", 2)
			time.Sleep(atRandom(t))
			family := c.agents[victim].family()
			c.agents[victim].kill()
			expectGone(t, family)
			c.join(victim, "role="+map[string]string{"c": "client", "s": "server"}[victim])
			run.says("done")
			<-run.ended
			expectWhole(t, recordsIn(t, dir), 5, victim+":", victim+" ")
		})
	}
}

// When the controller is killed, agents end their workers by themselves, and the run goes on
// where it was.
func TestTheControllerIsKilled(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.join("s", "role=server")
	c.join("c", "role=client")
	dir := filepath.Join(t.TempDir(), "run")
	what := labPlan{Scenario: trials(t, 6), Server: "role=server", Client: "role=client"}
	run := c.lab(dir, what)
	run.saysTimes("trial begins", 3)
	time.Sleep(atRandom(t))
	workers := slices.Concat(c.agents["s"].family()[1:], c.agents["c"].family()[1:])
	run.kill()
	finished := recordsIn(t, dir)
	if len(finished) < 2 {
		t.Fatalf("%d trials had ended when the third began", len(finished))
	}
	expectGone(t, workers)
	again := c.lab(dir, what)
	again.says("done")
	<-again.ended
	records := recordsIn(t, dir)
	expectWhole(t, records, 6, "c:", "c ", "s:", "s ")
	for i, r := range finished {
		if !r.Started.Equal(records[i].Started) {
			t.Errorf("trial %d was measured again", r.Trial)
		}
	}
}

// An agent that is stopped, as one that hangs, is lost; when it goes on, its workers are gone.
func TestAnAgentHangs(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.join("s", "role=server")
	hangs := c.join("c", "role=client")
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: trials(t, 4), Server: "role=server", Client: "role=client"})
	run.saysTimes("trial begins", 2)
	time.Sleep(atRandom(t))
	workers := hangs.family()[1:]
	hangs.signal(syscall.SIGSTOP)
	run.says("an agent was lost: ") // because it is silent, or because the hub does not hear it
	hangs.signal(syscall.SIGCONT)
	expectGone(t, workers)
	run.says("done")
	<-run.ended
	expectWhole(t, recordsIn(t, dir), 4, "c:", "c ")
}

// proxy stands between an agent and its hub, and can hold back what goes either way.
type proxy struct {
	listener net.Listener
	to       string
	held     sync.RWMutex // is held while nothing passes
	passed   atomic.Int64 // bytes, both ways
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	p := &proxy{listener: listener, to: to}
	go func() { // ends with the listener
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			go p.join(near)
		}
	}()
	return p
}

func (p *proxy) url() string { return "nats://" + p.listener.Addr().String() }

func (p *proxy) join(near net.Conn) {
	p.held.RLock()
	p.held.RUnlock() //nolint:staticcheck // it waits until things pass
	far, err := net.Dial("tcp", p.to)
	if err != nil {
		_ = near.Close()
		return
	}
	pass := func(from, to net.Conn) {
		defer func() { _, _ = from.Close(), to.Close() }()
		buffer := make([]byte, 64<<10)
		for {
			n, err := from.Read(buffer)
			if err != nil {
				return
			}
			p.held.RLock()
			p.passed.Add(int64(n))
			_, err = to.Write(buffer[:n])
			p.held.RUnlock()
			if err != nil {
				return
			}
		}
	}
	go pass(near, far)
	go pass(far, near)
}

// An agent that the network cuts off for ten seconds ends its workers, is lost to its trial, and
// is taken again.
func TestAPartition(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	_, to, _ := strings.Cut(must(c.hub.Agent(t.Context(), "a")).URLs[0], "://")
	between := newProxy(t, to)
	c.join("s", "role=server")
	cut := c.join("c", "role=client", between.url())
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: trials(t, 4), Server: "role=server", Client: "role=client"})
	run.saysTimes("trial begins", 2)
	time.Sleep(atRandom(t))
	workers := cut.family()[1:]
	between.held.Lock()
	time.Sleep(10 * time.Second)
	expectGone(t, workers)
	between.held.Unlock()
	run.says("done")
	<-run.ended
	expectWhole(t, recordsIn(t, dir), 4, "c:", "c ")
}

// One of three hubs may be killed.
func TestAHubOfThreeIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	t.Parallel()
	dirs := []string{t.TempDir(), t.TempDir(), t.TempDir()}
	ports, clusters := freePorts(t, 3), freePorts(t, 3)
	keys := filepath.Join(t.TempDir(), "keys.json")
	hubs := make([]*part, 3)
	start := func(i int) {
		args := []string{"hub", dirs[i], ports[i], fmt.Sprintf("h%d", i), clusters[i], keys}
		for j, other := range clusters {
			if j != i {
				args = append(args, other)
			}
		}
		hubs[i] = play(t, host.StartOptions{}, args...)
		hubs[i].says("listens")
	}
	for i := range hubs { // one after the other: the first makes the keys
		start(i)
	}
	for _, hub := range hubs {
		hub.says("is ready")
	}
	var urls []string
	for _, at := range ports {
		urls = append(urls, "nats://"+at)
	}
	c := &chaos{t: t, agents: map[string]*part{}}
	c.agentToken, c.token = joinFile(dirs[0]), hubToken(dirs[0])
	c.join("s", "role=server", urls...)
	c.join("c", "role=client", urls...)
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: trials(t, 6), Server: "role=server", Client: "role=client", URLs: urls})
	run.saysTimes("trial begins", 2)
	time.Sleep(atRandom(t))
	victim := rand.IntN(3)
	t.Logf("hub %d is killed", victim)
	hubs[victim].kill()
	run.says("done")
	<-run.ended
	expectWhole(t, recordsIn(t, dir), 6, "c:", "c ", "s:", "s ")
}

// freePorts are addresses that nothing listens on.
func freePorts(t *testing.T, n int) (addresses []string) {
	t.Helper()
	for range n {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close() // all at the end, so that they differ
		addresses = append(addresses, l.Addr().String())
	}
	return addresses
}

// The only hub may be killed and started again: every trial is whole or has failed by a name, the
// run ends, and no worker is left.
func TestTheOnlyHubIsKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("kills processes for seconds")
	}
	t.Parallel()
	state, at := t.TempDir(), freePorts(t, 1)[0]
	start := func() *part {
		hub := play(t, host.StartOptions{}, "hub", state, at)
		hub.says("is ready")
		return hub
	}
	hub := start()
	c := &chaos{t: t, agents: map[string]*part{}}
	c.agentToken, c.token = joinFile(state), hubToken(state)
	c.join("s", "role=server")
	c.join("c", "role=client")
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: trials(t, 6), Server: "role=server", Client: "role=client"})
	run.saysTimes("trial begins", 2)
	time.Sleep(atRandom(t))
	hub.kill()
	time.Sleep(atRandom(t)) // longer than the lease, or not
	start()
	run.says("done")
	<-run.ended
	expectWhole(t, recordsIn(t, dir), 6, "c:", "c ", "s:", "s ", "hub", "list of agents")
	for name, agent := range c.agents {
		for until := time.Now().Add(patience); len(agent.family()) > 1; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(until) {
				t.Fatalf("a worker of %s is left: %v", name, agent.family())
			}
		}
	}
}
