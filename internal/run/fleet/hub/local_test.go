package hub

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/machine/host"
)

// Agents are named by their role, and numbered.
func TestFleetAgentsArePlanned(t *testing.T) {
	planned, err := ParseLocalAgents([]string{"role=server", "role=client,zone=a*2", "zone=b,role=client", "zone=c"})
	if err != nil {
		t.Fatal(err)
	}
	want := []LocalAgent{
		{Name: "server-1", Labels: "role=server"},
		{Name: "client-1", Labels: "role=client,zone=a"},
		{Name: "client-2", Labels: "role=client,zone=a"},
		{Name: "client-3", Labels: "zone=b,role=client"},
		{Name: "c-1", Labels: "zone=c"},
	}
	if !slices.Equal(planned, want) {
		t.Errorf("planned %v, want %v", planned, want)
	}
	for _, wrong := range []string{"", "role", "=client", "role=", "role=client*", "role=client*x", "role=client*65", "role=client*-1", "role=Client"} {
		if _, err := ParseLocalAgents([]string{wrong}); err == nil || !strings.Contains(err.Error(), "--agent") {
			t.Errorf("--agent %q: %v", wrong, err)
		}
	}
	if _, err := ParseLocalAgents([]string{"role=a*64", "role=b"}); err == nil {
		t.Error("65 agents were planned")
	}
}

func TestAgentsOfOneMachineHaveTheirOwnCPUs(t *testing.T) {
	planned, err := ParseLocalAgents([]string{"role=server", "role=client*2"})
	if err != nil {
		t.Fatal(err)
	}
	if warning := placeAgents(planned, host.Placement{Server: []int{6, 7}, Client: []int{0, 1, 2, 3, 4}}); warning != "" {
		t.Error(warning)
	}
	for i, want := range []string{"6,7", "0,1", "2,3"} {
		if got := planned[i].CPUs; got != want {
			t.Errorf("%s has the CPUs %s, want %s", planned[i].Name, got, want)
		}
	}
	warning := placeAgents(planned, host.Placement{Server: []int{1}, Client: []int{0}})
	if !strings.Contains(warning, "2 clients share 1 CPU of") || planned[2].CPUs != "0" {
		t.Errorf("%q, %v", warning, planned)
	}
}
