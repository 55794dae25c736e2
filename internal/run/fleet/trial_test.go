package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/lab"
)

// log is an agent's, that a test reads.
type log struct {
	guard sync.Mutex
	text  bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.guard.Lock()
	defer l.guard.Unlock()
	return l.text.String()
}

// runAgent runs an agent in this process, whose workers are this program, until the test ends
// or stop is called.
func runAgent(t *testing.T, hub *hub.Hub, name, labels string) (agent *log, stop func()) {
	t.Helper()
	return runAgentBy(t, must(hub.Agent(t.Context(), name)), name, labels)
}

func runAgentBy(t *testing.T, credentials *protocol.Credentials, name, labels string, change ...func(*fleet.AgentOptions)) (agent *log, stop func()) {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	pairs, err := protocol.ParseLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	agent = &log{}
	ended := make(chan error, 1)
	options := fleet.AgentOptions{
		Name: name, Labels: pairs, Programs: []fleet.Program{{Name: "wirelab", Command: []string{program, "worker"}}},
		Dial: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Listen: netip.MustParseAddr("127.0.0.1"),
		Spool: t.TempDir(), Identities: t.TempDir(), Log: agent, Version: "test",
	}
	for _, c := range change {
		c(&options)
	}
	go func() { ended <- fleet.RunAgent(ctx, credentials, options) }() // ends with its context
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("agent %s: %v", name, err)
		}
	})
	t.Cleanup(stop)
	return agent, stop
}

// control makes a controller that has its agents.
func control(t *testing.T, hub *hub.Hub, server, clients string) *fleet.Controller {
	t.Helper()
	return controlBy(t, must(hub.Controller()), server, clients)
}

func controlBy(t *testing.T, credentials *protocol.Credentials, server, clients string) *fleet.Controller {
	t.Helper()
	c, _ := controlReporting(t, credentials, server, clients)
	return c
}

func controlReporting(t *testing.T, credentials *protocol.Credentials, server, clients string) (*fleet.Controller, *events) {
	t.Helper()
	said := newEvents()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	plan := fleet.Plan{Worker: program, Lease: patience, Report: said.add}
	if server != "" {
		s, err := protocol.ParseSelector(server)
		if err != nil {
			t.Fatal(err)
		}
		plan.Server = &s
	}
	if plan.Client, err = protocol.ParseSelector(clients); err != nil {
		t.Fatal(err)
	}
	c, err := fleet.NewController(within(t), credentials, plan)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	for ctx := within(t); ; time.Sleep(20 * time.Millisecond) {
		if err = c.TakeFirst(ctx); err == nil {
			return c, said
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
	}
}

// scene is a scenario of one part.
func scene(t *testing.T, stacks string, clients int, load scenario.Load) *scenario.Scenario {
	t.Helper()
	variants, err := scenario.ParseVariants(stacks)
	if err != nil {
		t.Fatal(err)
	}
	return &scenario.Scenario{
		Version: scenario.Version, Name: "test", Seed: 1,
		Parts: []scenario.Part{{
			Name: "part", Stacks: variants, Workload: "echo", Sizes: []scenario.Payload{{Request: 64, Response: 64}}, Clients: []int{clients}, Repeats: 1,
			Load: load, WarmUp: scenario.WarmUp{AtMost: scenario.Duration(200 * time.Millisecond)},
		}},
	}
}

// measure runs a scenario, on the fleet if there is one.
func measure(t *testing.T, s *scenario.Scenario, on *fleet.Controller, change ...func(*lab.Lab)) []record.Record {
	t.Helper()
	return measurePlan(t, s, s.Plan(), func(l *lab.Lab) {
		if on != nil {
			l.Fleet = on
		}
		for _, c := range change {
			c(l)
		}
	})
}

// measurePlan runs a scenario's trials in a lab that the test sets up.
func measurePlan(t *testing.T, s *scenario.Scenario, plan []scenario.PlannedCell, setUp func(*lab.Lab)) []record.Record {
	t.Helper()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	run, err := record.Create(filepath.Join(t.TempDir(), "run"), record.Manifest{
		Version: record.Version, Name: s.Name, Status: record.Running, Seed: s.Seed, Started: time.Now(),
		Trials: len(plan), Order: lab.ManifestOrder(plan), Scenario: json.RawMessage(`{}`), Host: json.RawMessage(`{}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	l := lab.New([]string{program, "worker"})
	l.Seed = s.Seed
	setUp(l)
	if err := l.Run(t.Context(), plan, run); err != nil {
		t.Fatal(err)
	}
	var records []record.Record
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, r)
	}
	return records
}

// One client machine and one server machine make a trial, whose record says who they were.
func TestOneClientAgent(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	runAgent(t, hub, "s", "role=server")
	runAgent(t, hub, "c", "role=client")
	on := control(t, hub, "role=server", "role=client")
	for _, r := range measure(t, scene(t, "tcp,h2:tls=on", 4, scenario.Load{Model: scenario.Closed, Requests: 100}), on) {
		if r.Failure != "" {
			t.Fatalf("%s: %s", r.Cell.Key(), r.Failure)
		}
		if r.Requests != 400 || r.Fleet == nil || len(r.Fleet.Clients) != 1 || r.Fleet.Server.Name != "s" {
			t.Fatalf("%s: %d requests, fleet %+v", r.Cell.Key(), r.Requests, r.Fleet)
		}
		one := r.Fleet.Clients[0]
		if one.Name != "c" || one.Labels["role"] != "client" || one.Requests != 400 || one.Clock.ErrorNS <= 0 {
			t.Errorf("its client: %+v", one)
		}
		if off := max(one.Clock.OffsetNS, -one.Clock.OffsetNS); off > one.Clock.ErrorNS {
			t.Errorf("clocks that are one are %d ns apart, ± %d", off, one.Clock.ErrorNS)
		}
		if r.Server.UserNS == nil || r.Client.UserNS == nil {
			t.Error("what the ends cost is not known")
		}
	}
}

// While a trial runs, its progress has the rate, the CPU time and the health of each agent.
func TestLiveAgents(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	for name, labels := range map[string]string{"s": "role=server", "c1": "role=client", "c2": "role=client"} {
		runAgent(t, hub, name, labels)
	}
	var names []string
	rate, cpu := map[string]bool{}, map[string]bool{}
	observe := func(e live.Event) {
		p, is := e.(live.Progress)
		if !is {
			return
		}
		names = nil
		for _, a := range p.Agents {
			names = append(names, a.Role+" "+a.Name)
			rate[a.Name] = rate[a.Name] || a.Rate != nil && *a.Rate > 0
			cpu[a.Name] = cpu[a.Name] || a.CPU != nil && *a.CPU > 0
		}
	}
	// An agent tells its CPU time every two seconds, and a rate every second.
	load := scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(5 * time.Second)}
	for _, r := range measure(t, scene(t, "tcp", 4, load), control(t, hub, "role=server", "role=client*2"), func(l *lab.Lab) { l.Observers = []live.Observer{observe} }) {
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
	}
	if want := []string{"server s", "client c1", "client c2"}; !slices.Equal(names, want) {
		t.Errorf("the agents are %q, want %q", names, want)
	}
	if rate["s"] || !rate["c1"] || !rate["c2"] || !cpu["s"] || !cpu["c1"] || !cpu["c2"] {
		t.Errorf("rates %v, CPU times %v; want all but the server's rate", rate, cpu)
	}
}
