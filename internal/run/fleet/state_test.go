package fleet_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"wirelab.dev/internal/run/fleet/hub"
)

func TestFleetIsFound(t *testing.T) {
	t.Setenv("WIRELAB_FLEETS", t.TempDir())
	none := func(of, want string) {
		t.Helper()
		if _, err := hub.LocalCredentials(of); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("fleet %q: %v, want %q", of, err, want)
		}
	}
	none("", "no fleet is up on this machine: start one with `wirelab fleet up`")
	one := startIn(t, "one")
	found := func(of string, want *hub.Hub) {
		t.Helper()
		c, err := hub.LocalCredentials(of)
		if err != nil {
			t.Fatal(err)
		}
		if w := must(want.Controller()); !bytes.Equal(c.Seed, w.Seed) || c.URLs[0] != w.URLs[0] {
			t.Errorf("fleet %q: found %v", of, c)
		}
	}
	found("", one)
	two := startIn(t, "two")
	none("", "2 fleets are up on this machine: choose one of one, two with --fleet")
	none("three", `no fleet "three" is up on this machine: choose one of one, two`)
	found("two", two)
	found(one.URLs()[0], one)
	if err := two.Close(); err != nil {
		t.Fatal(err)
	}
	found("", one)
	none("two", "no fleet")
}

func startIn(t *testing.T, project string) *hub.Hub {
	t.Helper()
	dir, err := hub.StateDir(project)
	if err != nil {
		t.Fatal(err)
	}
	started, err := hub.StartHub(within(t), hub.HubOptions{Project: project, StateDir: dir, Listen: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = started.Close() }) // a second time changes nothing
	return started
}

// What a hub that was killed left behind is no hub, whatever process has its number now.
func TestFleetStateOfAKilledHub(t *testing.T) {
	t.Setenv("WIRELAB_FLEETS", t.TempDir())
	started := startIn(t, "mine")
	dir, err := hub.StateDir("mine")
	if err != nil {
		t.Fatal(err)
	}
	left, err := os.ReadFile(filepath.Join(dir, "hub.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := started.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "hub.json"), left, 0o600); err != nil {
		t.Fatal(err)
	}
	if hubs, err := hub.RunningHubs(); err != nil || len(hubs) > 0 {
		t.Errorf("hubs %+v, %v: want none", hubs, err)
	}
}

// In a container the hub is process 1. It is found there, and no signal goes to process 1, which is
// another outside of the container.
func TestFleetOfAContainerIsFound(t *testing.T) {
	t.Setenv("WIRELAB_FLEETS", t.TempDir())
	_ = startIn(t, "mine")
	dir, err := hub.StateDir("mine")
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hub.json")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	number := fmt.Appendf(nil, `"pid": %d`, os.Getpid())
	for pid, want := range map[string]int{"1": 1, "0": 0, "-1": 0} {
		if err := os.WriteFile(file, bytes.Replace(text, number, []byte(`"pid": `+pid), 1), 0o600); err != nil {
			t.Fatal(err)
		}
		hubs, err := hub.RunningHubs()
		if err != nil || len(hubs) != want {
			t.Fatalf("process %s: hubs %+v, %v: want %d", pid, hubs, err, want)
		}
		for _, found := range hubs {
			if err := found.End(t.Context()); err == nil || !strings.Contains(err.Error(), "stop the container") {
				t.Errorf("the hub of a container was asked to end: %v", err)
			}
		}
	}
}

func TestFleetStatesAreWhereTheyBelong(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("WIRELAB_FLEETS", "")
	t.Setenv("XDG_STATE_HOME", "")
	want := func(path string) {
		t.Helper()
		if got, err := hub.StateDir("mine"); err != nil || got != path {
			t.Errorf("the state is in %q, %v, want %q", got, err, path)
		}
	}
	want(filepath.Join(home, ".local/state/wirelab/fleets/mine"))
	t.Setenv("XDG_STATE_HOME", filepath.Join(home, "state"))
	want(filepath.Join(home, "state/wirelab/fleets/mine"))
	t.Setenv("WIRELAB_FLEETS", home)
	want(filepath.Join(home, "mine"))
	if _, err := hub.StateDir("../mine"); err == nil {
		t.Error("a name may leave the folder")
	}
}
