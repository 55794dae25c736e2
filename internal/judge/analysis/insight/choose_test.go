package insight

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// looked returns an insight of a cell with 64 bytes whose calls take some microseconds.
func looked(part, variant string, clients int, mean float64) Insight {
	return Insight{Part: part, Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: clients}, Mean: &matrix.Figure{Value: mean}}
}

// TestTheCellsToExplainDifferInLittle: in the variant if there are several, else in the link or workload, else
// in the clients. The heads of columns name what differs.
func TestTheCellsToExplainDifferInLittle(t *testing.T) {
	linked, other := looked("compare-lan", "tcp", 1, 300), looked("other", "tcp", 1, 300)
	linked.Link, other.Workload = "delay=1ms", "echo:compute=50us"
	both := looked("compare-lan", "grpc", 8, 300)
	both.Link = "delay=1ms"
	for _, test := range []struct {
		name         string
		others       []Insight
		of, against  string
		place, total int
	}{
		{"variant", []Insight{linked, looked("compare", "grpc", 1, 50), looked("compare", "tcp", 8, 900)}, "grpc", "tcp", 2, 2},
		{"link", []Insight{linked, looked("compare", "tcp", 8, 900)}, "delay=1ms", "no link", 1, 1},
		{"workload", []Insight{other}, "echo:compute=50us", "echo", 1, 0},
		{"clients", []Insight{looked("compare", "tcp", 4, 90), looked("compare", "tcp", 8, 900)}, "c=8", "c=1", 2, 1},
		{"part alone", []Insight{looked("sustained", "tcp", 1, 900)}, "sustained", "compare", 1, 0},
	} {
		insights := append([]Insight{looked("compare", "tcp", 1, 40)}, test.others...)
		e := ExplainDefault(insights)
		of, against := e.Names()
		if of != test.of || against != test.against || e.Of != &insights[test.place] || e.Against != &insights[0] || len(e.Others) != test.total {
			t.Errorf("%s: %q against %q, others %q", test.name, of, against, e.Others)
		}
	}
	first := looked("compare", "tcp", 1, 40)
	if of, against := Explain(&both, &first).Names(); of != "grpc, delay=1ms, c=8" || against != "tcp, no link, c=1" {
		t.Errorf("of everything: %q against %q", of, against)
	}
}

// Names may have commas, and options in any order.
func TestCellsAreNamedAsPeopleWriteThem(t *testing.T) {
	const pooled, tiers = "tcp:buffers=pooled,inflight=16", "grpc:gogc=400,pool-tiers=256/4KiB"
	insights := []Insight{looked("main", "tcp", 1, 40), looked("main", pooled, 1, 50), looked("main", tiers, 1, 90)}
	for cells, want := range map[string][2]string{
		"tcp":                            {"tcp", ""},
		pooled:                           {pooled, ""},
		"tcp:inflight=16,buffers=pooled": {pooled, ""},
		"tcp," + pooled:                  {pooled, "tcp"},
		"tcp:inflight=16,buffers=pooled,grpc:pool-tiers=256/4KiB,gogc=400":               {tiers, pooled},
		"tcp:inflight=16,buffers=pooled; tcp":                                            {"tcp", pooled},
		"main/grpc:pool-tiers=256/4KiB,gogc=400/echo/64B/c=1":                            {tiers, ""},
		"grpc:pool-tiers=256/4KiB,gogc=400/echo/64B;tcp:inflight=16,buffers=pooled/echo": {pooled, tiers},
	} {
		e, err := ExplainCells(cells, insights)
		if err != nil {
			t.Errorf("%s: %v", cells, err)
			continue
		}
		against := ""
		if e.Against != nil {
			against = e.Against.Variant
		}
		if e.Of.Variant != want[0] || against != want[1] {
			t.Errorf("%s: %s against %q, want %q", cells, e.Of.Variant, against, want)
		}
	}
	for cells, says := range map[string]string{"tcp,grpc,rest": "if a name has commas, write a semicolon between the names", "tcp;rest": `no probed cell matches "rest"`} {
		if _, err := ExplainCells(cells, insights); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", cells, err)
		}
	}
}

