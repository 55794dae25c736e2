package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A part that tries levers has a stack for each of them; a mistake is named with its line.
func TestLeversNeedTheirStacks(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nname: try\nparts:\n  - name: levers\n    stacks: [tcp, rest]\n    sizes: [64]\n    clients: [1]\n    levers:\n      %s\n"
	for levers, want := range map[string]string{
		"tried: [{stack: rest, name: the other wire, write: use REST, costs: time}]": "",
		"{against: rest, figure: cpu, tried: [{stack: rest, name: the other wire}]}": "",
		"{figure: p95, tried: [{stack: rest, name: the other wire}]}":                `figure: found "p95": want mean, p99 or cpu`,
		"figure: mean": "part levers tries no lever: list other variants of the first stack under `stacks`",
		"{against: grpc, tried: [{stack: rest, name: the other wire}]}": "against: the part has no stack grpc: list it under `stacks`",
		"tried: [{stack: grpc, name: the other wire}]":                  "the lever the other wire: the part has no changed stack grpc",
		"tried: [{stack: tcp, name: the same wire}]":                    "the lever the same wire: the part has no changed stack tcp",
		"tried: [{stack: rest, name: both, both: [rest, grpc]}]":        "the lever both: the part has no changed stack grpc",
		"tried: [{stack: rest, name: later, delay: soon}]":              `duration "soon": want a number and its unit`,
	} {
		s, err := Parse("try.yaml", fmt.Appendf(nil, file, levers), words)
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", levers, err)
		case want == "" && len(s.Parts[0].Levers.Tried) != 1:
			t.Errorf("%s: %+v", levers, s.Parts[0].Levers)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "try.yaml:")):
			t.Errorf("%s: %v, want %q", levers, err, want)
		}
	}
}

// A part that only asks for levers tries the other variants of its first stack.
func TestLeversAreTheOtherVariants(t *testing.T) {
	t.Parallel()
	const file = "version: 1\nname: try\nparts:\n  - {name: p, stacks: [%s], sizes: [64], clients: [1], levers: {figure: p99}}\n"
	for stacks, want := range map[string][]string{
		`tcp, "tcp:buffers=pooled", "tcp:buffers=pooled,inflight=2", rest`: {"buffers=pooled", "buffers=pooled,inflight=2"},
		`"tcp:inflight=9", "tcp:buffers=pooled,inflight=9", tcp`:           {"buffers=pooled", "without inflight=9"},
	} {
		s, err := Parse("try.yaml", fmt.Appendf(nil, file, stacks), words)
		if err != nil {
			t.Error(err)
			continue
		}
		var names []string
		for _, lever := range s.Parts[0].Levers.Tried {
			names = append(names, lever.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", stacks, names, want)
		}
	}
}
