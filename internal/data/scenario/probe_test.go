package scenario

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

// TestPassesAreAmongTheRepeats: a probe has passes of its own, spread over the repeats; the
// trials that are measured keep their order.
func TestPassesAreAmongTheRepeats(t *testing.T) {
	part := Part{
		Name: "p", Workload: "echo", Repeats: 6,
		Stacks: []Variant{{Stack: "tcp"}, {Stack: "grpc"}}, Sizes: []Payload{{64, 64}}, Clients: []int{1, 50},
		Load: Load{Model: Open, Rate: 100, Duration: Duration(lifeProbeWindow)},
	}
	bare := Scenario{Seed: 7, Parts: []Part{part}}
	part.Probes = []Probe{record.ProbeSyscalls, record.ProbeCPU, record.ProbeLife}
	probed := Scenario{Seed: 7, Parts: []Part{part}}

	passes := map[Probe][]PlannedCell{}
	for _, trial := range probed.Plan() {
		passes[trial.Cell.Probe] = append(passes[trial.Cell.Probe], trial)
	}
	if cells := len(passes[""]); cells != len(bare.Plan()) {
		t.Errorf("%d trials are measured, want those %d that there are without probes", cells, len(bare.Plan()))
	}
	for probe, want := range map[Probe]int{record.ProbeSyscalls: 4 * 2, record.ProbeCPU: 4 * 2, record.ProbeLife: 2 * 2} {
		of := passes[probe]
		if len(of) != want {
			t.Errorf("%s has %d passes, want %d: two of each cell, and of each call's life", probe, len(of), want)
		}
		repeats := map[int]bool{}
		for _, pass := range of {
			repeats[pass.Repeat] = true
		}
		if len(repeats) != 2 {
			t.Errorf("%s has passes in the repeats %v, want two of them", probe, repeats)
		}
	}
	for _, pass := range passes[record.ProbeLife] {
		if pass.Cell.Clients != 1 || pass.Cell.Load.Model != Closed {
			t.Errorf("the life of a call is seen with %d clients and a load %q: stages of several calls cannot be told apart", pass.Cell.Clients, pass.Cell.Load.Model)
		}
	}
	part.Probes = nil
	if !slices.EqualFunc(bare.Plan(), (&Scenario{Seed: 7, Parts: []Part{part}}).Plan(), func(a, b PlannedCell) bool {
		return a.Repeat == b.Repeat && a.Cell.Variant.String() == b.Cell.Variant.String() && a.Cell.Clients == b.Cell.Clients
	}) {
		t.Error("a part without probes has another order than before")
	}
}

func TestParseProbes(t *testing.T) {
	if got, err := ParseProbes([]string{"life", "cpu", "life"}); err != nil || !slices.Equal(got, []Probe{record.ProbeLife, record.ProbeCPU}) {
		t.Errorf("life,cpu,life is read as %v, %v", got, err)
	}
	if got, err := ParseProbes([]string{"all"}); err != nil || !slices.Equal(got, Probes) {
		t.Errorf("all is read as %v, %v", got, err)
	}
	if _, err := ParseProbes([]string{"syscals"}); err == nil || !strings.Contains(err.Error(), "did you mean syscalls") {
		t.Errorf("syscals: %v", err)
	}
}
