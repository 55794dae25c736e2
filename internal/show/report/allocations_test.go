package report

import (
	"strings"
	"testing"

	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/show/report/export"
	"wirelab.dev/internal/show/report/table"
)

func TestAllocationsAsText(t *testing.T) {
	s := &analysis.Summary{Results: analysis.Results{Allocations: []insight.Allocation{{
		Part: "put", Variant: "grpc", End: insight.ServerEnd, Trials: 1, Calls: 10, Bytes: 2048, Objects: 12.5,
		Functions: []insight.Allocator{{Function: "example.com/codec.Copy", Bytes: 0.75, Objects: 0.5}, {Function: "main.f", Bytes: 0.2, Objects: 0.1}},
		Tree: []insight.Branch{{
			Functions: []string{"main.serve", "example.com/wire.(*Conn).read"}, Bytes: 0.95, Objects: 0.6,
			Calls: []insight.Branch{{Functions: []string{"example.com/codec.Copy"}, Bytes: 0.75, Objects: 0.5}},
		}},
	}}}}
	var lines, trees strings.Builder
	if err := table.WriteAllocators(&lines, s); err != nil {
		t.Fatal(err)
	}
	if err := export.WriteAllocationTrees(&trees, s); err != nil {
		t.Fatal(err)
	}
	const wantLine = "grpc  server  2KiB   12.5     codec.Copy 75%, main.f 20%"
	if !strings.Contains(lines.String(), wantLine) {
		t.Errorf("got\n%swithout\n%s", lines.String(), wantLine)
	}
	const wantTree = "put, grpc, the server: 2KiB in 12.5 objects per call\n" +
		" 95.0%  60.0%  main.serve → wire.(*Conn).read\n" +
		" 75.0%  50.0%    codec.Copy\n"
	if trees.String() != wantTree {
		t.Errorf("got\n%swant\n%s", trees.String(), wantTree)
	}
}
