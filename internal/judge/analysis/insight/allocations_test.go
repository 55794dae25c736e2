package insight

import (
	"slices"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func profiled(trial int, variant string, stacks ...record.AllocationStack) *record.Record {
	r := &record.Record{
		Trial: trial, Probe: "alloc", Cell: record.Cell{Part: "p", Variant: variant},
		Measurement: record.Measurement{Requests: 8, WarmUp: record.WarmUp{Requests: 2}},
	}
	r.Server.Allocations = &record.Allocations{Stacks: stacks}
	for _, s := range stacks {
		r.Server.Allocations.Bytes += s.Bytes
		r.Server.Allocations.Objects += s.Objects
	}
	return r
}

func stackOf(bytes, objects int64, functions ...string) record.AllocationStack {
	return record.AllocationStack{Functions: functions, Bytes: bytes, Objects: objects}
}

// TestAllocations recovers the tree that the stacks were taken from.
func TestAllocations(t *testing.T) {
	stacks := []record.AllocationStack{
		stackOf(600, 5, "serve", "handle", "read", "copy"),
		stackOf(200, 3, "serve", "handle", "read", "grow"),
		stackOf(190, 1, "serve", "handle", "copy"),
		stackOf(9, 0, "other"),
		stackOf(1, 1, "serve", "handle", "read"),
	}
	points := []*matrix.Point{{Cell: record.Cell{Part: "p", Variant: "first"}}, {Cell: record.Cell{Part: "p", Variant: "second"}}}
	all := FindAllocations(points, []*record.Record{
		profiled(0, "second", stacks...), profiled(1, "first", stacks...), profiled(2, "first", stacks...),
	})
	if len(all) != 2 || all[0].Variant != "first" || all[0].End != ServerEnd || all[0].Trials != 2 || all[0].Calls != 20 {
		t.Fatalf("got %+v", all)
	}
	a := all[0]
	if a.Bytes != 100 || a.Objects != 1 {
		t.Errorf("%v bytes and %v objects per call, want 100 and 1", a.Bytes, a.Objects)
	}
	want := []Allocator{{"copy", 0.79, 0.6}, {"grow", 0.2, 0.3}, {"read", 0.001, 0.1}}
	if !slices.EqualFunc(a.Functions, want, func(x, y Allocator) bool {
		return x.Function == y.Function && near(x.Bytes, y.Bytes) && near(x.Objects, y.Objects)
	}) {
		t.Errorf("functions %+v, want %+v", a.Functions, want)
	}
	if len(a.Tree) != 1 || !slices.Equal(a.Tree[0].Functions, []string{"serve", "handle"}) || !near(a.Tree[0].Bytes, 0.991) {
		t.Fatalf("the tree is %+v", a.Tree)
	}
	calls := a.Tree[0].Calls
	if len(calls) != 2 || calls[0].Functions[0] != "read" || len(calls[0].Calls) != 2 || calls[1].Functions[0] != "copy" || !near(calls[1].Bytes, 0.19) {
		t.Errorf("the branches are %+v", calls)
	}
}

func near(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 }
