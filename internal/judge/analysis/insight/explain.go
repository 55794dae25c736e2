package insight

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/base/lists"
)

// Explain divides the difference between two cells into parts, using the probes' readings. If
// against is nil, it divides the time of one cell.
func Explain(of, against *Insight) *Explanation {
	e := &Explanation{Of: of, Against: against, Measured: measure(of, against)}
	a := cmp.Or(against, &Insight{})
	if of.Life != nil && (against == nil || a.Life != nil) {
		e.Stages = []ExplainedFigure{explainStages(of, a)}
	}
	for _, end := range []struct {
		name string
		a, b *EndReadings
	}{{ClientEnd, &a.Client, &of.Client}, {ServerEnd, &a.Server, &of.Server}} {
		if end.b.CPU != nil && (against == nil || end.a.CPU != nil) {
			e.CPU = append(e.CPU, explainBreakdown(Change{Name: "CPU time", End: end.name}, end.a.CPU, end.b.CPU))
		}
		if end.b.OffCPU != nil && (against == nil || end.a.OffCPU != nil) {
			e.OffCPU = append(e.OffCPU, explainBreakdown(Change{Name: "waiting", End: end.name}, end.a.OffCPU, end.b.OffCPU))
		}
		if end.b.Allocated != nil && (against == nil || end.a.Allocated != nil) {
			e.Allocations = append(e.Allocations, explainAllocation(end.name, end.a.Allocated, end.b.Allocated))
		}
		e.Syscalls = append(e.Syscalls, pairByName(end.name, lists.Map(end.a.Syscalls, Syscall.reading), lists.Map(end.b.Syscalls, Syscall.reading))...)
		e.Counters = append(e.Counters, pairByName(end.name, lists.Map(end.a.Counters, Count.reading), lists.Map(end.b.Counters, Count.reading))...)
		e.Functions = append(e.Functions, pairByName(end.name, end.a.CPU.functionReadings(), end.b.CPU.functionReadings())...)
	}
	e.Waits = pairByName(ServerEnd, lists.Map(a.Server.Waits, Wait.reading), lists.Map(of.Server.Waits, Wait.reading))
	e.Unobserved = of.unobserved()
	if against != nil {
		e.Unobserved = append(e.Unobserved, against.unobserved()...)
	}
	e.Causes = findCauses(e)
	return e
}

func (s Syscall) reading() Change  { return Change{Name: s.Name, B: s.PerCall} }
func (c Count) reading() Change    { return Change{Name: c.Name, B: c.PerCall} }
func (c Category) reading() Change { return Change{Name: c.Name, B: c.PerCall, Error: c.Error} }
func (w Wait) reading() Change     { return Change{Name: w.name(), B: w.Time} }
func (s Stage) reading() Change    { return Change{Name: s.Name, B: s.Mean, Error: s.Error} }

// functionReadings returns the functions, each with the library that has it.
func (b *Breakdown) functionReadings() []Change {
	if b == nil {
		return nil
	}
	return lists.Map(b.Functions, func(f FunctionTime) Change {
		name := f.Function
		if f.In != "" {
			name += " (" + f.In + ")"
		}
		return Change{Name: name, B: f.Share}
	})
}

func (l *Life) meanCallTime() float64 { return *cmp.Or(l.Bare, &l.Mean) }

func explainStages(of, a *Insight) ExplainedFigure {
	e := ExplainedFigure{Whole: Change{Name: "a call", B: of.Life.meanCallTime()}}
	var before []Stage
	if a.Life != nil {
		before, e.Whole.A = a.Life.Stages, a.Life.meanCallTime()
	}
	e.Parts = pairByName("", lists.Map(before, Stage.reading), lists.Map(of.Life.Stages, Stage.reading))
	e.finish()
	return e
}

func explainBreakdown(whole Change, a, b *Breakdown) ExplainedFigure {
	a = cmp.Or(a, &Breakdown{})
	whole.A, whole.B = a.PerCall, b.PerCall
	e := ExplainedFigure{End: whole.End, Whole: whole}
	e.Parts = pairByName(whole.End, lists.Map(a.Categories, Category.reading), lists.Map(b.Categories, Category.reading))
	e.finish()
	return e
}

func explainAllocation(end string, a, b *Allocation) ExplainedAllocation {
	a = cmp.Or(a, &Allocation{})
	return ExplainedAllocation{
		End: end, Bytes: Change{Name: "bytes", End: end, A: a.Bytes, B: b.Bytes}, Objects: Change{Name: "objects", End: end, A: a.Objects, B: b.Objects},
		Functions: pairByName(end, a.functionReadings(), b.functionReadings()),
	}
}

// functionReadings returns the bytes per call that each function allocates.
func (a *Allocation) functionReadings() []Change {
	return lists.Map(a.Functions, func(f Allocator) Change { return Change{Name: f.Function, B: f.Bytes * a.Bytes} })
}

// finish computes Rest.
func (e *ExplainedFigure) finish() {
	e.Rest = e.Whole.Difference()
	for _, p := range e.Parts {
		e.Rest -= p.Difference()
	}
	if math.Abs(e.Rest) < 1e-9*math.Abs(e.Whole.B) {
		e.Rest = 0
	}
}

// pairByName returns the changes from the readings of cell A to those of cell B, the largest difference
// first.
func pairByName(end string, a, b []Change) []Change {
	var all []Change
	for _, one := range a {
		all = append(all, Change{Name: one.Name, End: end, A: one.B, Error: one.Error})
	}
	for _, one := range b {
		part := lists.FindOrAdd(&all, Change{Name: one.Name, End: end}, func(p Change) bool { return p.Name == one.Name })
		part.B, part.Error = one.B, math.Hypot(part.Error, one.Error)
	}
	slices.SortStableFunc(all, func(x, y Change) int {
		return cmp.Compare(math.Abs(y.Difference()), math.Abs(x.Difference()))
	})
	return all
}
