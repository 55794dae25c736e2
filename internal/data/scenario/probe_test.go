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
		Load: Load{Model: Closed, Requests: 7},
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
	for probe, want := range map[Probe]int{record.ProbeSyscalls: 4 * 2, record.ProbeCPU: 4 * 2, record.ProbeLife: 4 * 2} {
		of := passes[probe]
		if len(of) != want {
			t.Errorf("%s has %d passes, want %d: two of each cell", probe, len(of), want)
		}
		repeats := map[int]bool{}
		for _, pass := range of {
			repeats[pass.Repeat] = true
		}
		if len(repeats) != 2 {
			t.Errorf("%s has passes in the repeats %v, want two of them", probe, repeats)
		}
	}
	clients := map[int]int{}
	for _, pass := range passes[record.ProbeLife] {
		clients[pass.Cell.Clients]++
		if load := pass.Cell.Load; load.Model != Closed || load.Requests != 0 || load.Duration != Duration(lifeProbeWindow) {
			t.Errorf("the load of the probe life is %+v, want a closed loop of %v", load, lifeProbeWindow)
		}
	}
	if clients[1] != 4 || clients[50] != 4 {
		t.Errorf("the life of calls is observed with %v passes by clients, want 4 with 1 client and 4 with 50", clients)
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
