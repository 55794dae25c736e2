package insight

import (
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// The kinds of profiles.
const (
	CPUProfile    = "cpu"    // time on a CPU
	OffCPUProfile = "offcpu" // time in which a thread waited
	AllocProfile  = "alloc"  // bytes allocated on the heap
)

// A Profile says where one end of a cell spent its time, or its bytes: call stack by call
// stack, over all passes with one probe.
type Profile struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End     string  `json:"end" jsonschema:"enum=client,enum=server"`
	Kind    string  `json:"kind" jsonschema:"enum=cpu,enum=offcpu,enum=alloc"`
	Unit    string  `json:"unit" jsonschema:"enum=ns,enum=B"`
	Samples int64   `json:"samples"`  // that it was estimated from; 0 if everything was counted
	PerCall float64 `json:"per_call"` // of the unit, all stacks together

	Total float64 `json:"-"` // of the unit, in all passes together

	// The report's page has these once for all profiles, and packed.
	Categories []string           `json:"-"` // what stacks are sorted into, such as "system calls"
	Functions  []ProfiledFunction `json:"-"`
	Stacks     []ProfiledStack    `json:"-"`
}

// A ProfiledFunction is a function that stands in stacks.
type ProfiledFunction struct {
	Name string `json:"name"` // with its package's path
	In   string `json:"in"`   // kernel, or a library's name; empty for the program itself
}

// A ProfiledStack is a call stack. A profile may hold one twice, in two categories.
type ProfiledStack struct {
	Frames   []int   // places in the profile's Functions, outermost first
	Category int     // place in the profile's Categories
	Weight   float64 // share of all that the profile holds; a profile's weights add up to 1
}

// FindProfiles adds up the call stacks of the passes of equal cells.
func FindProfiles(points []*matrix.Point, passes []*record.Record, categories *Categories) []Profile {
	var all []Profile
	for _, group := range byPlace(points, passes) {
		var bare []matrix.Trial
		if group.bare != nil {
			bare = group.bare.Valid()
		}
		for _, end := range []struct {
			name string
			of   func(matrix.Trial) record.Process
		}{{ClientEnd, matrix.ClientOf}, {ServerEnd, matrix.ServerOf}} {
			for _, kind := range []struct {
				probe, name string
				rules       []Rule
			}{{record.ProbeCPU, CPUProfile, categories.CPU}, {record.ProbeOffCPU, OffCPUProfile, categories.OffCPU}, {record.ProbeAllocations, AllocProfile, nil}} {
				p := newProfiler(group.passes[0].Cell, end.name, kind.name, kind.rules)
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

// profiler adds up stacks that share no list of functions.
type profiler struct {
	Profile
	sorted    *sorter // nil: all are of one category
	functions map[ProfiledFunction]int
	weight    float64
	calls     float64
}

func newProfiler(cell record.Cell, end, kind string, rules []Rule) *profiler {
	p := &profiler{
		Profile:   Profile{Part: cell.Part, Variant: cell.Variant, Place: cell.Place, End: end, Kind: kind, Unit: "ns"},
		functions: map[ProfiledFunction]int{},
	}
	if rules != nil {
		p.sorted = newSorter(rules)
	}
	return p
}

// add adds what a pass saw of an end.
func (p *profiler) add(r *record.Record, end record.Process) {
	switch {
	case p.Kind == AllocProfile && end.Allocations != nil:
		p.Unit = "B"
		p.calls += float64(r.Calls())
		for _, stack := range end.Allocations.Stacks {
			frames := make([]record.Frame, len(stack.Functions))
			for i, name := range stack.Functions {
				frames[i] = record.Frame{Function: name}
			}
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
	at := slices.Index(p.Categories, category)
	if at < 0 {
		at = len(p.Categories)
		p.Categories = append(p.Categories, category)
	}
	stack := ProfiledStack{Category: at, Weight: weight}
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

// done makes shares of the weights. A profile without stacks is none.
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