// TestTwoRunsAreExplained: the cell that both have, or the named ones.
func TestTwoRunsAreExplained(t *testing.T) {
	inRun := func(run string, all ...Insight) []Insight {
		for i := range all {
			all[i].Run = run
		}
		return all
	}
	before := inRun("before", looked("p", "tcp", 1, 40), looked("p", "grpc", 1, 90))
	after := inRun("after", looked("p", "grpc", 1, 120), looked("p", "rest", 1, 150))
	for cells, want := range map[string]string{
		"":              "after p/grpc/echo/64B/c=1 | before p/grpc/echo/64B/c=1",
		"grpc":          "after p/grpc/echo/64B/c=1 | before p/grpc/echo/64B/c=1",
		"tcp,rest":      "after p/rest/echo/64B/c=1 | before p/tcp/echo/64B/c=1",
		"p/tcp,p/grpc":  "after p/grpc/echo/64B/c=1 | before p/tcp/echo/64B/c=1",
		"tcp":           `after: no probed cell matches "tcp"`,
		"rest":          `before: no probed cell matches "rest"`,
		"tcp,grpc,rest": "3 cells were named",
	} {
		e, err := ExplainRuns(cells, before, after)
		var got string
		if err != nil {
			got = err.Error()
		} else {
			got = e.Of.Run + " " + e.Of.Key() + " | " + e.Against.Run + " " + e.Against.Key()
		}
		if !strings.HasPrefix(got, want) {
			t.Errorf("%q explains %q, want %q", cells, got, want)
		}
	}
	if e, err := ExplainRuns("grpc", before, after); err != nil {
		t.Error(err)
	} else if of, against := e.Names(); of != "after" || against != "before" {
		t.Errorf("one cell of two runs is named %q and %q", of, against)
	}
	if _, err := ExplainRuns("", before[:1], after); err == nil || !strings.Contains(err.Error(), "--cells A,B\n  before: p/tcp/echo/64B/c=1\n  after: p/grpc/echo/64B/c=1") {
		t.Errorf("two runs without a common cell: %v", err)
	}
}

// TestUnobservedEndsSayWhy: a probe that saw nothing gives its reason.
func TestUnobservedEndsSayWhy(t *testing.T) {
	records := passesOf("tcp", 40, 10, 20, 10)
	for i, r := range records {
		r.Trial = i
		if r.Probe == record.ProbeSyscalls {
			r.Server.Seen = &record.Seen{Missing: []string{"all figures: not allowed"}}
		}
	}
	found := insightsOf(t, records)
	if len(found) != 1 || found[0].Life == nil || len(found[0].Passes) != 3 {
		t.Fatalf("insights: %+v", found)
	}
	if e := ExplainDefault(found); len(e.CPU) != 2 || len(e.Stages) != 1 || !slices.Equal(e.Unobserved, []string{"tcp, server: nothing by syscalls: all figures: not allowed"}) {
		t.Errorf("CPU times %d, stages %d, not observed %q", len(e.CPU), len(e.Stages), e.Unobserved)
	}
	// Without a call that has stages, the explanation says why.
	life := records[len(records)-1]
	life.Life.Calls, life.Life.Missing = nil, []string{"all calls: lost"}
	if e := ExplainDefault(insightsOf(t, records)); !slices.Contains(e.Unobserved, "tcp: no stages of calls: all calls: lost") {
		t.Errorf("not observed: %q", e.Unobserved)
	}
}

// TestWaitsAndAllocationsAreExplained, for each end that both cells have.
func TestWaitsAndAllocationsAreExplained(t *testing.T) {
	end := func(waits, bytes float64) EndReadings {
		return EndReadings{
			OffCPU:    &Breakdown{PerCall: waits, Categories: []Category{{Name: "a sleep", PerCall: waits}}},
			Allocated: &Allocation{Bytes: bytes, Objects: 4, Functions: []Allocator{{Function: "a.b", Bytes: 0.5}}},
		}
	}
	a, b := looked("p", "tcp", 1, 40), looked("p", "grpc", 1, 90)
	a.Client, b.Client, b.Server = end(10, 1000), end(30, 4000), end(1, 1)
	e := Explain(&b, &a)
	if len(e.OffCPU) != 1 || e.OffCPU[0].Whole.Difference() != 20 || e.OffCPU[0].Parts[0].Difference() != 20 {
		t.Errorf("waits: %+v", e.OffCPU)
	}
	if len(e.Allocations) != 1 || e.Allocations[0].Bytes.Difference() != 3000 || e.Allocations[0].Functions[0] != (Change{Name: "a.b", End: ClientEnd, A: 500, B: 2000}) {
		t.Errorf("allocations: %+v", e.Allocations)
	}
	if alone := Explain(&b, nil); len(alone.OffCPU) != 2 || len(alone.Allocations) != 2 {
		t.Errorf("of one cell: %+v and %+v", alone.OffCPU, alone.Allocations)
	}
}

func insightsOf(t *testing.T, records []*record.Record) []Insight {
	t.Helper()
	measured, passes := study.SplitProfiled(records)
	points, err := study.GroupTrials(&study.Study{Place: map[string]int{"tcp": 0}}, measured)
	if err != nil {
		t.Fatal(err)
	}
	return FindInsights(points, nil, passes, BuiltInCategories())
}
