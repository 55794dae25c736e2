package insight

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The kinds of profiles.
const (
	CPUProfile    = "cpu"    // time on a CPU
	OffCPUProfile = "offcpu" // time that threads waited
	AllocProfile  = "alloc"  // bytes allocated on the heap
	SlowProfile   = "slow"   // time of slow calls, waits included, by stage
	MedianProfile = "median" // time of median calls, waits included, by stage
)

// A Profile divides the time or the allocated bytes of one end of a cell by call stack. The profiles
// of slow and of median calls are of both ends; their outermost functions are the stages of a call.
type Profile struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End     string  `json:"end" jsonschema:"enum=client,enum=server,enum="`
	Kind    string  `json:"kind" jsonschema:"enum=cpu,enum=offcpu,enum=alloc,enum=slow,enum=median"`
	Unit    string  `json:"unit" jsonschema:"enum=ns,enum=B"`
	Samples int64   `json:"samples"`  // samples behind the estimate; 0 if all events were counted
	PerCall float64 `json:"per_call"` // sum of all stacks per call, in the unit

	Total float64 `json:"-"` // sum of all stacks over all passes, in the unit

	// The report's page stores the next three fields in a packed form for all profiles together.
	Categories []string           `json:"-"` // categories of the stacks, such as "system calls"
	Functions  []ProfiledFunction `json:"-"`
	Stacks     []ProfiledStack    `json:"-"`
}

// A ProfiledFunction is a function in call stacks.
type ProfiledFunction struct {
	Name string `json:"name"` // with its package's path
	In   string `json:"in"`   // kernel, or a library's name; empty for the program itself
}

// A ProfiledStack is a call stack with its share of a profile.
type ProfiledStack struct {
	Frames   []int   // indexes in the profile's Functions, outermost first
	Category int     // index in the profile's Categories
	Weight   float64 // share of the profile; all weights add up to 1
}

// FindProfiles returns the profiles of every cell and end that has passes.
func FindProfiles(points []*matrix.Point, passes []*record.Record, categories *Categories) []Profile {
	var all []Profile
	for _, group := range groupByCell(points, passes) {
		cell := group.passes[0].Cell
		for _, end := range bothEnds {
			sorted := categoriesOf(cell.Variant, end.name, categories)
			for _, kind := range []struct {
				probe, name, unit string
				sorted            *sorter
			}{
				{record.ProbeCPU, CPUProfile, "ns", sorted.cpuSorter()},
				{record.ProbeOffCPU, OffCPUProfile, "ns", sorted.offCPUSorter()},
				{record.ProbeAllocations, AllocProfile, "B", nil},
			} {
				p := newProfiler(cell, kind.name)
				p.End, p.Unit, p.sorted = end.name, kind.unit, kind.sorted
				for _, r := range group.passes {
					if r.Probe == kind.probe {
						p.add(r, end.of(matrix.Trial{Record: r}))
					}
				}
				if done, some := p.finish(); some {
					if cpu := group.cpu[end.name]; kind.name == CPUProfile && cpu != nil {
						done.PerCall = cpu.Value * 1e3
					}
					all = append(all, done)
				}
			}
		}
		all = append(all, callProfiles(cell, group.passes)...)
	}
	return all
}

// callProfiles returns the profiles of the slow and of the median calls of a cell, if their call stacks are
// known. Their totals are those of one call, so that the two can be subtracted.
func callProfiles(cell record.Cell, passes []*record.Record) (both []Profile) {
	_, lives := livesOf(passes)
	if countCalls(lives) < leastTailCalls {
		return nil
	}
	slow, median := newProfiler(cell, SlowProfile), newProfiler(cell, MedianProfile)
	chooseCalls(lives).eachStack(func(names []string, slowNS, medianNS float64) {
		frames := lists.Map(names, func(name string) record.Frame { return record.Frame{Function: name} })
		for _, one := range []struct {
			to *profiler
			ns float64
		}{{slow, slowNS}, {median, medianNS}} {
			if one.ns > 0 {
				one.to.calls = 1
				one.to.addStack(frames, one.ns)
			}
		}
	})
	for _, p := range []*profiler{slow, median} {
		if done, some := p.finish(); some {
			both = append(both, done)
		}
	}
	return both
}

