package crowd

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
)

func counted(method string, calls, ns int64) *record.Seen {
	return &record.Seen{Method: method, Syscalls: []record.Syscall{{Name: "write", Count: calls, NS: &ns}}}
}

func parts(seen ...*record.Seen) (all []worker.ClientPart) {
	for i, s := range seen {
		all = append(all, worker.ClientPart{Agent: fmt.Sprintf("c%d", i+1), Result: worker.Result{Machine: &worker.MachineReadings{Seen: s}}})
	}
	return all
}

func TestMergeSeen(t *testing.T) {
	one, two := counted("BPF", 10, 100), counted("BPF", 5, 50)
	two.Syscalls = append(two.Syscalls, record.Syscall{Name: "futex", Count: 30})
	one.Counters, two.Counters = []record.Counter{{Name: "cycles", Count: 7}}, []record.Counter{{Name: "cycles", Count: 3, Share: 0.5}, {Name: "misses", Count: 1}}
	one.Missing = []string{"misses: no counter"}
	merged := MergeSeen(parts(one, two))
	text, err := json.Marshal(merged)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"method":"BPF","counters":[{"name":"cycles","count":10,"share":0.5}],"syscalls":[{"name":"futex","count":30},{"name":"write","count":15,"ns":150}],"missing":["c1: misses: no counter"]}`
	if string(text) != want {
		t.Errorf("merged\n%s, want\n%s", text, want)
	}
	if one.Syscalls[0].Count != 10 || one.Missing[0] != "misses: no counter" {
		t.Errorf("a part was changed: %+v", one)
	}
	for name, c := range map[string]struct {
		parts []worker.ClientPart
		want  string
	}{
		"one sent nothing": {parts(counted("BPF", 1, 1), nil), "c2: all figures: the agent sent none"},
		"one failed":       {parts(&record.Seen{Missing: []string{"all figures: broken"}}, counted("BPF", 1, 1)), "c1: all figures: broken"},
		"other methods":    {parts(counted("BPF", 1, 1), counted("procfs", 1, 1)), `c1 observes by "BPF", c2 by "procfs"; choose agents`},
	} {
		if m := MergeSeen(c.parts); m.Method != "" || len(m.Syscalls) > 0 || len(m.Missing) != 1 || !strings.Contains(m.Missing[0], c.want) {
			t.Errorf("%s: merged %+v, want %q and no figure", name, m, c.want)
		}
	}
}

// Equal stacks are added up, the lightest of too many become one, and no weight is lost.
func TestStacksAreBounded(t *testing.T) {
	s := &record.Stacks{Unit: "ns", Samples: 3 * maxStacks}
	for i := range 2 * maxStacks {
		s.Frames = append(s.Frames, record.Frame{Function: fmt.Sprint("f", i)})
		s.Stacks = append(s.Stacks, record.Stack{Frames: []int{i}, Weight: int64(i), Count: 1})
	}
	twice := s.Plus(*s)
	seen := &record.Seen{Method: "m", Stacks: &twice}
	BoundStacks(seen)
	kept, weight := seen.Stacks.Stacks, int64(0)
	for _, stack := range kept {
		weight += stack.Weight
	}
	if want := int64(2*maxStacks) * (2*maxStacks - 1); len(kept) != maxStacks || weight != want || kept[0].Weight != 2*(2*maxStacks-1) || len(seen.Missing) != 1 {
		t.Errorf("%d stacks weigh %d, want %d; the first %+v; missing %q", len(kept), weight, want, kept[0], seen.Missing)
	}
	if err := (ReportLimit{Probe: record.ProbeCPU, CPUs: 4, Life: time.Minute}).CheckReport(&parts(seen)[0].Result); err != nil {
		t.Errorf("a bounded report is refused: %v", err)
	}
}

func stacked(change func(*record.Stacks)) *record.Seen {
	s := &record.Stacks{Unit: "ns", Samples: 1, Frames: []record.Frame{{Function: "main"}}, Stacks: []record.Stack{{Frames: []int{0}, Weight: 1e6, Count: 1}}}
	change(s)
	return &record.Seen{Method: "perf events", Stacks: s}
}

// TestForgedReports: an agent's report that cannot be true is refused with the reason, and a true one is not.
func TestForgedReports(t *testing.T) {
	const probeless = ""
	withText := func(text string) *record.Seen { return &record.Seen{Method: "BPF", Missing: []string{text}} }
	for name, c := range map[string]struct {
		probe string
		seen  *record.Seen
		want  string // empty: not refused
	}{
		"a true count":         {record.ProbeSyscalls, counted("BPF", 1e8, 20e9), ""},
		"a failed probe":       {record.ProbeSyscalls, &record.Seen{Missing: []string{"all figures: broken"}}, ""},
		"true stacks":          {record.ProbeCPU, stacked(func(*record.Stacks) {}), ""},
		"true counters":        {record.ProbeCounters, &record.Seen{Method: "perf", Counters: []record.Counter{{Name: "instructions", Count: 4e11, Share: 0.9}}}, ""},
		"negative":             {record.ProbeSyscalls, counted("BPF", -1, 1), `it has -1 system calls "write": want 0 to`},
		"huge":                 {record.ProbeSyscalls, counted("BPF", math.MaxInt64, 1), `it has 9223372036854775807 system calls "write"`},
		"negative time":        {record.ProbeSyscalls, counted("BPF", 1, -1), `it has -1 ns in system calls "write"`},
		"huge time":            {record.ProbeSyscalls, counted("BPF", 1, math.MaxInt64), `ns in system calls "write"`},
		"twice":                {record.ProbeSyscalls, &record.Seen{Method: "BPF", Syscalls: []record.Syscall{{Name: "read"}, {Name: "read"}}}, `the name "read" twice`},
		"of another kind":      {record.ProbeSyscalls, stacked(func(*record.Stacks) {}), "figures of another kind, and the order was the probe syscalls"},
		"of two kinds":         {record.ProbeCPU, &record.Seen{Stacks: &record.Stacks{Unit: "ns"}, Counters: []record.Counter{{Name: "x"}}}, "figures of another kind"},
		"not ordered":          {probeless, counted("BPF", 1, 1), "figures of another kind, and the order was a trial without a probe"},
		"only in the worker":   {record.ProbeAllocations, counted("BPF", 1, 1), "figures of another kind"},
		"escape sequences":     {record.ProbeSyscalls, withText("\x1b[2J"), `it has the text "\x1b[2J"`},
		"a long text":          {record.ProbeSyscalls, withText(strings.Repeat("x", maxNameBytes+1)), "want printable characters, at most"},
		"many texts":           {record.ProbeSyscalls, &record.Seen{Missing: make([]string, maxMissing+1)}, "want at most"},
		"no such function":     {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Frames[0] = 1 }), "a stack has the functions [1], of a list of 1"},
		"a negative function":  {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Frames[0] = -1 }), "a stack has the functions [-1]"},
		"a deep stack":         {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Frames = make([]int, maxStackFrames+1) }), "want at most 512"},
		"many stacks":          {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks = make([]record.Stack, maxStacks+1) }), "want at most 16384 stacks"},
		"more than the CPUs":   {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Weight = 1e12 }), "its stacks have 1e+12 ns"},
		"a negative weight":    {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Weight = -1 }), "the last of them -1 ns"},
		"negative samples":     {record.ProbeCPU, stacked(func(s *record.Stacks) { s.Samples = -1 }), "it has -1 samples"},
		"another unit":         {record.ProbeOffCPU, stacked(func(s *record.Stacks) { s.Unit = "s" }), `the unit "s": want ns`},
		"a negative counter":   {record.ProbeCounters, &record.Seen{Counters: []record.Counter{{Name: "cycles", Count: -1}}}, `it has -1 events of "cycles"`},
		"a huge counter":       {record.ProbeCounters, &record.Seen{Counters: []record.Counter{{Name: "cycles", Count: 1e300}}}, `it has 1e+300 events of "cycles"`},
		"an impossible share":  {record.ProbeCounters, &record.Seen{Counters: []record.Counter{{Name: "cycles", Share: 2}}}, "in the share 2 of the time"},
		"waits of all threads": {record.ProbeOffCPU, stacked(func(s *record.Stacks) { s.Stacks[0].Weight = 300e9 }), ""},
	} {
		err := (ReportLimit{Probe: c.probe, CPUs: 4, Life: 10 * time.Second}).CheckReport(&parts(c.seen)[0].Result)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// What workers report themselves is checked, too.
func TestForgedReportsOfWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		probe  string
		result worker.Result
		want   string
	}{
		"true":        {record.ProbeAllocations, worker.Result{Client: &worker.ClientResult{Allocations: &record.Allocations{Bytes: 1e9, Objects: 1e6}}}, ""},
		"not ordered": {record.ProbeCPU, worker.Result{Server: &worker.ServerResult{Allocations: &record.Allocations{}}}, "it has allocations, and the order was the probe cpu"},
		"negative":    {record.ProbeAllocations, worker.Result{Server: &worker.ServerResult{Allocations: &record.Allocations{Bytes: -1}}}, "allocate -1 bytes"},
		"huge":        {record.ProbeAllocations, worker.Result{Client: &worker.ClientResult{Allocations: &record.Allocations{Objects: math.MaxInt64}}}, "9223372036854775807 objects"},
		"a profile":   {record.ProbeCPU, worker.Result{Client: &worker.ClientResult{CPU: &record.Stacks{}}}, "figures that only workers of this machine report"},
		"instants":    {record.ProbeCPU, worker.Result{Server: &worker.ServerResult{Handled: worker.CallInstants{{1, 1}}}}, "figures that only workers of this machine report"},
	} {
		err := (ReportLimit{Probe: c.probe, CPUs: 4, Life: 10 * time.Second}).CheckReport(&c.result)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}

// FuzzReport: whatever is not refused can be merged, and its sums stay in range.
func FuzzReport(f *testing.F) {
	for _, seen := range []*record.Seen{counted("BPF", 1, 2), stacked(func(*record.Stacks) {}), {Method: "perf", Counters: []record.Counter{{Name: "cycles", Count: 3, Share: 0.5}}}} {
		text, err := json.Marshal(seen)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var seen record.Seen
		if json.Unmarshal(text, &seen) != nil {
			return
		}
		for _, probe := range record.Probes {
			all := parts(&seen, &seen)
			if (ReportLimit{Probe: probe, CPUs: math.MaxInt, Life: 24 * time.Hour}).CheckReport(&all[0].Result) != nil {
				continue
			}
			merged := MergeSeen(all)
			if slices.ContainsFunc(merged.Syscalls, func(c record.Syscall) bool { return c.Count < 0 || c.NS != nil && *c.NS < 0 }) {
				t.Errorf("the sum is negative: %+v", merged)
			}
			if merged.Stacks != nil && slices.ContainsFunc(merged.Stacks.Stacks, func(s record.Stack) bool { return s.Weight < 0 || s.Count < 0 }) {
				t.Errorf("the sum of stacks is negative: %+v", merged.Stacks)
			}
		}
	})
}
