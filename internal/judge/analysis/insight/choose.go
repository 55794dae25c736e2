package insight

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
)

// DefaultPair chooses the cells to explain. against is the first insight, and of is the slowest of the
// insights that differ from it in as little as possible: in the variant; else in the part, as for links or
// workloads; else in the clients; else in the payload. If there is no other insight of these kinds, of is
// the first and against is nil.
func DefaultPair(insights []Insight) (of, against *Insight) {
	against = &insights[0]
	for _, isLike := range []func(a, b *Insight) bool{
		(*Insight).IsAt,
		func(a, b *Insight) bool {
			return a.Variant == b.Variant && a.Payload == b.Payload && a.Clients == b.Clients
		},
		func(a, b *Insight) bool { return a.Variant == b.Variant && a.Part == b.Part && a.Payload == b.Payload },
		func(a, b *Insight) bool { return a.Variant == b.Variant && a.Part == b.Part },
	} {
		for i := range insights {
			one := &insights[i]
			if one != against && isLike(one, against) && (of == nil || one.callTime() > of.callTime()) {
				of = one
			}
		}
		if of != nil {
			return of, against
		}
	}
	return against, nil
}

// ExplainDefault explains the cells of DefaultPair, and names the others.
func ExplainDefault(insights []Insight) *Explanation {
	e := Explain(DefaultPair(insights))
	e.nameOthers(insights)
	return e
}

func (e *Explanation) nameOthers(insights []Insight) {
	for i := range insights {
		if one := &insights[i]; one != e.Of && one != e.Against {
			e.Others = append(e.Others, one.Key())
		}
	}
}

// ExplainRuns explains why a cell takes longer in the run after than in the run before. cells names a cell of
// both runs, or one of each; empty stands for the first cell that both runs have.
func ExplainRuns(cells string, before, after []Insight) (*Explanation, error) {
	if cells != "" {
		return explainNamedInRuns(cells, before, after)
	}
	for i := range before {
		for j := range after {
			if before[i].Key() == after[j].Key() {
				e := Explain(&after[j], &before[i])
				e.nameOthers(after)
				return e, nil
			}
		}
	}
	return nil, fmt.Errorf("no probed cell is in both runs: name a cell of the earlier and one of the later run with --cells A,B\n  %s\n  %s",
		strings.Join(lists.Map(before, Insight.inRun), "\n  "), strings.Join(lists.Map(after, Insight.inRun), "\n  "))
}

func explainNamedInRuns(cells string, before, after []Insight) (*Explanation, error) {
	names := splitNames(cells, slices.Concat(before, after))
	if len(names) > 2 {
		return nil, fmt.Errorf("%d cells were named: name one cell of both runs, or one of each", len(names))
	}
	against, err := findInsight(names[0], before, nil)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", before[0].Run, err)
	}
	of, err := findInsight(names[len(names)-1], after, against)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", after[0].Run, err)
	}
	return Explain(of, against), nil
}

// inRun names the insight's cell, with its run.
func (i Insight) inRun() string { return i.Run + ": " + i.Key() }

// properties are the properties in which two cells may differ, each as the head of a column.
var properties = []func(*Insight) string{
	func(i *Insight) string { return i.Run },
	(*Insight).Name,
	func(i *Insight) string { return i.Workload },
	func(i *Insight) string { return cmp.Or(i.Link, "no link") },
	func(i *Insight) string { return i.Payload.Key() },
	func(i *Insight) string { return fmt.Sprintf("c=%d", i.Clients) },
}

// Names returns short names of the two cells. They consist of the properties in which the cells differ.
func (e *Explanation) Names() (of, against string) {
	if e.Against == nil {
		return e.Of.Name(), ""
	}
	var b, a []string
	for _, property := range properties {
		if x, y := property(e.Of), property(e.Against); x != y {
			b, a = append(b, x), append(a, y)
		}
	}
	if len(b) == 0 {
		return e.Of.Part, e.Against.Part
	}
	return strings.Join(b, ", "), strings.Join(a, ", ")
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
// separated by a comma or a semicolon. A part of a name is enough, and options may be in any order.
func ExplainCells(cells string, among []Insight) (*Explanation, error) {
	names := splitNames(cells, among)
	if len(names) > 2 {
		return nil, fmt.Errorf("%d cells were named: name one to explain, or two to compare; if a name has commas, write a semicolon between the names", len(names))
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

// splitNames splits the names of cells at the semicolons between them, or else at a comma. A name may
// itself contain commas, so it prefers one name, and then the first comma between two names of cells.
func splitNames(cells string, among []Insight) []string {
	if strings.Contains(cells, ";") {
		return lists.Map(strings.Split(cells, ";"), strings.TrimSpace)
	}
	isCell := func(name string) bool { return len(matchInsights(name, among)) > 0 }
	words := strings.Split(cells, ",")
	if isCell(cells) {
		return []string{cells}
	}
	for cut := 1; cut < len(words); cut++ {
		a, b := strings.Join(words[:cut], ","), strings.Join(words[cut:], ",")
		if isCell(a) && isCell(b) {
			return []string{a, b}
		}
	}
	return words
}

// inOrder returns a name whose options are in the order of the variant, if the name has this variant.
func inOrder(name, variant string) string {
	for begin := 0; begin+len(variant) <= len(name); begin++ {
		end := begin + len(variant) // another order is as long
		if begin > 0 && name[begin-1] != '/' {
			continue
		}
		if v, err := scenario.ParseVariant(name[begin:end]); err == nil && v.String() == variant {
			return name[:begin] + variant + name[end:]
		}
	}
	return name
}

// matchInsights returns the insights with this name or variant, whose options may be in any order. If there are none, it returns the
// insights whose name contains the text.
func matchInsights(name string, among []Insight) []*Insight {
	var variants, parts []*Insight
	for i := range among {
		one := &among[i]
		name := inOrder(name, one.Variant)
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
		if before != nil && one.IsAt(before) && one != before && (one.Run == before.Run || one.Variant == before.Variant) {
			return one, nil
		}
	}
	return found[0], nil
}