// A profiler builds a profile from the call stacks of several passes.
type profiler struct {
	Profile
	sorted    *sorter // nil if there is only one category
	functions map[ProfiledFunction]int
	weight    float64
	calls     float64
}

func newProfiler(cell record.Cell, kind string) *profiler {
	return &profiler{
		Profile:   Profile{Part: cell.Part, Variant: cell.Variant, Place: cell.Place, Kind: kind, Unit: "ns"},
		functions: map[ProfiledFunction]int{},
	}
}

func (p *profiler) add(r *record.Record, end record.Process) {
	switch {
	case p.Kind == AllocProfile && end.Allocations != nil:
		p.calls += float64(r.Calls())
		for _, stack := range end.Allocations.Stacks {
			frames := lists.Map(stack.Functions, func(name string) record.Frame { return record.Frame{Function: name} })
			p.addStack(frames, float64(stack.Bytes))
		}
	case p.Kind != AllocProfile && end.Seen != nil && end.Seen.Stacks != nil:
		p.calls += float64(r.Completed)
		p.Samples += end.Seen.Stacks.Samples
		for _, stack := range end.Seen.Stacks.Stacks {
			p.addStack(end.Seen.Stacks.Functions(stack), float64(stack.Weight))
		}
	}
}

func (p *profiler) addStack(frames []record.Frame, weight float64) {
	category := "allocation"
	switch {
	case p.sorted != nil:
		category = p.sorted.categoryOf(frames)
	case p.Kind == SlowProfile || p.Kind == MedianProfile:
		category = frames[0].Function
	}
	p.Categories = lists.AppendNew(p.Categories, category)
	stack := ProfiledStack{Category: slices.Index(p.Categories, category), Weight: weight}
	for _, frame := range frames {
		function := ProfiledFunction{Name: frame.Function, In: frame.In}
		place, known := p.functions[function]
		if !known {
			place = len(p.Functions)
			p.functions[function] = place
			p.Functions = append(p.Functions, function)
		}
		stack.Frames = append(stack.Frames, place)
	}
	p.Stacks = append(p.Stacks, stack)
	p.weight += weight
}

// finish returns the profile with shares in place of weights. It returns false if there are no
// stacks.
func (p *profiler) finish() (_ Profile, some bool) {
	if p.weight <= 0 || p.calls <= 0 {
		return Profile{}, false
	}
	for i := range p.Stacks {
		p.Stacks[i].Weight /= p.weight
	}
	p.Total, p.PerCall = p.weight, p.weight/p.calls
	return p.Profile, true
}

// An Allocation divides the heap allocations of one end of a cell by function. Shares are relative
// to all that the end allocates. The tree leaves out branches with less than 2 % of the bytes and
// of the objects.
type Allocation struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End       string      `json:"end" jsonschema:"enum=client,enum=server"` // client or server
	Trials    int         `json:"trials"`
	Calls     int64       `json:"calls"` // calls of all trials
	Bytes     float64     `json:"bytes_per_call"`
	Objects   float64     `json:"objects_per_call"`
	Functions []Allocator `json:"functions"` // functions that allocate, most bytes first
	Tree      []Branch    `json:"tree"`      // call tree of the allocations, most bytes first
}

// An Allocator is a function that allocates memory, without the functions that it calls.
type Allocator struct {
	Function string  `json:"function"` // with its package's path
	Bytes    float64 `json:"bytes_share"`
	Objects  float64 `json:"objects_share"`
}

