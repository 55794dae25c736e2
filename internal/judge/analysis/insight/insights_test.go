package insight

import (
	"math"
	"slices"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/judge/analysis/study"
)

// passesOf returns the records of a measured trial and of a pass of each of three probes. All
// times are in microseconds: mean of a call, handler within it, and CPU time at each end in
// two functions, protocol and copying.
func passesOf(variant string, mean, handler, protocol, copying int64) []*record.Record {
	const calls = 1000
	cell := record.Cell{Part: "p", Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 1}}
	base := func(probe string) *record.Record {
		r := &record.Record{Repeat: 1, Probe: probe, Cell: cell, WindowNS: 1e9}
		r.Requests, r.Completed = calls, calls
		r.Service = latency.Distribution{Count: calls, Sum: calls * mean * 1e3, Min: 1, Max: 1e9}
		return r
	}
	bare := base("")
	bare.Client.UserNS, bare.Client.SystemNS = new(calls*(protocol+copying)*1e3), new(int64(0))
	bare.Server.UserNS, bare.Server.SystemNS = bare.Client.UserNS, bare.Client.SystemNS

	cpu := base(record.ProbeCPU)
	seen := &record.Seen{Method: "by looking", Stacks: &record.Stacks{
		Unit: "ns", Samples: protocol + copying,
		Frames: []record.Frame{{Function: "google.golang.org/grpc.serve"}, {Function: "runtime.memmove"}, {Function: "do_syscall_64", In: record.InKernel}},
		// Half as much as there is: samples are scaled up to the CPU time.
		Stacks: []record.Stack{{Frames: []int{0}, Weight: protocol * 500 * calls, Count: protocol}, {Frames: []int{0, 1}, Weight: copying * 500 * calls, Count: copying}},
	}}
	cpu.Client.Seen, cpu.Server.Seen = seen, seen

	syscalls := base(record.ProbeSyscalls)
	syscalls.Client.Seen = &record.Seen{Syscalls: []record.Syscall{{Name: "write", Count: calls, NS: new(int64(calls * 2e3))}, {Name: "read", Count: 2 * calls}}}

	life := base(record.ProbeLife)
	life.Cell.Load = record.Load{Model: "closed", DurationNS: 1e9} // another load than the cell's
	life.Life = &record.Life{Method: "by looking", Stages: []string{"client: encode", "handler"}, TracedNS: new(float64(mean * 1e3)), BareNS: new(float64(mean) * 800)}
	for range calls {
		life.Life.Calls = append(life.Life.Calls, []int64{(mean - handler) * 1e3, handler * 1e3})
	}
	return []*record.Record{bare, cpu, syscalls, life}
}

// TestADifferenceIsExplained finds what was put between two cells.
func TestADifferenceIsExplained(t *testing.T) {
	var records []*record.Record
	for _, r := range append(passesOf("fast", 40, 10, 20, 10), passesOf("slow", 100, 50, 60, 11)...) {
		r.Trial = len(records)
		records = append(records, r)
	}
	measured, passes := study.SplitProfiled(records)
	points, err := study.GroupTrials(&study.Study{Place: map[string]int{"fast": 0, "slow": 1}}, measured)
	if err != nil {
		t.Fatal(err)
	}
	insights := FindInsights(points, nil, passes, BuiltInCategories())
	if len(insights) != 2 || insights[0].Variant != "fast" || insights[1].Life == nil {
		t.Fatalf("insights: %+v", insights)
	}
	e := Explain(DefaultPair(insights))
	if e.Of.Variant != "slow" || e.Against.Variant != "fast" || e.Measured.Ratio == nil || !near(e.Measured.Ratio.Value, 2.5) {
		t.Errorf("%s against %s, %v times as long", e.Of.Variant, e.Against.Variant, e.Measured.Ratio)
	}
	stages := e.Stages[0]
	// The probe cost a quarter: the whole is what it was without.
	if stages.Whole.A != 32 || stages.Whole.B != 80 || stages.Parts[0] != (Change{Name: "handler", A: 10, B: 50}) || stages.Parts[1] != (Change{Name: "client: encode", A: 30, B: 50}) || stages.Rest != -12 {
		t.Errorf("stages: %+v", stages)
	}
	for _, cpu := range e.CPU {
		if cpu.Whole.A != 30 || cpu.Whole.B != 71 || cpu.Rest != 0 || len(cpu.Parts) != 2 {
			t.Fatalf("CPU time: %+v", cpu)
		}
		protocol, copying := cpu.Parts[0], cpu.Parts[1]
		if protocol.Name != "protocol layer" || math.Round(protocol.Difference()) != 40 || copying.Name != "memory copy" || math.Round(copying.Difference()) != 1 {
			t.Errorf("categories: %+v", cpu.Parts)
		}
		// 30 and 71 samples: 40 µs are beyond chance, 1 µs is not.
		if !protocol.IsClear() || copying.IsClear() {
			t.Errorf("a difference of %v ± %v and one of %v ± %v", protocol.Difference(), protocol.Error, copying.Difference(), copying.Error)
		}
	}
	if all := ExplainDefault(append(insights, Insight{Part: "p", Variant: "third"})); !slices.Equal(all.Others, []string{"p/third//0B/c=0"}) {
		t.Errorf("not explained: %q", all.Others)
	}
	if len(e.CPU) != 2 {
		t.Errorf("CPU time of %d ends", len(e.CPU))
	}
	calls := e.Of.Client.Syscalls
	if len(calls) != 2 || calls[0].Name != "read" || calls[0].PerCall != 2 || calls[0].Time != nil || calls[1].PerCall != 1 || *calls[1].Time != 2 {
		t.Errorf("system calls: %+v", calls)
	}
	if pass := e.Of.Passes; len(pass) != 3 || pass[0].Probe != "syscalls" || pass[0].Cost == nil || pass[0].Cost.Value != 1 {
		t.Errorf("passes: %+v", pass)
	}
	if first, last := e.Of.Life.Stages[0], e.Of.Life.Stages[1]; first.End != ClientEnd || last.End != ServerEnd || first.Error != 0 {
		t.Errorf("stages at the %s and the %s, and an error of %v where all calls are the same", first.End, last.End, first.Error)
	}
	if life := e.Of.Life; life.Calls != 1000 || *life.Cost != 1.25 {
		t.Errorf("life: %+v", life)
	}
}

