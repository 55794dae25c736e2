package report

import (
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
)

// An inside holds what the fixture's probes see of a variant, in microseconds per call.
type inside struct {
	variant string
	life    []int64                     // by stage
	cpu     map[string]map[string]int64 // of each end, by function
	reads   int64                       // of the client, a call
}

var insides = []inside{
	{"tcp", []int64{2, 3, 5, 7, 1, 2, 1, 1, 4, 5, 5, 1, 2}, cpuOfBoth(2, 1), 3},
	{"rest", []int64{9, 3, 6, 6, 1, 14, 1, 9, 4, 6, 5, 1, 12}, cpuOfBoth(11, 7), 3},
	{"grpc", []int64{13, 4, 6, 7, 1, 27, 1, 10, 5, 6, 5, 1, 12}, cpuOfBoth(19, 9), 2},
}

// cpuOfBoth returns the CPU time of both ends. Variants differ in protocol and copying only.
func cpuOfBoth(protocol, copying int64) map[string]map[string]int64 {
	server := map[string]int64{"google.golang.org/grpc.serve": 2 * protocol, "runtime.memmove": copying, "runtime.findRunnable": 5}
	client := map[string]int64{"google.golang.org/grpc.serve": protocol, "runtime.memmove": 3, "runtime.findRunnable": 6}
	return map[string]map[string]int64{insight.ClientEnd: client, insight.ServerEnd: server}
}

// fixtureStages are those that package life tells apart, which measures: this one only judges.
var fixtureStages = []string{
	"client: encode", "send request", "wake server", "server: schedule", "receive request", "server: decode", "handler",
	"server: encode", "send answer", "wake client", "client: schedule", "receive answer", "client: decode",
}

const fixtureCalls = 1200 // enough for P99

// fixtureInsights is a run whose probes looked into all variants at 64 B with one client and
// with ten, and into two calls of one alone at 1 KiB, without the kernel, as analysis judges its records.
func fixtureInsights(t *testing.T, of ...inside) *Run {
	t.Helper()
	var records []*record.Record
	add := func(in inside, probe string, bytes, clients int) *record.Record {
		r := &record.Record{
			Version: record.Version, Trial: len(records), Repeat: 1, Probe: probe, Cell: fixtureCell("matrix", in.variant, bytes, clients).Cell,
			Started: time.Date(2026, 11, 21, 5, 31, len(records), 0, time.UTC), WindowNS: int64(time.Second),
			Measurement: record.Measurement{Requests: fixtureCalls, Completed: fixtureCalls, Service: fixtureDistribution(t, time.Duration(total(in.life))*time.Microsecond)},
		}
		records = append(records, r)
		return r
	}
	for _, clients := range []int{1, 10} {
		for _, in := range of {
			bare := add(in, "", 64, clients)
			bare.Client.UserNS, bare.Client.SystemNS = new(1000*fixtureCalls*totalOf(in.cpu[insight.ClientEnd])), new(int64(0))
			bare.Server.UserNS, bare.Server.SystemNS = new(1000*fixtureCalls*totalOf(in.cpu[insight.ServerEnd])), new(int64(0))
			cpu := add(in, record.ProbeCPU, 64, clients)
			cpu.Client.Seen, cpu.Server.Seen = in.samples(insight.ClientEnd), in.samples(insight.ServerEnd)
			calls := add(in, record.ProbeSyscalls, 64, clients)
			calls.Client.Seen = &record.Seen{Method: "BPF on every system call", Syscalls: []record.Syscall{
				{Name: "write", Count: fixtureCalls, NS: new(int64(fixtureCalls * 6500))},
				{Name: "read", Count: in.reads * fixtureCalls},
				{Name: "munmap", Count: 1, NS: new(int64(2000))},
			}}
			counters := add(in, record.ProbeCounters, 64, clients)
			counters.Client.Seen = &record.Seen{Method: "perf events", Missing: []string{"cycles: this machine <has> no counter for it"}, Counters: []record.Counter{{Name: "cpu-migrations", Count: 1200 * float64(in.reads)}}}
			if clients == 1 {
				in.addLife(add(in, record.ProbeLife, 64, clients))
			}
		}
	}
	add(of[0], "", 1024, 1)
	add(of[0], record.ProbeLife, 1024, 1).Life = &record.Life{Method: "the processes alone", Stages: []string{"request", "handler", "answer"}, Calls: [][]int64{{30_000, 1000, 20_000}, {40_000, 1000, 40_000}}}
	summary, err := analysis.Summarize(&record.Manifest{Name: "why", Status: record.Done, Trials: len(records), Started: records[0].Started}, analysis.JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Summary: summary, Records: records}
}