// A Branch is a part of a call tree: a chain of functions, each calling the next one.
type Branch struct {
	Functions []string `json:"functions"`
	Bytes     float64  `json:"bytes_share"` // including the branches in calls
	Objects   float64  `json:"objects_share"`
	Calls     []Branch `json:"calls"` // branches that the last function calls
}

const (
	// minBranchShare is the least share of bytes or objects of a listed branch or function.
	minBranchShare = 0.02
	// minMergeShare is the share of a branch's allocations from which its callee is merged into it.
	minMergeShare = 0.95
)

// FindAllocations returns the allocations of every profiled cell and end, the server first.
func FindAllocations(points []*matrix.Point, passes []*record.Record) []Allocation {
	var all []Allocation
	for _, group := range groupByCell(points, passes) {
		cell := group.passes[0].Cell
		for _, end := range slices.Backward(bothEnds) {
			a := Allocation{Part: cell.Part, Variant: cell.Variant, Place: cell.Place, End: end.name}
			var sum allocationSum
			for _, r := range group.passes {
				if own := end.of(matrix.Trial{Record: r}).Allocations; own != nil && r.Calls() > 0 {
					a.Trials++
					a.Calls += r.Calls()
					sum.bytes += float64(own.Bytes)
					sum.objects += float64(own.Objects)
					sum.stacks = append(sum.stacks, own.Stacks...)
				}
			}
			if sum.bytes > 0 && sum.objects > 0 {
				a.Bytes, a.Objects = sum.bytes/float64(a.Calls), sum.objects/float64(a.Calls)
				a.Functions, a.Tree = sum.functions(), sum.branches(0, sum.stacks)
				all = append(all, a)
			}
		}
	}
	return all
}

// An allocationSum adds up the allocations of several trials.
type allocationSum struct {
	bytes, objects float64
	stacks         []record.AllocationStack
}

// share returns the stacks' share of all bytes and objects.
func (a *allocationSum) share(stacks []record.AllocationStack) (bytes, objects float64) {
	for _, s := range stacks {
		bytes += float64(s.Bytes) / a.bytes
		objects += float64(s.Objects) / a.objects
	}
	return bytes, objects
}

func (a *allocationSum) functions() []Allocator {
	var all []Allocator
	named := slices.DeleteFunc(slices.Clone(a.stacks), func(s record.AllocationStack) bool { return len(s.Functions) == 0 })
	last := func(s record.AllocationStack) string { return s.Functions[len(s.Functions)-1] }
	for _, stacks := range lists.GroupBy(named, last) {
		f := Allocator{Function: last(stacks[0])}
		if f.Bytes, f.Objects = a.share(stacks); f.Bytes >= minBranchShare || f.Objects >= minBranchShare {
			all = append(all, f)
		}
	}
	slices.SortStableFunc(all, func(x, y Allocator) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// branches returns the branches of a call tree below the first depth functions, which all the
// stacks share.
func (a *allocationSum) branches(depth int, stacks []record.AllocationStack) []Branch {
	var all []Branch
	deeper := slices.DeleteFunc(slices.Clone(stacks), func(s record.AllocationStack) bool {
		return len(s.Functions) <= depth // the last function allocates itself
	})
	for _, stacks := range lists.GroupBy(deeper, func(s record.AllocationStack) string { return s.Functions[depth] }) {
		b := Branch{Functions: []string{stacks[0].Functions[depth]}}
		if b.Bytes, b.Objects = a.share(stacks); b.Bytes >= minBranchShare || b.Objects >= minBranchShare {
			b.Calls = a.branches(depth+1, stacks)
			all = append(all, b.merged())
		}
	}
	slices.SortStableFunc(all, func(x, y Branch) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// merged merges a branch with the only function that it calls.
func (b Branch) merged() Branch {
	if len(b.Calls) == 1 {
		only := b.Calls[0]
		if only.Bytes >= minMergeShare*b.Bytes && only.Objects >= minMergeShare*b.Objects {
			b.Functions, b.Calls = append(b.Functions, only.Functions...), only.Calls
		}
	}
	return b
}
