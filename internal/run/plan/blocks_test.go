package plan

import (
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/scenario"
)

func TestBlocksHoldTheVariantsOfAPoint(t *testing.T) {
	s, err := scenario.Parse("blocks.yaml", []byte(`
version: 1
name: blocks
parts:
  - name: part
    stacks: [tcp, "tcp:server=c", "tcp:client=rust", "tcp:peer=cpp", "grpc:caller=ghz", "grpc:client=java"]
    sizes: [64, 4KiB]
    clients: [1, 8]
    repeats: 3
    load: {model: closed, duration: 100ms}
`), Library{}.Vocabulary())
	if err != nil {
		t.Fatal(err)
	}
	trials := Blocks(s.Plan())
	if len(trials) != 3*4*6 {
		t.Fatalf("%d trials, want 72", len(trials))
	}
	alone := []string{
		"measured without slices: grpc:caller=ghz: another program makes the calls",
		"measured without slices: grpc:client=java: its client, the peer java, knows no slices",
	}
	type block struct{ repeat, number int }
	members := map[block]map[string]bool{}
	points := map[block]string{}
	last := block{}
	for _, one := range trials {
		name := one.Cell.Variant.String()
		if (one.Block == 0) != (name == "grpc:caller=ghz" || name == "grpc:client=java") {
			t.Errorf("%s is in block %d", name, one.Block)
		}
		if one.Block == 0 {
			continue
		}
		b := block{one.Repeat, one.Block}
		if members[b] != nil && last != b {
			t.Errorf("block %v is not measured at once", b)
		}
		last = b
		if members[b] == nil {
			members[b], points[b] = map[string]bool{}, pointOf(one.Cell)
		}
		members[b][name] = true
		if points[b] != pointOf(one.Cell) {
			t.Errorf("block %v holds two points", b)
		}
	}
	got := NotInSlices(s)
	slices.Sort(got)
	if !slices.Equal(got, alone) {
		t.Errorf("%q, want %q", got, alone)
	}
	if len(members) != 12 {
		t.Errorf("%d blocks, want 12", len(members))
	}
	for b, names := range members {
		if len(names) != 4 {
			t.Errorf("block %v has the variants %v", b, names)
		}
	}
}

// Calls that wait long for each other need a window of their own.
func TestLongQueuesAreMeasuredAlone(t *testing.T) {
	cell := scenario.Cell{
		Clients: 500, Size: scenario.Payload{Request: 64, Response: 64}, Slices: true,
		Load: scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)}, WarmUp: scenario.WarmUp{AtMost: 1},
	}
	if why := WhyAlone(cell); why != "" {
		t.Errorf("500 callers within a second: %s", why)
	}
	cell.Load.Duration /= 2
	if got, want := WhyAlone(cell), "500 callers of 128 bytes wait too long for each other to take turns within 500ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
