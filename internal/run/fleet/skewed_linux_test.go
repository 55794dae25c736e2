package fleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
)

// aheadBy returns surroundings in which a process has a monotonic clock that is ahead by seconds.
func aheadBy(seconds int) host.StartOptions {
	return host.StartOptions{Enter: func() error {
		if err := unix.Unshare(unix.CLONE_NEWTIME); err != nil {
			return err
		}
		// Of the thread, whose children are meant.
		return os.WriteFile(fmt.Sprintf("/proc/%d/timens_offsets", unix.Gettid()), fmt.Appendf(nil, "monotonic %d 0\nboottime %d 0\n", seconds, seconds), 0)
	}}
}

// Clocks that are half a minute apart are compared, and the trial is as good as any.
func TestAClockThatIsOff(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("makes a time namespace, as only root may")
	}
	if err := host.OnDisposableThread(aheadBy(1).Enter); err != nil {
		t.Skipf("no time namespaces can be made here: %v", err)
	}
	t.Parallel()
	c := newChaos(t)
	const serverAhead = 23
	c.agents["s"] = play(t, aheadBy(serverAhead), "agent", c.agentToken, "s", "role=server", "127.0.0.1", t.TempDir())
	c.agents["s"].says("is in the fleet")
	for i, ahead := range []int{0, 30, -30} {
		if ahead < 0 && time.Duration(now(t)) < 2*time.Minute {
			ahead = 17 // a clock cannot be below zero
		}
		name := fmt.Sprintf("c%d", i)
		c.agents[name] = play(t, aheadBy(ahead), "agent", c.agentToken, name, fmt.Sprintf("role=client,ahead=%d", ahead), "127.0.0.1", t.TempDir())
		c.agents[name].says("is in the fleet")
	}
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: trials(t, 1), Server: "role=server", Client: "role=client*3", Patient: true})
	run.says("done")
	<-run.ended
	turns := filepath.Join(t.TempDir(), "run")
	s := scene(t, "tcp,grpc", 3, scenario.Load{Model: scenario.Open, Rate: 300, Arrivals: scenario.Constant, Duration: scenario.Duration(time.Second)})
	run = c.lab(turns, labPlan{Scenario: s, Server: "role=server", Client: "role=client*3", Patient: true, Block: true})
	run.says("done")
	<-run.ended
	block := recordsIn(t, turns)
	for _, r := range block {
		if r.Block == 0 || len(r.Slices) == 0 || r.Requests < 295 || r.Requests > 305 || r.Fleet == nil || r.Fleet.OpenedApartNS != 0 {
			t.Errorf("%s: %q, block %d, %d requests in %d slices, on %+v", r.Cell.Variant, r.Failure, r.Block, r.Requests, len(r.Slices), r.Fleet)
		}
	}
	for _, r := range append(recordsIn(t, dir), block...) {
		if r.Failure != "" {
			t.Fatal(r.Failure)
		}
		if off := r.Fleet.Server.Clock.OffsetNS - serverAhead*1e9; max(off, -off) > r.Fleet.Server.Clock.ErrorNS {
			t.Errorf("the server: %d ns ahead, found %+v", int64(serverAhead*1e9), r.Fleet.Server.Clock)
		}
		if cost := r.Server; cost.UserNS == nil || *cost.UserNS+*cost.SystemNS <= 0 || *cost.UserNS+*cost.SystemNS > 64*r.WindowNS {
			t.Errorf("the server's cost in the window is %+v", cost)
		}
		for _, one := range r.Fleet.Clients {
			var ahead int64
			if _, err := fmt.Sscan(one.Labels["ahead"], &ahead); err != nil {
				t.Fatal(err)
			}
			if off := one.Clock.OffsetNS - ahead*1e9; max(off, -off) > one.Clock.ErrorNS {
				t.Errorf("%s: %d ns ahead, found %d ± %d", one.Name, ahead*1e9, one.Clock.OffsetNS, one.Clock.ErrorNS)
			}
			if one.BeginNS < 0 || one.BeginNS > int64(patience) {
				t.Errorf("%s: its window opened %v after the first", one.Name, time.Duration(one.BeginNS))
			}
		}
		if r.WindowNS < 5e8 || r.WindowNS > int64(patience) || r.Server.UserNS == nil {
			t.Errorf("a window of %v, in which the server's cost is %v", time.Duration(r.WindowNS), r.Server.UserNS)
		}
	}
}

func now(t *testing.T) int64 {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &at); err != nil {
		t.Fatal(err)
	}
	return at.Nano()
}

// An agent that gets a tenth of its CPU is named by the checks of the trial.
func TestASlowAgentIsNamed(t *testing.T) {
	t.Parallel()
	c := newChaos(t)
	c.join("s", "role=server")
	c.join("c0", "role=client")
	slow := c.join("c1", "role=client")
	s := scene(t, "tcp", 4, scenario.Load{Model: scenario.Open, Rate: 400, Arrivals: scenario.Poisson, Duration: scenario.Duration(2 * time.Second)})
	dir := filepath.Join(t.TempDir(), "run")
	run := c.lab(dir, labPlan{Scenario: s, Server: "role=server", Client: "role=client*2", Patient: true})
	run.says("trial begins")
	for {
		select {
		case <-run.ended:
		default:
			signal(slow.family(), syscall.SIGSTOP)
			time.Sleep(90 * time.Millisecond)
			signal(slow.family(), syscall.SIGCONT)
			time.Sleep(10 * time.Millisecond)
			continue
		}
		break
	}
	for _, r := range recordsIn(t, dir) {
		if r.Failure != "" {
			if !strings.Contains(r.Failure, "c1") {
				t.Errorf("its failure does not name c1: %s", r.Failure)
			}
			continue
		}
		named := false
		for _, check := range r.Checks {
			named = named || (check.Level == record.Warning || check.Level == record.Invalid) && strings.HasPrefix(check.Detail, "c1: ")
		}
		if !named {
			t.Errorf("no check names c1: %+v", r.Checks)
		}
	}
}

func signal(pids []int, s syscall.Signal) {
	for _, pid := range pids {
		_ = syscall.Kill(pid, s) // it may have ended
	}
}
