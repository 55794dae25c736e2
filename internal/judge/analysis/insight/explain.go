package insight

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
)

// An Explanation divides the time of a cell, or the difference between two cells, into parts. Each
// list adds up to its whole.
type Explanation struct {
	Of      *Insight `json:"of"`      // the explained cell, B
	Against *Insight `json:"against"` // the other cell, A; null if only one is explained

	// Mean is the mean time of Of divided by that of Against; null if one of them is unknown.
	Mean *float64 `json:"mean_ratio" jsonschema:"nullable"`

	Stages []Explained `json:"stages"` // stages of a call's time: one list, or none
	CPU    []Explained `json:"cpu"`    // CPU time per call of each end, by category
	// Syscalls and Counters are counts per call. They do not add up to a whole.
	Syscalls []Change `json:"syscalls"`
	Counters []Change `json:"counters"`
}

// An Explained is a whole and its parts.
type Explained struct {
	End   string   `json:"end,omitempty"` // client or server; empty for both
	Whole Change   `json:"whole"`         // measured without a probe
	Parts []Change `json:"parts"`         // the largest difference first
	Rest  float64  `json:"rest"`          // part of the whole's difference without an explanation
}

// A Change is a figure of both cells. If one cell is explained, A is zero.
type Change struct {
	Name  string  `json:"name"`
	End   string  `json:"end,omitempty"`
	A     float64 `json:"a"`
	B     float64 `json:"b"`
	Error float64 `json:"error,omitempty"` // one standard error of the difference, if known
}

// Difference returns B minus A.
func (c Change) Difference() float64 { return c.B - c.A }

// IsClear reports whether a difference is more than noise.
func (c Change) IsClear() bool { return math.Abs(c.Difference()) > clearErrors*c.Error }

// clearErrors is the number of standard errors beyond which a difference is more than noise.
const clearErrors = 3

// Explain compares the probes' readings of two cells. Against may be nil.
func Explain(of, against *Insight) *Explanation {
	e := &Explanation{Of: of, Against: against}
	a := cmp.Or(against, &Insight{})
	if of.Mean != nil && a.Mean != nil && a.Mean.Value > 0 {
		e.Mean = new(of.Mean.Value / a.Mean.Value)
	}
	if of.Life != nil && (against == nil || sameStages(of.Life, a.Life)) {
		e.Stages = []Explained{explainStages(of, a)}
	}
	for _, end := range []struct {
		name string
		a, b *Inside
	}{{ClientEnd, &a.Client, &of.Client}, {ServerEnd, &a.Server, &of.Server}} {
		if end.b.CPU != nil && (against == nil || end.a.CPU != nil) {
			e.CPU = append(e.CPU, explainCPU(end.name, end.a.CPU, end.b.CPU))
		}
		e.Syscalls = append(e.Syscalls, countChanges(end.name, lists.Map(end.a.Syscalls, Syscall.count), lists.Map(end.b.Syscalls, Syscall.count))...)
		e.Counters = append(e.Counters, countChanges(end.name, end.a.Counters, end.b.Counters)...)
	}
	return e
}

func (s Syscall) count() Count { return Count{s.Name, s.PerCall} }

func (l *Life) whole() float64 { return *cmp.Or(l.Bare, &l.Mean) }

func sameStages(a, b *Life) bool {
	return a != nil && b != nil && slices.EqualFunc(a.Stages, b.Stages, func(x, y Stage) bool { return x.Name == y.Name })
}

// explainStages takes as the whole the calls of the same processes without a probe.
func explainStages(of, a *Insight) Explained {
	e := Explained{Whole: Change{Name: "a call", B: of.Life.whole()}}
	var before []Stage
	if a.Life != nil {
		before, e.Whole.A = a.Life.Stages, a.Life.whole()
	}
	for i, stage := range of.Life.Stages {
		part := Change{Name: stage.Name, B: stage.Mean, Error: stage.Error}
		if before != nil {
			part.A, part.Error = before[i].Mean, math.Hypot(before[i].Error, stage.Error)
		}
		e.Parts = append(e.Parts, part)
	}
	e.finish()
	return e
}

