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

	"wirelab.dev/internal/run/fleet/hub"
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
			var running hub.RunningHub
			text, err := os.ReadFile(path)
			if err == nil && json.Unmarshal(text, &running) == nil && running.PID > 1 {
				_ = syscall.Kill(running.PID, syscall.SIGKILL)
			}
		}
	})
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
	if !strings.Contains(stderr.String(), "wirelab: "+at+" is taken by another hub or program") || stdout.Len() > 0 {
		t.Errorf("up said %q and %q", stdout.String(), stderr.String())
	}
}

// A detached hub gets all flags that say how it is.
func TestFleetDetachedFlags(t *testing.T) {
	a := &app{stdout: new(bytes.Buffer), stderr: new(bytes.Buffer)}
	cmd := a.fleetUpCommand()
	given := []string{
		"--name=n", "--listen=0.0.0.0:1", "--advertise=h", "--agent=role=x,zone=y*2", "--hub=h1", "--cluster=127.0.0.1:2",
		"--route=127.0.0.1:3", "--keys=/k", "--no-tls=true",
	}
	if err := cmd.ParseFlags(append(given, "--detach")); err != nil {
		t.Fatal(err)
	}
	passed := backgroundArguments(cmd.Flags())
	for _, flag := range given {
		if !slices.Contains(passed, flag) {
			t.Errorf("%s is not passed on in %v", flag, passed)
		}
	}
	if slices.Contains(passed, "--detach") {
		t.Error("it would detach for ever")
	}
}
