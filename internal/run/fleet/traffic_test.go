package fleet_test

import (
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet/protocol"
)

// meter stands between agents and their hub, and counts the bytes that pass.
type meter struct {
	listener  net.Listener
	to        string
	sent, got atomic.Int64 // by agents
}

func newMeter(t *testing.T, to string) *meter {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	m := &meter{listener: listener, to: to}
	go func() { // ends with the listener
		for {
			agent, err := listener.Accept()
			if err != nil {
				return
			}
			hub, err := net.Dial("tcp", m.to)
			if err != nil {
				_ = agent.Close()
				continue
			}
			go pass(agent, hub, &m.sent)
			go pass(hub, agent, &m.got)
		}
	}()
	return m
}

// pass passes bytes on until either end is closed.
func pass(from, to net.Conn, passed *atomic.Int64) {
	defer func() { _, _ = from.Close(), to.Close() }()
	_, _ = io.Copy(to, io.TeeReader(from, counter{passed}))
}

type counter struct{ of *atomic.Int64 }

func (c counter) Write(p []byte) (int, error) {
	c.of.Add(int64(len(p)))
	return len(p), nil
}

// maxRealAgents is the most agents that have processes of their own here.
const maxRealAgents = 50

// While a window is open, agents and hub send almost nothing. The test prints how much, for
// processes and for simulated agents: WIRELAB_AGENTS=10 go test ./internal/run/fleet -run Traffic -v
func TestTraffic(t *testing.T) {
	if os.Getenv("WIRELAB_AGENTS") == "" {
		t.Skip("measures: WIRELAB_AGENTS says with how many; TestAnAgentsTrafficInAWindow holds the bound")
	}
	agents, window := simulatedAgents(t)
	for _, kind := range []string{"processes", "simulated"} {
		t.Run(kind, func(t *testing.T) {
			c := newChaos(t)
			if kind == "processes" && agents > maxRealAgents {
				t.Skipf("%d processes and their workers are too many for one machine", agents)
			}
			of := must(c.hub.MakeToken(t.Context(), protocol.TokenRequest{Role: protocol.RoleJoin}))
			_, address, _ := strings.Cut(of.URLs[0], "://")
			between := newMeter(t, address)
			of.URLs = []string{"nats://" + between.listener.Addr().String()}
			c.agentToken = filepath.Join(t.TempDir(), "agent")
			if err := os.WriteFile(c.agentToken, []byte(of.Token()), 0o600); err != nil {
				t.Fatal(err)
			}
			if kind == "simulated" {
				play(t, host.StartOptions{}, "thousand", c.agentToken, fmt.Sprint(agents)).says("all have begun")
			} else {
				c.join("s", "role=server")
				for i := range agents {
					c.join(fmt.Sprintf("c%d", i+1), "role=client")
				}
			}
			c.expectQuiet(between, agents, window)
		})
	}
}

// expectQuiet measures a window, and counts in the middle of it.
func (c *chaos) expectQuiet(between *meter, agents int, window time.Duration) {
	t := c.t
	waitForCards(t, must(c.hub.Controller()), agents+1)
	s := scene(t, "tcp", agents, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)})
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: s, Server: "role=server", Client: fmt.Sprintf("role=client*%d", agents)})
	run.says("trial goes on 0.")
	time.Sleep(window / 8) // what was told when it opened has arrived
	began, messages, sent, got := time.Now(), c.hub.CountMessages(), between.sent.Load(), between.got.Load()
	time.Sleep(window / 2)
	messages = c.hub.CountMessages() - messages
	sent, got = between.sent.Load()-sent, between.got.Load()-got
	took := time.Since(began)
	each := func(n int64) float64 { return float64(n) / took.Seconds() / float64(agents+1) }
	t.Logf("%d agents, and a worker on each: %.2f messages per second each, %.0f bytes per second sent each and %.0f received; %.0f messages and %.0f KB per second at the hub",
		agents+1, each(messages), each(sent), each(got), float64(messages)/took.Seconds(), float64(sent+got)/took.Seconds()/1000)
	run.says("done")
	if records := recordsIn(t, dir); len(records) != 1 || records[0].Failure != "" {
		t.Fatalf("%d records: %s", len(records), records[0].Failure)
	}
}
