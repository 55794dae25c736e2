package crowd

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/worker"
)

// MergeSeen merges what the agents' probes found about their clients, as if there were one client. If
// an agent found nothing, or by another method, the sum would be too small: then there is none.
func MergeSeen(parts []worker.ClientPart) *record.Seen {
	var merged *record.Seen
	var problems []string
	for _, p := range parts {
		m := p.Result.Machine
		if m == nil || m.Seen == nil {
			problems = append(problems, p.Agent+": all figures: the agent sent none")
			continue
		}
		own := *m.Seen
		own.Missing = slices.Clone(own.Missing)
		for i := range own.Missing {
			own.Missing[i] = p.Agent + ": " + own.Missing[i]
		}
		switch {
		case own.Method == "":
			problems = append(problems, own.Missing...)
		case merged == nil:
			merged = &own
		case merged.Method != own.Method:
			problems = append(problems, fmt.Sprintf("the sum of all clients: %s observes by %q, %s by %q; choose agents whose machines observe alike (see wirelab fleet check)", parts[0].Agent, merged.Method, p.Agent, own.Method))
		default:
			*merged = merged.Plus(own)
		}
	}
	if len(problems) > 0 || merged == nil {
		return &record.Seen{Missing: problems}
	}
	BoundStacks(merged)
	return merged
}

// Bounds on what a probe's report may contain. BoundStacks keeps real reports within the bounds.
const (
	maxStacks       = 1 << 14
	maxStackFrames  = 512
	maxNames        = 512       // of system calls or counters
	maxNameBytes    = 16 << 10  // names of functions of C++ are long
	maxMissing      = 100       // figures that are not measured
	maxThreads      = 10_000    // that wait at the same time: the Go runtime's limit
	maxMachineCPUs  = 1 << 13   // CONFIG_NR_CPUS on the largest machines
	maxEventsPerNS  = 100       // of a CPU, such as instructions
	minSyscallNS    = 10        // a system call takes longer
	maxAllocPerNS   = 1000      // bytes: more than any memory takes
	maxAddends      = 1 << 10   // sums of this many reports must not overflow
	profileSlack    = 2         // samples stand for a time, and come in whole numbers
	profileSlackNS  = 1e9       // likewise
	otherStacksName = "[other]" // stands for stacks that BoundStacks left out
)

// BoundStacks adds up equal stacks. It replaces the lightest stacks by one if there are too many.
func BoundStacks(s *record.Seen) {
	if s.Stacks == nil {
		return
	}
	all := *s.Stacks
	at, numbers := map[string]int{}, map[record.Frame]int{}
	var kept record.Stacks
	number := func(f record.Frame) int {
		n, known := numbers[f]
		if !known {
			n = len(kept.Frames)
			numbers[f] = n
			kept.Frames = append(kept.Frames, f)
		}
		return n
	}
	add := func(frames []record.Frame, from record.Stack) {
		frames = frames[max(0, len(frames)-maxStackFrames):]
		one := record.Stack{Frames: make([]int, len(frames)), Weight: from.Weight, Count: from.Count}
		for i, f := range frames {
			one.Frames[i] = number(f)
		}
		key := fmt.Sprint(one.Frames)
		if i, known := at[key]; known {
			kept.Stacks[i].Weight += one.Weight
			kept.Stacks[i].Count += one.Count
			return
		}
		at[key] = len(kept.Stacks)
		kept.Stacks = append(kept.Stacks, one)
	}
	for _, stack := range all.Stacks {
		add(all.Functions(stack), stack)
	}
	slices.SortStableFunc(kept.Stacks, func(a, b record.Stack) int { return cmp.Compare(b.Weight, a.Weight) })
	if more := len(kept.Stacks) - maxStacks + 1; more > 1 {
		rest := kept.Stacks[maxStacks-1:]
		kept.Stacks = kept.Stacks[: maxStacks-1 : maxStacks-1]
		other := record.Stack{Frames: []int{number(record.Frame{Function: otherStacksName})}}
		for _, stack := range rest {
			other.Weight += stack.Weight
			other.Count += stack.Count
		}
		kept.Stacks = append(kept.Stacks, other)
		s.Missing = append(s.Missing, fmt.Sprintf("the functions of the %d rarest call stacks: they are shown as %s", more, otherStacksName))
	}
	all.Frames, all.Stacks = kept.Frames, kept.Stacks
	s.Stacks = &all
}

