package fleet

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/run/fleet/protocol"
	"wirelab.dev/internal/run/worker"
)

// An agent ends when it is told to, though its hub is gone and it has things to hand over.
func TestAnAgentEndsWithoutItsHub(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	b := besiege(t)
	before := children()
	b.sendOrder(b.order(claimAgent, nil))
	if a := b.sendOrder(b.order(startVerb, func(o *controllerOrder) { o.Worker, o.Program, o.Spec = "w", b.own, serverSpec() })); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	if err := b.hub.Close(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { b.end(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(30 * time.Second):
		t.Fatalf("it has not ended:\n%s", b.log)
	}
	if now := children(); now > before {
		t.Errorf("a worker outlived its agent: %d processes were there before, and %d now", before, now)
	}
}

// What a killed agent of the name left in the spool goes when the next one begins; what others
// have there stays.
func TestASpoolIsCleared(t *testing.T) {
	a := &agent{AgentOptions: AgentOptions{Name: "a", Spool: t.TempDir()}, credentials: &protocol.Credentials{Project: "mine"}}
	left, others := filepath.Join(a.Spool, "mine.a", "r-w1.parquet"), filepath.Join(a.Spool, "mine.b", "r-w2.parquet")
	for _, path := range []string{left, others} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("samples"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	release, err := a.clearSpool()
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	if _, err := a.clearSpool(); !errors.Is(err, errNameTaken) {
		t.Errorf("another process cleared it, too: %v", err)
	}
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("what was left is there: %v", err)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("another agent's samples: %v", err)
	}
}

// A worker that was killed leaves no samples behind.
func TestAKilledWorkersSamplesGo(t *testing.T) {
	b := besiege(t, func(l worker.Launch) (workerProcess, error) {
		if err := os.WriteFile(l.Spec.Client.SamplesFile, []byte("half of them"), 0o600); err != nil {
			return nil, err
		}
		return simulate(l)
	})
	b.sendOrder(b.order(claimAgent, nil))
	spec := worker.Spec{
		Contract: worker.Contract, Role: worker.ClientRole, Stack: "tcp", Address: "127.0.0.1:1",
		Client: &worker.ClientSpec{Clients: 1, SamplesFile: "wanted"},
	}
	if a := b.sendOrder(b.order(startVerb, func(o *controllerOrder) { o.Worker, o.Program, o.Spec = "w", b.own, &spec })); a.Refused != "" {
		t.Fatal(a.Refused)
	}
	b.sendOrder(b.order(killVerb, func(o *controllerOrder) { o.Worker = "w" }))
	b.end()
	_ = filepath.Walk(b.spool, func(path string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() && filepath.Ext(path) != ".lock" {
			t.Errorf("%s is left", path)
		}
		return nil
	})
}

// An agent that ends is nobody's any more, and says so.
func TestAnAgentThatEndsIsNotGivenAway(t *testing.T) {
	a := &agent{AgentOptions: AgentOptions{Name: "a", Spool: t.TempDir()}, credentials: &protocol.Credentials{Project: "mine"}, workers: map[string]*hostedWorker{}}
	if got := a.grantLease(&controllerOrder{Run: "r", LeaseNS: int64(defaultLease)}); got.Refused != "" {
		t.Fatal(got.Refused)
	}
	if got := a.grantLease(&controllerOrder{Run: "q", LeaseNS: int64(defaultLease)}); !got.Busy || !strings.Contains(got.Refused, "another run, r") {
		t.Errorf("another run's: %+v", got)
	}
	a.endWorkers()
	if got := a.grantLease(&controllerOrder{Run: "q", LeaseNS: int64(defaultLease)}); !strings.Contains(got.Refused, "the agent a is ending") {
		t.Errorf("after its end: %+v", got)
	}
}
