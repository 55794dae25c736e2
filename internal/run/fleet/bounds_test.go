package fleet_test

import (
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/worker"
)

// While a window is open, all that passes between an agent with one worker and its hub is bounded:
// a kilobyte a second of the worker, and half of one for the lease, the agent's card and NATS's own pings,
// with all that NATS puts around them.
func TestAnAgentsTrafficInAWindow(t *testing.T) {
	if testing.Short() {
		t.Skip("counts bytes for ten seconds")
	}
	t.Parallel()
	hub := startHub(t, hub.HubOptions{})
	credentials := must(hub.Agent(t.Context(), "client-17"))
	_, to, _ := strings.Cut(credentials.URLs[0], "://")
	between := newProxy(t, to)
	credentials.URLs = []string{between.url()}
	runAgentBy(t, credentials, "client-17", "role=client,zone=a,rack=seventeen")
	runAgent(t, hub, "s", "role=server")
	on := control(t, hub, "role=server", "role=client")
	var intervals atomic.Int64
	beginTrial(t, on, worker.ClientSpec{IntervalNS: int64(100 * time.Millisecond)}, func(worker.Interval) { intervals.Add(1) })
	before, since := between.passed.Load(), time.Now()
	time.Sleep(10 * time.Second)
	took, passed := time.Since(since), between.passed.Load()-before
	t.Logf("%d bytes in %v: %.0f a second; %d intervals came", passed, took.Round(time.Millisecond), float64(passed)/took.Seconds(), intervals.Load())
	const (
		told  = 1000 // the budget, of a worker that has more to tell than that
		lease = 220  // an order and its answer every other second
		card  = 220  // and its acknowledgement, every four seconds
		pings = 30   // both ways, with TCP's own not counted
		once  = 1000 // what was saved up
	)
	if most := int64((told+lease+card+pings)*took.Seconds()) + once; passed > most {
		t.Errorf("%d bytes passed in %v, more than %d", passed, took, most)
	}
	if passed == 0 {
		t.Error("nothing passed: the agent is not where it is counted")
	}
}

// beginTrial starts a server and a client of four callers, for far longer than a test, and
// returns the client when its window is open.
func beginTrial(t *testing.T, on *fleet.Controller, spec worker.ClientSpec, onInterval func(worker.Interval)) worker.TrialEnd {
	t.Helper()
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
	t.Cleanup(server.Kill)
	ready, err := server.Ready(within(t))
	if err != nil {
		t.Fatal(err)
	}
	spec.Clients, spec.Connection, spec.Seed = 4, "per-worker", 1
	spec.Load = worker.Load{Model: "closed", DurationNS: int64(10 * time.Minute), WarmUpAtMostNS: int64(100 * time.Millisecond), DrainNS: int64(time.Second)}
	launch.Spec.Role, launch.Spec.Address, launch.Spec.Client = worker.ClientRole, ready.Address, &spec
	opened := make(chan struct{}, 1)
	launch.OnInterval = onInterval
	launch.OnProgress = func(p live.Progress) {
		if !p.Warming {
			select {
			case opened <- struct{}{}:
			default:
			}
		}
	}
	client, err := stage.Start(within(t), launch)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Kill)
	select {
	case <-opened:
	case <-time.After(2 * patience):
		_, err := client.Result(within(t))
		t.Fatalf("its window does not open: %v", err)
	}
	return client
}

// Whoever pauses a load and ends it early does so on all agents: what comes of it is one window,
// with one pause, that ended early.
func TestPauseAndEndOnAFleet(t *testing.T) {
	for _, clients := range []string{"role=client*1", "role=client*2"} {
		hub := startHub(t, hub.HubOptions{})
		runAgent(t, hub, "s", "role=server")
		runAgent(t, hub, "c0", "role=client")
		runAgent(t, hub, "c1", "role=client")
		on := control(t, hub, "role=server", clients)
		client := beginTrial(t, on, worker.ClientSpec{}, nil)
		const pause = 300 * time.Millisecond
		for _, control := range []worker.Control{worker.PauseControl, worker.ResumeControl, worker.EndControl} {
			time.Sleep(pause)
			if err := client.SendControl(worker.ControlOrder{Control: control}); err != nil {
				t.Fatal(err)
			}
		}
		result, err := client.Result(within(t))
		if err != nil {
			t.Fatal(err)
		}
		whole := result.Client
		if !whole.EndedEarly || whole.Pauses != 1 || whole.PausedNS < int64(pause)/2 || whole.EndNS-whole.BeginNS <= whole.PausedNS {
			t.Errorf("%s: ended early: %v, %d pauses of %d ns, a window of %d ns", clients, whole.EndedEarly, whole.Pauses, whole.PausedNS, whole.EndNS-whole.BeginNS)
		}
		sum := int64(0)
		for _, p := range result.Parts {
			sum += p.Result.Client.Requests
		}
		if sum != whole.Requests || sum == 0 {
			t.Errorf("%s: %d requests of the whole, %d of its parts", clients, whole.Requests, sum)
		}
	}
}
