package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// An Explanation divides the time of a cell, or the difference between two cells, into parts.
type Explanation struct {
	Of      *Insight `json:"of"`      // the explained cell, called B in the parts
	Against *Insight `json:"against"` // the cell for comparison, called A; null if there is none

	// Mean is B's mean time divided by A's mean time; null if A or B has none.
	Mean *float64 `json:"mean_ratio" jsonschema:"nullable"`

	Stages []ExplainedFigure `json:"stages"` // a call's time by stage; empty if no probe traced calls, else one element
	CPU    []ExplainedFigure `json:"cpu"`    // CPU time per call of each end, by category
	// Syscalls and Counters are numbers of events per call.
	Syscalls []Change `json:"syscalls"`
	Counters []Change `json:"counters"`
	// Functions are shares of the CPU time of each end, without the functions that they call.
	Functions []Change `json:"functions"`

	Others []string `json:"others"` // names of the cells with probes that are not explained
}

// An ExplainedFigure holds a figure and the parts that it consists of.
type ExplainedFigure struct {
	End   string   `json:"end,omitempty"` // client or server; empty if the figure covers both ends
	Whole Change   `json:"whole"`         // the figure, measured without a probe
	Parts []Change `json:"parts"`         // the largest difference first
	Rest  float64  `json:"rest"`          // difference between A and B that the parts do not explain
}

// A Change is one figure in cells A and B. If there is only one cell, A is zero.
type Change struct {
	Name  string  `json:"name"`
	End   string  `json:"end,omitempty"`
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	Error float64 `json:"error,omitempty"` // standard error of the difference, if known
}

// Difference returns B minus A.
func (c Change) Difference() float64 { return c.B - c.A }

// IsClear reports whether a difference is more than noise.
func (c Change) IsClear() bool { return math.Abs(c.Difference()) > clearErrors*c.Error }

// clearErrors is the number of standard errors beyond which a difference is more than noise.
const clearErrors = 3

// Explain divides the difference between two cells into parts, using the probes' readings. If
// against is nil, it divides the time of one cell.
func Explain(of, against *Insight) *Explanation {
	e := &Explanation{Of: of, Against: against}
	a := cmp.Or(against, &Insight{})
	if of.Mean != nil && a.Mean != nil && a.Mean.Value > 0 {
		e.Mean = new(of.Mean.Value / a.Mean.Value)
	}
	if of.Life != nil && (against == nil || sameStages(of.Life, a.Life)) {
		e.Stages = []ExplainedFigure{explainStages(of, a)}
	}
	for _, end := range []struct {
		name string
		a, b *EndReadings
	}{{ClientEnd, &a.Client, &of.Client}, {ServerEnd, &a.Server, &of.Server}} {
		if end.b.CPU != nil && (against == nil || end.a.CPU != nil) {
			e.CPU = append(e.CPU, explainCPU(end.name, end.a.CPU, end.b.CPU))
		}
		e.Syscalls = append(e.Syscalls, pairByName(end.name, lists.Map(end.a.Syscalls, Syscall.reading), lists.Map(end.b.Syscalls, Syscall.reading))...)
		e.Counters = append(e.Counters, pairByName(end.name, lists.Map(end.a.Counters, Count.reading), lists.Map(end.b.Counters, Count.reading))...)
		e.Functions = append(e.Functions, pairByName(end.name, end.a.CPU.functionReadings(), end.b.CPU.functionReadings())...)
	}
	return e
}

func (s Syscall) reading() Change  { return Change{Name: s.Name, B: s.PerCall} }
func (c Count) reading() Change    { return Change{Name: c.Name, B: c.PerCall} }
func (c Category) reading() Change { return Change{Name: c.Name, B: c.PerCall, Error: c.Error} }
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

func sameStages(a, b *Life) bool {
	return a != nil && b != nil && slices.EqualFunc(a.Stages, b.Stages, func(x, y Stage) bool { return x.Name == y.Name })
}

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

