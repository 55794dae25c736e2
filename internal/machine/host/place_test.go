package host

import (
	"slices"
	"strings"
	"testing"
)

// grid builds a machine of cores with the given number of threads each, the
// way Linux numbers them on most servers: first threads first.
func grid(cores, threads int) Topology {
	var topology Topology
	for id := range cores * threads {
		cpu := CPU{ID: id, Core: id % cores}
		for thread := range threads {
			if sibling := id%cores + thread*cores; sibling != id {
				cpu.Siblings = append(cpu.Siblings, sibling)
			}
		}
		topology.CPUs = append(topology.CPUs, cpu)
		topology.Allowed = append(topology.Allowed, id)
	}
	return topology
}

func hybrid(performance, efficiency int) Topology {
	topology := grid(performance+efficiency, 1)
	for i := performance; i < len(topology.CPUs); i++ {
		topology.CPUs[i].Efficiency = true
	}
	return topology
}

func twoPackages(coresEach int) Topology {
	topology := grid(2*coresEach, 1)
	for i := coresEach; i < 2*coresEach; i++ {
		topology.CPUs[i].Package = 1
	}
	return topology
}

func with(topology Topology, change func(*Topology)) Topology {
	change(&topology)
	return topology
}

func TestPlace(t *testing.T) {
	only := func(allowed ...int) func(*Topology) {
		return func(t *Topology) { t.Allowed = allowed }
	}
	quota := func(cpus float64) func(*Topology) {
		return func(t *Topology) { t.QuotaCPUs = cpus }
	}
	tests := map[string]struct {
		topology Topology
		server   []int
		client   []int
		warnings []string // a part of each, in order
	}{
		"nothing known":       {topology: Topology{}, warnings: []string{"the allowed CPUs are unknown"}},
		"one CPU":             {topology: grid(1, 1), server: []int{0}, client: []int{0}, warnings: []string{"share CPU 0"}},
		"two CPUs":            {topology: grid(2, 1), server: []int{1}, client: []int{0}},
		"one core, two ways":  {topology: grid(1, 2), server: []int{0}, client: []int{1}, warnings: []string{"share a physical core"}},
		"two cores with SMT":  {topology: grid(2, 2), server: []int{1}, client: []int{0, 2}},
		"8P+8E":               {topology: hybrid(8, 8), server: []int{7}, client: []int{0, 1, 2, 3, 4, 5, 6}},
		"1P+2E":               {topology: hybrid(1, 2), server: []int{0}, client: []int{1, 2}, warnings: []string{"efficiency cores"}},
		"only slow cores":     {topology: with(hybrid(2, 2), only(2, 3)), server: []int{3}, client: []int{2}, warnings: []string{"0 fast CPUs"}},
		"two packages":        {topology: twoPackages(4), server: []int{3}, client: []int{0, 1, 2}},
		"two packages, split": {topology: twoPackages(1), server: []int{1}, client: []int{0}, warnings: []string{"use 2 processor packages"}},
		"larger package": {
			topology: with(twoPackages(4), only(2, 5, 6, 7)),
			server:   []int{7}, client: []int{5, 6},
		},
		"affinity": {topology: with(grid(8, 1), only(2, 5)), server: []int{5}, client: []int{2}},
		"quota of half the machine": {
			topology: with(grid(4, 1), quota(2)),
			server:   []int{3}, client: []int{0, 1, 2}, warnings: []string{"quota is 2 CPUs, but server and clients use 4"},
		},
		"quota that suffices": {topology: with(grid(2, 1), quota(2)), server: []int{1}, client: []int{0}},
		"quota on one CPU": {
			topology: with(grid(1, 1), quota(0.5)),
			server:   []int{0}, client: []int{0}, warnings: []string{"share CPU 0", "quota is 0.5 CPUs, but server and clients use 1"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := Place(test.topology)
			if !slices.Equal(got.Server, test.server) || !slices.Equal(got.Client, test.client) {
				t.Errorf("server %v, client %v; want %v, %v", got.Server, got.Client, test.server, test.client)
			}
			if len(got.Warnings) != len(test.warnings) {
				t.Fatalf("warnings %q; want %q", got.Warnings, test.warnings)
			}
			for i, part := range test.warnings {
				if !strings.Contains(got.Warnings[i], part) {
					t.Errorf("warning %q does not say %q", got.Warnings[i], part)
				}
			}
		})
	}
}
