package main

import (
	"bytes"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/fleet"
)

// endFleets gives a script fleets of its own, and ends hubs that it leaves, as one that fails
// does.
func endFleets(env *testscript.Env) {
	at := filepath.Join(env.WorkDir, "fleets")
	env.Setenv("WIRELAB_FLEETS", at)
	env.Defer(func() {
		left, err := filepath.Glob(filepath.Join(at, "*", "hub.json"))
		if err != nil {
			return // the pattern is ours
		}
		for _, path := range left {
			var hub fleet.Running
			text, err := os.ReadFile(path)
			if err == nil && json.Unmarshal(text, &hub) == nil && hub.PID > 1 {
				_ = syscall.Kill(hub.PID, syscall.SIGKILL)
			}
		}
	})
}

// Agents are named by their role, and numbered.
func TestFleetAgentsArePlanned(t *testing.T) {
	planned, err := planAgents([]string{"role=server", "role=client,zone=a*2", "zone=b,role=client", "zone=c"})
	if err != nil {
		t.Fatal(err)
	}
	want := []plannedAgent{
		{name: "server-1", labels: "role=server"},
		{name: "client-1", labels: "role=client,zone=a"},
		{name: "client-2", labels: "role=client,zone=a"},
		{name: "client-3", labels: "zone=b,role=client"},
		{name: "c-1", labels: "zone=c"},
	}
	if !slices.Equal(planned, want) {
		t.Errorf("planned %v, want %v", planned, want)
	}
	for _, wrong := range []string{"", "role", "=client", "role=", "role=client*", "role=client*x", "role=client*65", "role=client*-1", "role=Client"} {
		if _, err := planAgents([]string{wrong}); err == nil || !strings.Contains(err.Error(), "--agent") {
			t.Errorf("--agent %q: %v", wrong, err)
		}
	}
	if _, err := planAgents([]string{"role=a*64", "role=b"}); err == nil {
		t.Error("65 agents were planned")
	}
}

// A port that another program has is named. That --detach says the same is in fleet.txtar: here
// it would start this test again in place of wirelab.
func TestFleetPortTaken(t *testing.T) {
	t.Setenv("WIRELAB_FLEETS", t.TempDir())
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	at := listener.Addr().String()
	var stdout, stderr bytes.Buffer
	if code := run([]string{"fleet", "up", "--listen", at}, strings.NewReader(""), &stdout, &stderr); code != exitFailed {
		t.Errorf("exit code %d, want %d", code, exitFailed)
	}
	if !strings.Contains(stderr.String(), "wirelab: "+at+" is taken, by another hub or another program") || stdout.Len() > 0 {
		t.Errorf("up said %q and %q", stdout.String(), stderr.String())
	}
}

// A detached hub gets all flags that say how it is.
func TestFleetDetachedFlags(t *testing.T) {
	a := &app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	cmd := a.fleetUpCommand()
	given := []string{
		"--name=n", "--listen=0.0.0.0:1", "--advertise=h", "--agent=role=x,zone=y*2", "--hub=h1", "--cluster=127.0.0.1:2",
		"--route=127.0.0.1:3", "--keys=/k", "--no-tls",
	}
	var f upFlags
	cmd.ResetFlags()
	f.register(cmd)
	if err := cmd.ParseFlags(append(given, "--detach")); err != nil {
		t.Fatal(err)
	}
	passed := f.arguments()
	for _, flag := range given {
		if !slices.Contains(passed, flag) {
			t.Errorf("%s is not passed on in %v", flag, passed)
		}
	}
	if slices.Contains(passed, "--detach") {
		t.Error("it would detach for ever")
	}
}

func TestAgentsOfOneMachineHaveTheirOwnCPUs(t *testing.T) {
	planned, err := planAgents([]string{"role=server", "role=client*2"})
	if err != nil {
		t.Fatal(err)
	}
	if warning := placeAgents(planned, host.Placement{Server: []int{6, 7}, Client: []int{0, 1, 2, 3, 4}}); warning != "" {
		t.Error(warning)
	}
	for i, want := range []string{"6,7", "0,1", "2,3"} {
		if got := planned[i].cpus; got != want {
			t.Errorf("%s has the CPUs %s, want %s", planned[i].name, got, want)
		}
	}
	warning := placeAgents(planned, host.Placement{Server: []int{1}, Client: []int{0}})
	if !strings.Contains(warning, "2 clients share 1 CPU of") || planned[2].cpus != "0" {
		t.Errorf("%q, %v", warning, planned)
	}
}
