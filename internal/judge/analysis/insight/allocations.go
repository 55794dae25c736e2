package insight

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// The ends of a wire.
const (
	ClientEnd = "client"
	ServerEnd = "server"
)

// An Allocation says where the heap allocations of one end come from, by trials that were
// profiled for it and measured for nothing else. Shares are of everything that this end
// allocates. The tree leaves out branches with less than a fiftieth of the bytes and of the
// objects.
type Allocation struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Place
	End       string      `json:"end" jsonschema:"enum=client,enum=server"` // client or server
	Trials    int         `json:"trials"`
	Calls     int64       `json:"calls"` // of all trials
	Bytes     float64     `json:"bytes_per_call"`
	Objects   float64     `json:"objects_per_call"`
	Functions []Allocator `json:"functions"` // that allocate by themselves, those of the most bytes first
	Tree      []Branch    `json:"tree"`      // the call trees that allocate, those of the most bytes first
}

// Allocator is a function that allocates by itself.
type Allocator struct {
	Function string  `json:"function"` // with its package's path
	Bytes    float64 `json:"bytes_share"`
	Objects  float64 `json:"objects_share"`
}

// A Branch is a row of functions: each calls the next one and no other function that leads
// to allocations.
type Branch struct {
	Functions []string `json:"functions"`
	Bytes     float64  `json:"bytes_share"` // with all that is called
	Objects   float64  `json:"objects_share"`
	Calls     []Branch `json:"calls"` // by the last of the functions
}

const (
	// minBranchShare is the smallest share of bytes or of objects that is listed.
	minBranchShare = 0.02
	// minMergeShare is the share of a function's allocations from which its only callee joins
	// its branch.
	minMergeShare = 0.95
)

// FindAllocations puts the profiled trials of equal cells together: part by part in the order
// of the plan, and in a part by the variants' places.
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
		for _, same := range lists.GroupBy(part, profile.key) {
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

type profileKey struct {
	cell record.Cell
	end  string
}

func (p profile) key() profileKey { return profileKey{p.trial.Cell, p.end} }

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

// share returns the share of some stacks in all bytes and objects.
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

// branches groups stacks, which are equal up to depth, by their function there.
func (a *allocated) branches(depth int, stacks []record.AllocationStack) []Branch {
	var all []Branch
	deeper := slices.DeleteFunc(slices.Clone(stacks), func(s record.AllocationStack) bool {
		return len(s.Functions) <= depth // its last function allocates by itself
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
	if len(b.Calls) != 1 {
		return b
	}
	only := b.Calls[0]
	if only.Bytes < minMergeShare*b.Bytes || only.Objects < minMergeShare*b.Objects {
		return b
	}
	b.Functions, b.Calls = append(b.Functions, only.Functions...), only.Calls
	return b
}