// TestStagesThatVaryMayDifferByChance: so much that a few calls tell nothing.
func TestStagesThatVaryMayDifferByChance(t *testing.T) {
	lifeOf := func(first, second int64) *Insight {
		life := &record.Life{Stages: []string{"wake server", "handler"}, Calls: [][]int64{{first, 3000}, {second, 3000}}}
		return &Insight{Life: newLife([]*record.Record{{Life: life}})}
	}
	one := lifeOf(1000, 3000)
	if stage := one.Life.Stages[0]; stage.Mean != 2 || !near(stage.Error, 1/math.Sqrt2) {
		t.Errorf("of calls of 1 and 3 µs: %+v", stage)
	}
	if change := Explain(lifeOf(5000, 15_000), one).Stages[0].Parts[0]; change.Name != "wake server" || change.IsClear() {
		t.Errorf("%v more with an error of %v are clear", change.Difference(), change.Error)
	}
	if change := Explain(lifeOf(9000, 9000), one).Stages[0].Parts[0]; !change.IsClear() {
		t.Errorf("%v more with an error of %v are not clear", change.Difference(), change.Error)
	}
}

// TestTheUsualPairIsThatOfTheSlowest where only the stages of calls were looked at, too.
func TestTheUsualPairIsThatOfTheSlowest(t *testing.T) {
	looked := func(variant string, us float64) Insight {
		return Insight{Variant: variant, Place: record.Place{Clients: 1}, Life: &Life{Mean: us}}
	}
	of, against := DefaultPair([]Insight{looked("first", 40), looked("middle", 50), looked("slow", 90), looked("fast", 30), {Variant: "elsewhere", Place: record.Place{Clients: 50}, Mean: &matrix.Figure{Value: 900}}})
	if of.Variant != "slow" || against.Variant != "first" {
		t.Errorf("%s against %s", of.Variant, against.Variant)
	}
}

// TestProfilesAddUp puts the stacks of two passes together.
func TestProfilesAddUp(t *testing.T) {
	records := passesOf("only", 40, 10, 20, 10)
	points, err := study.GroupTrials(&study.Study{}, records[:1])
	if err != nil {
		t.Fatal(err)
	}
	all := FindProfiles(points, append(records[1:], records[1]), BuiltInCategories())
	if len(all) != 2 || all[0].End != ClientEnd || all[0].Kind != CPUProfile || all[0].Samples != 60 {
		t.Fatalf("profiles: %+v", all)
	}
	p := all[1]
	sum, copied := 0.0, 0.0
	for _, stack := range p.Stacks {
		sum += stack.Weight
		if p.Categories[stack.Category] == "memory copy" {
			copied += stack.Weight
		}
	}
	if !near(sum, 1) || !near(copied, 1.0/3) || p.PerCall != 30e3 {
		t.Errorf("weights add up to %v, copies to %v, and a call has %v ns", sum, copied, p.PerCall)
	}
}

// TestOneCellIsExplained says where its time goes, against nothing.
func TestOneCellIsExplained(t *testing.T) {
	insights := FindInsights(nil, nil, passesOf("only", 40, 10, 20, 10)[1:], BuiltInCategories())
	e := Explain(DefaultPair(insights))
	if e.Against != nil || e.Measured.Ratio != nil || e.Of.Mean != nil {
		t.Errorf("against %v, mean %v of %v", e.Against, e.Measured.Ratio, e.Of.Mean)
	}
	// No trial was measured: what the samples tell has to do.
	if cpu := e.CPU[0]; cpu.Whole.B != 15 || cpu.Parts[0].B != 10 {
		t.Errorf("CPU time: %+v", cpu)
	}
	if e.Stages[0].Rest != -8 || e.Stages[0].Parts[0].B != 30 {
		t.Errorf("stages: %+v", e.Stages)
	}
}
