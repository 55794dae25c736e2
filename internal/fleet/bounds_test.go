package fleet_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/fleet"
	"wirelab.dev/internal/worker"
)

// While a window is open, all that passes between an agent with one worker and its hub is bounded:
// a kilobyte a second of the worker, and half of one for the lease, the agent's card and NATS's own pings,
// with all that NATS puts around them.
func TestAnAgentsTrafficInAWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("counts bytes for ten seconds")
	}
	t.Parallel()
	hub := startHub(t, fleet.HubOptions{})
	credentials := hub.Credentials(fleet.RoleAgent)
	_, to, _ := strings.Cut(credentials.URLs[0], "://")
	between := newProxy(t, to)
	credentials.URLs = []string{between.url()}
	runAgentBy(t, credentials, "client-17", "role=client,zone=a,rack=seventeen")
	runAgent(t, hub, "s", "role=server")
	on := control(t, hub, "role=server", "role=client")
	stage, err := on.Stage(within(t), 4)
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	launch := worker.Launch{Name: "server", Command: []string{program, "worker"}, Spec: worker.Spec{
		Contract: worker.Contract, Role: worker.ServerRole, Stack: "tcp", Workload: worker.Workload{Name: "echo", RequestBytes: 64, ResponseBytes: 64}, Address: stage.Address(),
	}}
	server, err := stage.Start(within(t), launch)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Kill()
	ready, err := server.Ready(within(t))
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan struct{}, 1)
	launch.Spec.Role, launch.Spec.Address = worker.ClientRole, ready.Address
	launch.Spec.Client = &worker.ClientSpec{
		Clients: 4, Connection: "per-worker", Seed: 1, IntervalNS: int64(100 * time.Millisecond),
		Load: worker.Load{Model: "closed", DurationNS: int64(10 * time.Minute), WarmUpAtMostNS: int64(100 * time.Millisecond), DrainNS: int64(time.Second)},
	}
	launch.OnProgress = func(p worker.Progress) {
		if !p.Warming {
			select {
			case opened <- struct{}{}:
			default:
			}
		}
	}
	var intervals atomic.Int64
	launch.OnInterval = func(worker.Interval) { intervals.Add(1) }
	client, err := stage.Start(within(t), launch)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Kill()
	select {
	case <-opened:
	case <-time.After(2 * patience):
		_, err := client.Result(within(t))
		t.Fatalf("its window does not open: %v", err)
	}
	before, since := between.passed.Load(), time.Now()
	time.Sleep(10 * time.Second)
	took, passed := time.Since(since), between.passed.Load()-before
	t.Logf("%d bytes in %v: %.0f a second; %d intervals came", passed, took.Round(time.Millisecond), float64(passed)/took.Seconds(), intervals.Load())
	const (
		told  = 1000 // the budget, of a worker that has more to tell than that
		lease = 300  // an order and its answer every other second
		card  = 300  // and its acknowledgement, every four seconds
		pings = 50   // both ways, with TCP's own not counted
		once  = 2000 // what was saved up, and one more of each
	)
	if most := int64((told+lease+card+pings)*took.Seconds()) + once; passed > most {
		t.Errorf("%d bytes passed in %v, more than %d", passed, took, most)
	}
	if passed == 0 {
		t.Error("nothing passed: the agent is not where it is counted")
	}
}
