package worker

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
)

// What the workers of one machine take for one block is none of the neighbours' that the others of
// them see: all have the figures of the one that watched longest. Other machines are left as they are.
func TestWithoutSiblings(t *testing.T) {
	machine := func(boot string, own int64, others float64, pids ...int) *MachineReadings {
		list := []record.Neighbour{{PID: 1, Name: "make"}, {PID: 10, Name: "wirelab"}, {PID: 20, Name: "wirelab"}}
		return &MachineReadings{Boot: boot, WholeNS: 1000, OwnNS: own, PIDs: pids, State: record.HostState{OthersShare: &others, Neighbours: list}}
	}
	a, b, far := machine("here", 300, 0.5, 10), machine("here", 200, 0.25, 20), machine("there", 100, 0.5, 10)
	b.WholeNS = 500
	unknown := &MachineReadings{Boot: "here"}
	SubtractSiblingAgents(a, nil, b, far, unknown)
	for name, c := range map[string]struct {
		of     *MachineReadings
		share  float64
		others []int
	}{
		"a":        {a, 0.3, []int{1}},
		"b":        {b, 0.3, []int{1}},
		"far away": {far, 0.5, []int{1, 20}},
		"unknown":  {unknown, 0.3, []int{1}},
	} {
		var pids []int
		for _, n := range c.of.State.Neighbours {
			pids = append(pids, n.PID)
		}
		if got := *c.of.State.OthersShare; got < c.share-1e-9 || got > c.share+1e-9 || !slices.Equal(pids, c.others) {
			t.Errorf("%s: others took %v, among them %v; want %v, %v", name, got, pids, c.share, c.others)
		}
	}
}
