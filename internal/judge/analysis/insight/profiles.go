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
)

// A Profile divides one end's time or bytes in a cell by call stack, over all passes of one probe.
type Profile struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End     string  `json:"end" jsonschema:"enum=client,enum=server"`
	Kind    string  `json:"kind" jsonschema:"enum=cpu,enum=offcpu,enum=alloc"`
	Unit    string  `json:"unit" jsonschema:"enum=ns,enum=B"`
	Samples int64   `json:"samples"`  // samples behind the estimate; 0 if all events were counted
	PerCall float64 `json:"per_call"` // sum of all stacks per call, in the unit

	Total float64 `json:"-"` // sum over all passes, in the unit

	// The report's page stores these in a packed form, once for all profiles.
	Categories []string           `json:"-"` // categories of the stacks, such as "system calls"
	Functions  []ProfiledFunction `json:"-"`
	Stacks     []ProfiledStack    `json:"-"`
}

// A ProfiledFunction is a function in call stacks.
type ProfiledFunction struct {
	Name string `json:"name"` // with its package's path
	In   string `json:"in"`   // kernel, or a library's name; empty for the program itself
}

// A ProfiledStack is a call stack. A profile may hold one twice, with two categories.
type ProfiledStack struct {
	Frames   []int   // indexes in the profile's Functions, outermost first
	Category int     // index in the profile's Categories
	Weight   float64 // share of the profile; all weights add up to 1
}

// FindProfiles adds up the call stacks of the passes of equal cells.
func FindProfiles(points []*matrix.Point, passes []*record.Record, categories *Categories) []Profile {
	var all []Profile
	for _, group := range byPlace(points, passes) {
		var bare []matrix.Trial
		if group.bare != nil {
			bare = group.bare.Valid()
		}
		cell := group.passes[0].Cell
		for _, end := range []struct {
			name string
			of   func(matrix.Trial) record.Process
		}{{ClientEnd, matrix.ClientOf}, {ServerEnd, matrix.ServerOf}} {
			for _, kind := range []struct {
				probe, name, unit string
				sorted            *sorter
			}{
				{record.ProbeCPU, CPUProfile, "ns", newSorter(categories.CPU)},
				{record.ProbeOffCPU, OffCPUProfile, "ns", newSorter(categories.OffCPU)},
				{record.ProbeAllocations, AllocProfile, "B", nil},
			} {
				p := profiler{sorted: kind.sorted, functions: map[ProfiledFunction]int{}}
				p.Profile = Profile{Part: cell.Part, Variant: cell.Variant, Place: cell.Place, End: end.name, Kind: kind.name, Unit: kind.unit}
				for _, r := range group.passes {
					if r.Probe == kind.probe {
						p.add(r, end.of(matrix.Trial{Record: r}))
					}
				}
				if done, some := p.done(); some {
					if cpu := matrix.Known(bare, matrix.CPUOf(end.of)); kind.name == CPUProfile && cpu != nil { // exact, and undisturbed
						done.PerCall = cpu.Value * 1e3
					}
					all = append(all, done)
				}
			}
		}
	}
	return all
}

// profiler sums stacks that do not share a list of functions.
type profiler struct {
	Profile
	sorted    *sorter // nil: only one category
	functions map[ProfiledFunction]int
	weight    float64
	calls     float64
}

// add adds a pass's stacks of an end.
func (p *profiler) add(r *record.Record, end record.Process) {
	switch {
	case p.Kind == AllocProfile && end.Allocations != nil:
		p.calls += float64(r.Calls())
		for _, stack := range end.Allocations.Stacks {
			frames := lists.Map(stack.Functions, func(name string) record.Frame { return record.Frame{Function: name} })
			p.stack(frames, float64(stack.Bytes))
		}
	case p.Kind != AllocProfile && end.Seen != nil && end.Seen.Stacks != nil:
		p.calls += float64(r.Completed)
		p.Samples += end.Seen.Stacks.Samples
		for _, stack := range end.Seen.Stacks.Stacks {
			p.stack(end.Seen.Stacks.Functions(stack), float64(stack.Weight))
		}
	}
}

