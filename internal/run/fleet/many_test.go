package fleet_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// simulatedAgents returns the number of simulated agents, and the length of their window.
func simulatedAgents(t *testing.T) (agents int, window time.Duration) {
	if text := os.Getenv("WIRELAB_AGENTS"); text != "" { // make bench
		if _, err := fmt.Sscan(text, &agents); err != nil {
			t.Fatalf("WIRELAB_AGENTS: %v", err)
		}
		return agents, 10 * time.Second
	}
	return 20, 2 * time.Second
}

// Many agents, simulated but for their workers, make one trial of one controller: every client
// is in it, and the controller's memory stays small. What it cost is printed, and judged by
// nobody: WIRELAB_AGENTS=1000 go test ./internal/run/fleet -run ManyAgents -v
func TestManyAgents(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates agents for seconds")
	}
	agents, window := simulatedAgents(t)
	state := t.TempDir()
	started := play(t, host.StartOptions{}, "hub", state, "127.0.0.1:0")
	started.says("is ready")
	crowd := play(t, host.StartOptions{}, "thousand", joinFile(state), fmt.Sprint(agents))
	crowd.says("all have begun")
	s := scene(t, "tcp", agents, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(window)})
	dir := filepath.Join(t.TempDir(), "run")
	what := planFile(t, labPlan{Scenario: s, Server: "role=server", Client: fmt.Sprintf("role=client*%d", agents), Patient: os.Getenv("WIRELAB_AGENTS") == ""})
	waitForAgents(t, state, agents+1)
	began := time.Now()
	lab := play(t, host.StartOptions{}, "lab", hub.TokenFile(state, protocol.RoleController), dir, what)
	lab.says("trial begins")
	lab.says("trial goes on 0\n")
	t.Logf("%d agents: all clients warm up %v after the controller was started", agents, time.Since(began).Round(time.Millisecond))
	lab.says("trial goes on 0.")
	costs := map[string]func() probe.Usage{}
	for name, p := range map[string]*part{"controller": lab, "hub": started, "the simulation": crowd} {
		costs[name] = usageOf(t, p.command.Process.Pid)
	}
	from := time.Now()
	time.Sleep(window / 2)
	took := time.Since(from)
	for name, cost := range costs {
		u := cost()
		t.Logf("%s in the window: %.2f CPUs, %d MiB", name, float64(u.UserNS+u.SystemNS)/float64(took), u.RSSBytes>>20)
	}
	lab.says("done")
	<-lab.ended
	records := recordsIn(t, dir)
	if len(records) != 1 || records[0].Failure != "" {
		t.Fatalf("%d records: %s", len(records), records[0].Failure)
	}
	r := records[0]
	if len(r.Fleet.Clients) != agents || r.Cell.Agents != agents {
		t.Errorf("%d clients of %d agents, want %d", len(r.Fleet.Clients), r.Cell.Agents, agents)
	}
	expectSumOfClients(t, &r)
	t.Logf("the run took %v; windows opened within %v of each other", time.Since(began).Round(time.Millisecond), time.Duration(r.Fleet.OpenedApartNS))
	if peak := peakOf(t, lab); peak > 1<<30 {
		t.Errorf("the controller took %d MiB, more than 1 GiB", peak>>20)
	}
}

// waitForAgents waits until n agents have cards.
func waitForAgents(t *testing.T, state string, n int) {
	t.Helper()
	credentials, err := protocol.ReadTokenFile(hub.TokenFile(state, protocol.RoleController))
	if err != nil {
		t.Fatal(err)
	}
	waitForCards(t, credentials, n)
}

func waitForCards(t *testing.T, credentials *protocol.Credentials, n int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*patience) // all begin on one machine
	defer cancel()
	for there := 0; there < n; time.Sleep(200 * time.Millisecond) {
		seen, err := protocol.ReadHub(ctx, credentials)
		if err == nil {
			there = len(seen.Cards)
			seen.Close()
		}
		if ctx.Err() != nil {
			t.Fatalf("%d of %d agents: %v", there, n, err)
		}
	}
}

// usageOf begins to count what a process uses.
func usageOf(t *testing.T, pid int) func() probe.Usage {
	t.Helper()
	before, err := probe.ReadProcess(pid)
	if err != nil {
		t.Fatal(err)
	}
	return func() probe.Usage {
		now, err := probe.ReadProcess(pid)
		if err != nil {
			t.Fatal(err)
		}
		now.UserNS -= before.UserNS
		now.SystemNS -= before.SystemNS
		return now
	}
}

// peakOf is the most memory that a part that has ended took, in bytes.
func peakOf(t *testing.T, p *part) int64 {
	t.Helper()
	usage, known := p.command.ProcessState.SysUsage().(*syscall.Rusage)
	if !known {
		t.Skip("the memory of a process is unknown on this system")
	}
	return usage.Maxrss << 10
}