func explainCPU(end string, a, b *Breakdown) Explained {
	a = cmp.Or(a, &Breakdown{})
	e := Explained{End: end, Whole: Change{Name: "CPU time", End: end, A: a.PerCall, B: b.PerCall}}
	for _, c := range a.Categories {
		e.Parts = append(e.Parts, Change{Name: c.Name, End: end, A: c.PerCall, Error: c.Error})
	}
	for _, c := range b.Categories {
		part := lists.FindOrAdd(&e.Parts, Change{Name: c.Name, End: end}, func(p Change) bool { return p.Name == c.Name })
		part.B, part.Error = c.PerCall, math.Hypot(part.Error, c.Error)
	}
	e.finish()
	return e
}

// finish sorts the parts, and computes the rest.
func (e *Explained) finish() {
	slices.SortStableFunc(e.Parts, largestFirst)
	e.Rest = e.Whole.Difference()
	for _, p := range e.Parts {
		e.Rest -= p.Difference()
	}
	if math.Abs(e.Rest) < 1e-9*math.Abs(e.Whole.B) {
		e.Rest = 0
	}
}

func largestFirst(a, b Change) int {
	return cmp.Compare(math.Abs(b.Difference()), math.Abs(a.Difference()))
}

// countChanges pairs the counts of both cells, the largest difference first.
func countChanges(end string, a, b []Count) []Change {
	var all []Change
	for _, c := range a {
		all = append(all, Change{Name: c.Name, End: end, A: c.PerCall})
	}
	for _, c := range b {
		lists.FindOrAdd(&all, Change{Name: c.Name, End: end}, func(p Change) bool { return p.Name == c.Name }).B = c.PerCall
	}
	slices.SortStableFunc(all, largestFirst)
	return all
}

// UsualPair returns the first insight as against, and the slowest other cell at the same place as
// of. If there is no other cell, of is the first insight and against is nil.
func UsualPair(insights []Insight) (of, against *Insight) {
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

// callTime returns the mean time of a measured call, or else of a traced call, or 0.
func (i *Insight) callTime() float64 {
	switch {
	case i.Mean != nil:
		return i.Mean.Value
	case i.Life != nil:
		return i.Life.whole()
	}
	return 0
}

// IsAt reports whether two insights differ only in their variant.
func (i *Insight) IsAt(other *Insight) bool {
	return i.Part == other.Part && i.Place == other.Place
}

// Key names the cell of an insight, as [record.Cell] does.
func (i *Insight) Key() string { return i.Place.Key(i.Part, i.Variant) }

// ExplainCells explains one cell, or the difference between two. cells has parts of their names.
func ExplainCells(cells string, among []Insight) (*Explanation, error) {
	names := strings.Split(cells, ",")
	if len(names) > 2 {
		names = splitVariants(names, among)
	}
	if len(names) > 2 {
		return nil, fmt.Errorf("want one cell or two, found %d", len(names))
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

// splitVariants joins words to names again if a variant's name contains commas.
func splitVariants(words []string, among []Insight) []string {
	for cut := 1; cut < len(words); cut++ {
		names := []string{strings.Join(words[:cut], ","), strings.Join(words[cut:], ",")}
		if !slices.ContainsFunc(names, func(name string) bool { return len(matching(name, among)) == 0 }) {
			return names
		}
	}
	if name := strings.Join(words, ","); len(matching(name, among)) > 0 {
		return []string{name}
	}
	return words
}

// matching returns the insights that a name may mean: by variant, or by a part of the full name.
func matching(name string, among []Insight) []*Insight {
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

// findInsight returns the insight with this name next to the cell before, or else the first.
func findInsight(name string, among []Insight, before *Insight) (*Insight, error) {
	found := matching(name, among)
	if len(found) == 0 {
		places := lists.Map(among, func(one Insight) string { return one.Key() })
		return nil, fmt.Errorf("no probed cell matches %q; the probed cells are\n  %s", name, strings.Join(places, "\n  "))
	}
	for _, one := range found {
		if before != nil && one.IsAt(before) && one != before {
			return one, nil
		}
	}
	return found[0], nil
}