func (p *profiler) stack(frames []record.Frame, weight float64) {
	category := "allocation"
	if p.sorted != nil {
		category = p.sorted.of(frames)
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

// done turns weights into shares. It returns false without stacks.
func (p *profiler) done() (_ Profile, some bool) {
	if p.weight <= 0 || p.calls <= 0 {
		return Profile{}, false
	}
	for i := range p.Stacks {
		p.Stacks[i].Weight /= p.weight
	}
	p.Total, p.PerCall = p.weight, p.weight/p.calls
	return p.Profile, true
}

// An Allocation divides the heap allocations of one end by function, from trials that were
// profiled only for this. Shares are shares of everything that this end allocates. The tree leaves
// out branches with less than a fiftieth of the bytes and of the objects.
type Allocation struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End       string      `json:"end" jsonschema:"enum=client,enum=server"` // client or server
	Trials    int         `json:"trials"`
	Calls     int64       `json:"calls"` // calls of all trials
	Bytes     float64     `json:"bytes_per_call"`
	Objects   float64     `json:"objects_per_call"`
	Functions []Allocator `json:"functions"` // functions that allocate themselves, by bytes
	Tree      []Branch    `json:"tree"`      // call trees that allocate, by bytes
}

// Allocator is a function that allocates itself.
type Allocator struct {
	Function string  `json:"function"` // with its package's path
	Bytes    float64 `json:"bytes_share"`
	Objects  float64 `json:"objects_share"`
}

// A Branch is a chain of functions: each calls only the next one on the way to allocations.
type Branch struct {
	Functions []string `json:"functions"`
	Bytes     float64  `json:"bytes_share"` // including its calls
	Objects   float64  `json:"objects_share"`
	Calls     []Branch `json:"calls"` // branches that the last function calls
}

const (
	// minBranchShare is the smallest share of bytes or of objects that is listed.
	minBranchShare = 0.02
	// minMergeShare is the share of a function's allocations from which its only callee is merged
	// into its branch.
	minMergeShare = 0.95
)

// FindAllocations groups the profiled trials of equal cells: by part in the order of the plan,
// then by the variants' order.
func FindAllocations(places map[string]int, records []*record.Record) []Allocation {
	var profiles []profile
	for _, r := range records {
		if r.Calls() == 0 {
			continue
		}
		for _, p := range []profile{{r, ServerEnd, r.Server.Allocations}, {r, ClientEnd, r.Client.Allocations}} {
			if p.allocations != nil {
				profiles = append(profiles, p)
			}
		}
	}
	slices.SortStableFunc(profiles, func(a, b profile) int { return cmp.Compare(a.trial.Trial, b.trial.Trial) })
	var all []Allocation
	for _, part := range lists.GroupBy(profiles, func(p profile) string { return p.trial.Cell.Part }) {
		slices.SortStableFunc(part, func(a, b profile) int {
			return cmp.Compare(places[a.trial.Cell.Variant], places[b.trial.Cell.Variant])
		})
		for _, same := range lists.GroupBy(part, func(p profile) [2]any { return [2]any{p.trial.Cell, p.end} }) {
			if a := newAllocation(same); a.Bytes > 0 && a.Objects > 0 {
				all = append(all, a)
			}
		}
	}
	return all
}

// A profile holds what one end allocated in a trial.
type profile struct {
	trial       *record.Record
	end         string
	allocations *record.Allocations
}

// newAllocation sums up the profiles of one end of a cell.
func newAllocation(profiles []profile) Allocation {
	cell := profiles[0].trial.Cell
	a := Allocation{
		Part: cell.Part, Variant: cell.Variant, Place: cell.Place,
		End: profiles[0].end, Trials: len(profiles),
	}
	var all allocated
	for _, p := range profiles {
		a.Calls += p.trial.Calls()
		all.bytes += float64(p.allocations.Bytes)
		all.objects += float64(p.allocations.Objects)
		all.stacks = append(all.stacks, p.allocations.Stacks...)
	}
	a.Bytes, a.Objects = all.bytes/float64(a.Calls), all.objects/float64(a.Calls)
	a.Functions, a.Tree = all.functions(), all.branches(0, all.stacks)
	return a
}

// An allocated sums what trials have allocated together.
type allocated struct {
	bytes, objects float64
	stacks         []record.AllocationStack
}

// share returns the stacks' share of all bytes and objects.
func (a *allocated) share(stacks []record.AllocationStack) (bytes, objects float64) {
	for _, s := range stacks {
		bytes += float64(s.Bytes) / a.bytes
		objects += float64(s.Objects) / a.objects
	}
	return bytes, objects
}

func (a *allocated) functions() []Allocator {
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

// branches groups stacks that are equal up to depth, by their next function.
func (a *allocated) branches(depth int, stacks []record.AllocationStack) []Branch {
	var all []Branch
	deeper := slices.DeleteFunc(slices.Clone(stacks), func(s record.AllocationStack) bool {
		return len(s.Functions) <= depth // the last function allocates itself
	})
	for _, stacks := range lists.GroupBy(deeper, func(s record.AllocationStack) string { return s.Functions[depth] }) {
		b := Branch{Functions: []string{stacks[0].Functions[depth]}}
		if b.Bytes, b.Objects = a.share(stacks); b.Bytes >= minBranchShare || b.Objects >= minBranchShare {
			b.Calls = a.branches(depth+1, stacks)
			all = append(all, b.collapsed())
		}
	}
	slices.SortStableFunc(all, func(x, y Branch) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// collapsed merges a branch with the only function that it calls.
func (b Branch) collapsed() Branch {
	if len(b.Calls) == 1 {
		only := b.Calls[0]
		if only.Bytes >= minMergeShare*b.Bytes && only.Objects >= minMergeShare*b.Objects {
			b.Functions, b.Calls = append(b.Functions, only.Functions...), only.Calls
		}
	}
	return b
}