// samples returns the samples of a profiler that sees each microsecond of one call.
func (in inside) samples(end string) *record.Seen {
	stacks := &record.Stacks{Unit: "ns"}
	for i, function := range []string{"google.golang.org/grpc.serve", "runtime.memmove", "runtime.findRunnable"} {
		us := in.cpu[end][function]
		stacks.Frames = append(stacks.Frames, record.Frame{Function: function})
		stacks.Stacks = append(stacks.Stacks, record.Stack{Frames: []int{i}, Weight: us * 1000 * fixtureCalls, Count: 10 * us})
		stacks.Samples += 10 * us
	}
	return &record.Seen{Method: "perf events on the CPUs", Stacks: stacks}
}

// addLife has calls that differ in how long it takes to wake the server: a few take very long.
func (in inside) addLife(r *record.Record) {
	r.Life = &record.Life{Method: "BPF, by turns", Stages: fixtureStages, Untold: 4, TracedNS: new(float64(1000 * total(in.life))), BareNS: new(float64(950 * total(in.life)))}
	for i := range fixtureCalls {
		call := make([]int64, len(in.life))
		for stage, us := range in.life {
			call[stage] = us * 1000
		}
		if i%100 == 0 {
			call[2] *= 20
		}
		r.Life.Calls = append(r.Life.Calls, call)
	}
	if in.variant == "grpc" {
		r.Life.Stacks = fixtureCallStacks(r.Life)
	}
}

// fixtureCallStacks has one function per stage. What slow calls wait longer for the server, they wait in
// a function of their own.
func fixtureCallStacks(life *record.Life) *record.CallStacks {
	stacks := &record.CallStacks{Functions: append(slices.Clone(life.Stages), "example.com/app.call", "example.com/app.stalled", "sync.(*Mutex).Lock")}
	const wakeServer = 2
	call, stalled := len(life.Stages), len(life.Stages)+1
	for i := range life.Stages {
		stacks.Stacks = append(stacks.Stacks, []int{i, call})
	}
	stacks.Stacks = append(stacks.Stacks, []int{wakeServer, call, stalled, stalled + 1})
	bySpeed := life.BySpeed()
	usual := life.Calls[bySpeed[0]][wakeServer]
	times := func(calls ...int) (all []record.StackTime) {
		sums := make([]int64, len(stacks.Stacks))
		for _, one := range calls {
			for stage, ns := range life.Calls[one] {
				sums[stage] += ns
			}
			sums[wakeServer] -= life.Calls[one][wakeServer] - usual
			sums[len(life.Stages)] += life.Calls[one][wakeServer] - usual
		}
		for stack, ns := range sums {
			if ns > 0 {
				all = append(all, record.StackTime{Stack: stack, NS: ns})
			}
		}
		return all
	}
	for _, slow := range record.MostSlowCalls(bySpeed) {
		stacks.Slow = append(stacks.Slow, times(slow))
	}
	stacks.Median = times(record.MedianCalls(bySpeed)...)
	return stacks
}

func total(of []int64) (sum int64) {
	for _, value := range of {
		sum += value
	}
	return sum
}

func totalOf(of map[string]int64) (sum int64) {
	for _, value := range of {
		sum += value
	}
	return sum
}