// A ReportLimit says what a probe's report can contain at most: the probe, the CPUs of the worker, and
// how long the worker can have lived.
type ReportLimit struct {
	Probe string
	CPUs  int
	Life  time.Duration
}

// CheckReport returns an error if a probe's report from another machine is impossible.
func (l ReportLimit) CheckReport(result *worker.Result) error {
	var seen *record.Seen
	if result.Machine != nil {
		seen = result.Machine.Seen
	}
	allocations, profile, instants := (*record.Allocations)(nil), (*record.Stacks)(nil), 0
	if c := result.Client; c != nil {
		allocations, profile, instants = c.Allocations, c.CPU, len(c.Calls)
	}
	if s := result.Server; s != nil {
		allocations, profile, instants = cmp.Or(allocations, s.Allocations), cmp.Or(profile, s.CPU), instants+len(s.Handled)
	}
	err := l.checkSeen(seen)
	switch {
	case err != nil:
	case profile != nil || instants > 0:
		err = errors.New("it has figures that only workers of this machine report")
	case allocations != nil && l.Probe != record.ProbeAllocations:
		err = fmt.Errorf("it has allocations, and the order was %s", l.order())
	case allocations != nil:
		err = l.checkAllocations(allocations)
	}
	if err != nil {
		return fmt.Errorf("the report of the probe was refused: %w", err)
	}
	return nil
}

func (l ReportLimit) order() string {
	if l.Probe == "" {
		return "a trial without a probe"
	}
	return "the probe " + l.Probe
}

func (l ReportLimit) checkSeen(s *record.Seen) error {
	if s == nil {
		return nil
	}
	has := map[string]bool{
		record.ProbeCounters: len(s.Counters) > 0, record.ProbeSyscalls: len(s.Syscalls) > 0,
		record.ProbeCPU: s.Stacks != nil, record.ProbeOffCPU: s.Stacks != nil,
	}
	expected := has[l.Probe]
	found := 0
	for _, kind := range []bool{len(s.Counters) > 0, len(s.Syscalls) > 0, s.Stacks != nil} {
		if kind {
			found++
		}
	}
	if !catalog.RunsOutsideWorker(l.Probe) || found > 1 || found == 1 && !expected {
		return fmt.Errorf("it has figures of another kind, and the order was %s", l.order())
	}
	if len(s.Missing) > maxMissing || len(s.Counters) > maxNames || len(s.Syscalls) > maxNames {
		return fmt.Errorf("it has %d counters, %d system calls and %d figures that are not measured: want at most %d, %[4]d and %d", len(s.Counters), len(s.Syscalls), len(s.Missing), maxNames, maxMissing)
	}
	for _, text := range append(slices.Clone(s.Missing), s.Method) {
		if err := checkText(text); err != nil {
			return err
		}
	}
	return errors.Join(l.checkCounters(s.Counters), l.checkSyscalls(s.Syscalls), l.checkStacks(s.Stacks))
}

// nanoseconds returns the largest time of this many CPUs or threads in the worker's life.
func (l ReportLimit) nanoseconds(each int) float64 {
	return min(float64(l.Life)*float64(each), math.MaxInt64/maxAddends)
}

func (l ReportLimit) cpus() int { return min(max(1, l.CPUs), maxMachineCPUs) }

func (l ReportLimit) checkCounters(all []record.Counter) error {
	known := map[string]bool{}
	for _, c := range all {
		if err := checkName(known, c.Name); err != nil {
			return err
		}
		if most := l.nanoseconds(l.cpus()) * maxEventsPerNS; c.Count < 0 || c.Count > most || c.Share < 0 || c.Share > 1 {
			return fmt.Errorf("it has %.4g events of %q in the share %.3g of the time: want 0 to %.4g, and a share of at most 1", c.Count, c.Name, c.Share, most)
		}
	}
	return nil
}

