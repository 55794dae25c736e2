package analysis

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/record"
)

// The ends of a wire.
const (
	ClientEnd = "client"
	ServerEnd = "server"
)

// Allocation is where the heap allocations of one end come from, by trials that
// were profiled for it and measured for nothing else. Shares are of all that this
// end allocates. The tree leaves out what has less than a fiftieth of the bytes
// and of the objects.
type Allocation struct {
	Part          string      `json:"part"`
	Variant       string      `json:"variant"`
	Workload      string      `json:"workload"`
	RequestBytes  int         `json:"request_bytes"`
	ResponseBytes int         `json:"response_bytes"`
	Clients       int         `json:"clients"`
	End           string      `json:"end" jsonschema:"enum=client,enum=server"` // client or server
	Trials        int         `json:"trials"`
	Calls         int64       `json:"calls"` // of all trials
	Bytes         float64     `json:"bytes_per_call"`
	Objects       float64     `json:"objects_per_call"`
	Functions     []Allocator `json:"functions"` // that allocate by themselves, those of the most bytes first
	Tree          []Branch    `json:"tree"`      // the call trees that allocate, those of the most bytes first
}

// Allocator is a function that allocates by itself.
type Allocator struct {
	Function string  `json:"function"` // with its package's path
	Bytes    float64 `json:"bytes_share"`
	Objects  float64 `json:"objects_share"`
}

// Branch is functions of which each calls the next and, as far as allocations
// go, nothing else.
type Branch struct {
	Functions []string `json:"functions"`
	Bytes     float64  `json:"bytes_share"` // with all that is called
	Objects   float64  `json:"objects_share"`
	Calls     []Branch `json:"calls"` // by the last of the functions
}

const (
	// leastBranch is the share of bytes or of objects that is told.
	leastBranch = 0.02
	// wholeBranch is the share of a function's allocations that makes the one
	// function that it calls part of the same branch.
	wholeBranch = 0.95
)

// findAllocations puts the profiled trials of equal cells together: part by part in
// the order of the plan, and in a part by the variants' places.
func findAllocations(places map[string]int, records []*record.Record) []Allocation {
	type spot struct {
		cell record.Cell
		end  string
	}
	var spots []spot
	sums := map[spot]*allocated{}
	parts := map[string]int{}
	for _, r := range slices.SortedFunc(slices.Values(records), func(a, b *record.Record) int { return cmp.Compare(a.Trial, b.Trial) }) {
		if r.Calls() == 0 {
			continue
		}
		if _, seen := parts[r.Cell.Part]; !seen {
			parts[r.Cell.Part] = len(parts)
		}
		for _, side := range []struct {
			end  string
			from *record.Allocations
		}{{ServerEnd, r.Server.Allocations}, {ClientEnd, r.Client.Allocations}} {
			if side.from == nil {
				continue
			}
			at := spot{r.Cell, side.end}
			if sums[at] == nil {
				sums[at] = &allocated{}
				spots = append(spots, at)
			}
			sums[at].add(side.from, r.Calls())
		}
	}
	slices.SortStableFunc(spots, func(a, b spot) int {
		return cmp.Or(cmp.Compare(parts[a.cell.Part], parts[b.cell.Part]), cmp.Compare(places[a.cell.Variant], places[b.cell.Variant]))
	})
	var all []Allocation
	for _, at := range spots {
		if sum := sums[at]; sum.bytes > 0 && sum.objects > 0 {
			a := sum.summarize()
			a.Part, a.Variant, a.Workload, a.End = at.cell.Part, at.cell.Variant, at.cell.Workload, at.end
			a.RequestBytes, a.ResponseBytes, a.Clients = at.cell.RequestBytes, at.cell.ResponseBytes, at.cell.Clients
			all = append(all, a)
		}
	}
	return all
}

// allocated is what trials have allocated together.
type allocated struct {
	trials         int
	calls          int64
	bytes, objects float64
	stacks         []record.AllocationStack
}

func (a *allocated) add(from *record.Allocations, calls int64) {
	a.trials++
	a.calls += calls
	a.bytes += float64(from.Bytes)
	a.objects += float64(from.Objects)
	a.stacks = append(a.stacks, from.Stacks...)
}

func (a *allocated) summarize() Allocation {
	return Allocation{
		Trials: a.trials, Calls: a.calls,
		Bytes: a.bytes / float64(a.calls), Objects: a.objects / float64(a.calls),
		Functions: a.functions(), Tree: a.branches(0, a.stacks),
	}
}

func (a *allocated) functions() []Allocator {
	place := map[string]int{}
	var all []Allocator
	for _, s := range a.stacks {
		if len(s.Functions) == 0 {
			continue
		}
		name := s.Functions[len(s.Functions)-1]
		i, seen := place[name]
		if !seen {
			i = len(all)
			place[name] = i
			all = append(all, Allocator{Function: name})
		}
		all[i].Bytes += float64(s.Bytes) / a.bytes
		all[i].Objects += float64(s.Objects) / a.objects
	}
	slices.SortStableFunc(all, func(x, y Allocator) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return slices.DeleteFunc(all, func(f Allocator) bool { return f.Bytes < leastBranch && f.Objects < leastBranch })
}

// branches are what stacks, which are equal up to depth, have there.
func (a *allocated) branches(depth int, stacks []record.AllocationStack) []Branch {
	through := map[string][]record.AllocationStack{}
	var names []string
	for _, s := range stacks {
		if len(s.Functions) <= depth {
			continue // the one before allocates
		}
		name := s.Functions[depth]
		if through[name] == nil {
			names = append(names, name)
		}
		through[name] = append(through[name], s)
	}
	var all []Branch
	for _, name := range names {
		b := Branch{Functions: []string{name}}
		for _, s := range through[name] {
			b.Bytes += float64(s.Bytes) / a.bytes
			b.Objects += float64(s.Objects) / a.objects
		}
		if b.Bytes < leastBranch && b.Objects < leastBranch {
			continue
		}
		b.Calls = a.branches(depth+1, through[name])
		all = append(all, b.straightened())
	}
	slices.SortStableFunc(all, func(x, y Branch) int { return cmp.Compare(y.Bytes, x.Bytes) })
	return all
}

// straightened takes the one function that is called into the branch.
func (b Branch) straightened() Branch {
	if len(b.Calls) != 1 {
		return b
	}
	only := b.Calls[0]
	if only.Bytes < wholeBranch*b.Bytes || only.Objects < wholeBranch*b.Objects {
		return b
	}
	b.Functions, b.Calls = append(b.Functions, only.Functions...), only.Calls
	return b
}