func explainCPU(end string, a, b *Breakdown) ExplainedFigure {
	a = cmp.Or(a, &Breakdown{})
	e := ExplainedFigure{End: end, Whole: Change{Name: "CPU time", End: end, A: a.PerCall, B: b.PerCall}}
	e.Parts = pairByName(end, lists.Map(a.Categories, Category.reading), lists.Map(b.Categories, Category.reading))
	e.finish()
	return e
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

// DefaultPair chooses the cells to explain. against is the first insight, and of is the slowest
// other insight under the same conditions. If there is no other insight, of is the first and
// against is nil.
func DefaultPair(insights []Insight) (of, against *Insight) {
	against = &insights[0]
	for i := range insights {
		one := &insights[i]
		switch {
		case one == against || !one.IsAt(against):
		case of == nil, one.callTime() > of.callTime():
			of = one
		}
	}
	if of == nil {
		return against, nil
	}
	return of, against
}

// ExplainDefault explains the cells of DefaultPair, and names the others.
func ExplainDefault(insights []Insight) *Explanation {
	e := Explain(DefaultPair(insights))
	for i := range insights {
		if one := &insights[i]; one != e.Of && one != e.Against {
			e.Others = append(e.Others, one.Key())
		}
	}
	return e
}

// callTime returns the mean time of measured calls, or else of traced calls, or else 0.
func (i *Insight) callTime() float64 {
	switch {
	case i.Mean != nil:
		return i.Mean.Value
	case i.Life != nil:
		return i.Life.meanCallTime()
	}
	return 0
}

// IsAt reports whether two insights differ only in their variant.
func (i *Insight) IsAt(other *Insight) bool {
	return i.Part == other.Part && i.Place == other.Place
}

// Key returns the name of the insight's cell, in the form of [record.Cell].
func (i *Insight) Key() string { return i.Cell().Key() }

// ExplainCells explains one cell, or the difference between two. cells holds one name, or two names
// separated by a comma. A part of a name is enough.
func ExplainCells(cells string, among []Insight) (*Explanation, error) {
	names := strings.Split(cells, ",")
	if len(names) > 2 {
		names = splitVariants(names, among)
	}
	if len(names) > 2 {
		return nil, fmt.Errorf("%d cells were named: name one cell to explain, or two to compare", len(names))
	}
	var of, against *Insight
	for _, name := range names {
		one, err := findInsight(name, among, of)
		if err != nil {
			return nil, err
		}
		of, against = one, of
	}
	return Explain(of, against), nil
}

// splitVariants joins words to one or two names, because a name may itself contain commas.
func splitVariants(words []string, among []Insight) []string {
	for cut := 1; cut < len(words); cut++ {
		names := []string{strings.Join(words[:cut], ","), strings.Join(words[cut:], ",")}
		if !slices.ContainsFunc(names, func(name string) bool { return len(matchInsights(name, among)) == 0 }) {
			return names
		}
	}
	if name := strings.Join(words, ","); len(matchInsights(name, among)) > 0 {
		return []string{name}
	}
	return words
}

// matchInsights returns the insights with this name or variant. If there are none, it returns the
// insights whose name contains the text.
func matchInsights(name string, among []Insight) []*Insight {
	var variants, parts []*Insight
	for i := range among {
		one := &among[i]
		switch place := one.Key(); {
		case place == name:
			return []*Insight{one}
		case one.Variant == name:
			variants = append(variants, one)
		case strings.Contains("/"+place+"/", "/"+name+"/"):
			parts = append(parts, one)
		}
	}
	if len(variants) > 0 {
		return variants
	}
	return parts
}

// findInsight returns an insight with this name, preferably under the same conditions as before.
func findInsight(name string, among []Insight, before *Insight) (*Insight, error) {
	found := matchInsights(name, among)
	if len(found) == 0 {
		places := lists.Map(among, func(one Insight) string { return one.Key() })
		return nil, fmt.Errorf("no probed cell matches %q: choose one of these\n  %s", name, strings.Join(places, "\n  "))
	}
	for _, one := range found {
		if before != nil && one.IsAt(before) && one != before {
			return one, nil
		}
	}
	return found[0], nil
}