func (l ReportLimit) checkSyscalls(all []record.Syscall) error {
	known := map[string]bool{}
	sum := 0.0
	most, longest := l.nanoseconds(l.cpus())/minSyscallNS, l.nanoseconds(maxThreads)
	for _, c := range all {
		if err := checkName(known, c.Name); err != nil {
			return err
		}
		sum += float64(c.Count)
		switch {
		case c.Count < 0 || sum > most:
			return fmt.Errorf("it has %d system calls %q: want 0 to %.4g of all names together", c.Count, c.Name, most)
		case c.NS != nil && (*c.NS < 0 || float64(*c.NS) > longest):
			return fmt.Errorf("it has %d ns in system calls %q: want 0 to %.4g", *c.NS, c.Name, longest)
		}
	}
	return nil
}

func (l ReportLimit) checkStacks(s *record.Stacks) error {
	if s == nil {
		return nil
	}
	most := l.nanoseconds(l.cpus())*profileSlack + profileSlackNS
	if l.Probe == record.ProbeOffCPU {
		most = l.nanoseconds(maxThreads)
	}
	switch {
	case s.Unit != "ns":
		return fmt.Errorf("its stacks have the unit %.20q: want ns", s.Unit)
	case len(s.Stacks) > maxStacks || len(s.Frames) > maxStacks*maxStackFrames:
		return fmt.Errorf("it has %d stacks and %d functions: want at most %d stacks", len(s.Stacks), len(s.Frames), maxStacks)
	case s.Samples < 0 || float64(s.Samples) > most || s.Lost < 0 || float64(s.Lost) > math.MaxInt64/maxAddends:
		return fmt.Errorf("it has %d samples and lost %d: want 0 to %.4g samples", s.Samples, s.Lost, most)
	}
	for _, f := range s.Frames {
		if err := errors.Join(checkText(f.Function), checkText(f.In)); err != nil {
			return err
		}
	}
	sum, count := 0.0, 0.0
	for _, stack := range s.Stacks {
		sum, count = sum+float64(stack.Weight), count+float64(stack.Count)
		switch {
		case stack.Weight < 0 || stack.Count < 0 || sum > most || count > most:
			return fmt.Errorf("its stacks have %.4g ns and %.4g samples, the last of them %d ns and %d samples: want 0 to %.4g", sum, count, stack.Weight, stack.Count, most)
		case len(stack.Frames) > maxStackFrames:
			return fmt.Errorf("a stack has %d functions: want at most %d", len(stack.Frames), maxStackFrames)
		case slices.ContainsFunc(stack.Frames, func(f int) bool { return f < 0 || f >= len(s.Frames) }):
			return fmt.Errorf("a stack has the functions %v, of a list of %d", stack.Frames, len(s.Frames))
		}
	}
	return nil
}

func (l ReportLimit) checkAllocations(a *record.Allocations) error {
	most := l.nanoseconds(maxAllocPerNS)
	if len(a.Stacks) > maxStacks {
		return fmt.Errorf("it has %d stacks that allocate: want at most %d", len(a.Stacks), maxStacks)
	}
	for _, s := range append([]record.AllocationStack{{Bytes: a.Bytes, Objects: a.Objects}}, a.Stacks...) {
		if s.Bytes < 0 || s.Objects < 0 || float64(s.Bytes) > most || float64(s.Objects) > most || len(s.Functions) > maxStackFrames {
			return fmt.Errorf("%d functions allocate %d bytes and %d objects: want at most %d functions, and 0 to %.4g", len(s.Functions), s.Bytes, s.Objects, maxStackFrames, most)
		}
		for _, f := range s.Functions {
			if err := checkText(f); err != nil {
				return err
			}
		}
	}
	return nil
}

func checkName(known map[string]bool, name string) error {
	if known[name] || name == "" {
		return fmt.Errorf("it has the name %.80q twice, or without a text", name)
	}
	known[name] = true
	return checkText(name)
}

func checkText(text string) error {
	if len(text) > maxNameBytes || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("it has the text %.80q of %d bytes: want printable characters, at most %d bytes", text, len(text), maxNameBytes)
	}
	return nil
}
