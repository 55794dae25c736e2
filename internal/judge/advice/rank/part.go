// Package rank orders the variants of a part at each point by the verdicts of comparisons: the
// best, its equals, those behind, and the sizes at which the same variants may be chosen.
//
// It reads an analysis and formats no text.
package rank

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Part holds a part of the scenario. Variants, Sizes and Clients all have valid trials.
type Part struct {
	Name        string
	Cells       []*matrix.Cell   // including invalid ones
	Variants    []string         // in the order of the cells
	Sizes       []record.Payload // ascending
	Clients     []int            // ascending
	Comparisons []*compare.Comparison
}

// A Point is a size and a concurrency at which variants of a part are compared.
type Point struct {
	Size    record.Payload
	Clients int
}

// PartsOf groups cells by part. It omits cells with another program's client, which only check
// wirelab's client.
func PartsOf(s *analysis.Summary) []*Part {
	own := CellsOf(s, func(c *matrix.Cell) bool { return !c.ForeignClient })
	var parts []*Part
	for _, cells := range lists.GroupBy(own, func(c *matrix.Cell) string { return c.Part }) {
		var compared []*compare.Comparison
		for i := range s.Comparisons {
			if c := &s.Comparisons[i]; c.Part == cells[0].Part {
				compared = append(compared, c)
			}
		}
		parts = append(parts, newPart(cells[0].Part, cells, compared))
	}
	return parts
}

func newPart(name string, cells []*matrix.Cell, compared []*compare.Comparison) *Part {
	p := &Part{Name: name, Cells: cells, Comparisons: compared}
	for _, c := range cells {
		if c.IsValid() {
			p.Variants, p.Sizes, p.Clients = lists.AppendNew(p.Variants, c.Variant), lists.AppendNew(p.Sizes, c.Payload), lists.AppendNew(p.Clients, c.Clients)
		}
	}
	slices.SortFunc(p.Sizes, record.Payload.Compare)
	slices.Sort(p.Clients)
	return p
}

// CellsOf returns the cells for which can is true.
func CellsOf(s *analysis.Summary, can func(*matrix.Cell) bool) []*matrix.Cell {
	var all []*matrix.Cell
	for i := range s.Cells {
		all = append(all, &s.Cells[i])
	}
	return Filter(all, can)
}

// Filter returns the cells for which can is true.
func Filter(cells []*matrix.Cell, can func(*matrix.Cell) bool) []*matrix.Cell {
	return slices.DeleteFunc(slices.Clone(cells), func(c *matrix.Cell) bool { return !can(c) })
}

// Cell returns the cell of a variant, or nil if it has no valid trial.
func (p *Part) Cell(variant string, at Point) *matrix.Cell {
	i := slices.IndexFunc(p.Cells, func(c *matrix.Cell) bool {
		return c.IsValid() && c.Variant == variant && c.Payload == at.Size && c.Clients == at.Clients
	})
	if i < 0 {
		return nil
	}
	return p.Cells[i]
}

// CellsAt returns the valid cells of all variants at a point.
func (p *Part) CellsAt(at Point) []*matrix.Cell {
	var cells []*matrix.Cell
	for _, v := range p.Variants {
		if c := p.Cell(v, at); c != nil {
			cells = append(cells, c)
		}
	}
	return cells
}

// ClientEnds returns the lowest and the highest concurrency, or the only one.
func (p *Part) ClientEnds() []int { return FirstAndLast(p.Clients) }

// SizesAscend reports whether both requests and answers grow from size to size. Only then do two
// sizes name a range.
func (p *Part) SizesAscend() bool {
	return slices.IsSortedFunc(p.Sizes, func(a, b record.Payload) int { return cmp.Compare(a.ResponseBytes, b.ResponseBytes) })
}

// SizeEnds returns the smallest and the largest size, or the only one.
func (p *Part) SizeEnds() []record.Payload { return FirstAndLast(p.Sizes) }

// FirstAndLast returns the first and the last value, or the only one.
func FirstAndLast[T any](axis []T) []T {
	if len(axis) < 2 {
		return axis
	}
	return []T{axis[0], axis[len(axis)-1]}
}

// MostClients returns the highest concurrency.
func (p *Part) MostClients() int { return p.Clients[len(p.Clients)-1] }

// IsCold reports whether the part was measured without warm-up.
func (p *Part) IsCold() bool {
	return !slices.ContainsFunc(p.Cells, func(c *matrix.Cell) bool { return !c.IsValid() || c.WarmUp.Value > 0 })
}

// IsClosed reports whether a client waits for the answer before its next request.
func (p *Part) IsClosed() bool { return p.Cells[0].Load.Model == "closed" }

// IsSearched reports whether the load was a search for the highest rate.
func (p *Part) IsSearched() bool { return p.Cells[0].Load.Model == "search" }

// HasEnoughTrials reports whether most cells have enough trials for a verdict.
func (p *Part) HasEnoughTrials() bool {
	enough := Filter(p.Cells, func(c *matrix.Cell) bool { return c.Throughput.Interval != nil })
	return 2*len(enough) > len(p.Cells)
}

// MainPart returns the part with the most cells.
func MainPart(parts []*Part) *Part {
	return slices.MaxFunc(parts, func(a, b *Part) int { return len(a.Cells) - len(b.Cells) })
}

// IsDecided reports whether a difference is certain.
func IsDecided(c *compare.Comparison) bool {
	return c.Verdict != compare.Undecided && c.Verdict != compare.Equivalent
}

// IsClosedLoop reports whether a part was measured under a closed loop.
func IsClosedLoop(s *analysis.Summary, part string) bool {
	i := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool { return c.Part == part })
	return i >= 0 && s.Cells[i].Load.Model == "closed"
}

// CellsUnder returns the cells with this load model for which has is true.
func CellsUnder(s *analysis.Summary, model string, has func(*matrix.Cell) bool) []*matrix.Cell {
	return CellsOf(s, func(c *matrix.Cell) bool { return c.Load.Model == model && has(c) })
}

// FilterCells returns the part with only the cells for which can is true.
func (p *Part) FilterCells(can func(*matrix.Cell) bool) *Part {
	return newPart(p.Name, Filter(p.Cells, can), p.Comparisons)
}

// NearestPoints returns the part with only the points next to the wanted one, or nil outside the
// range.
func (p *Part) NearestPoints(size record.Payload, callers int) *Part {
	sizes, clients := p.Sizes, p.Clients
	if size != (record.Payload{}) {
		sizes = bracket(sizes, func(other record.Payload) int { return other.Compare(size) })
		if len(sizes) == 2 && (sizes[0].RequestBytes > size.RequestBytes || sizes[0].ResponseBytes > size.ResponseBytes || sizes[1].RequestBytes < size.RequestBytes || sizes[1].ResponseBytes < size.ResponseBytes) {
			return nil
		}
	}
	if callers > 0 {
		clients = bracket(clients, func(other int) int { return other - callers })
	}
	if len(sizes) == 0 || len(clients) == 0 {
		return nil
	}
	q := *p
	q.Sizes, q.Clients = sizes, clients
	return &q
}

// bracket returns the wanted value or its two neighbours among ascending values. It returns nil
// outside the range.
func bracket[T any](values []T, compare func(T) int) []T {
	i := slices.IndexFunc(values, func(v T) bool { return compare(v) >= 0 })
	switch {
	case i < 0, i == 0 && compare(values[0]) > 0:
		return nil
	case compare(values[i]) == 0:
		return values[i : i+1]
	}
	return values[i-1 : i+1]
}

// HasVariantsIn reports whether the other part has all variants of p.
func (p *Part) HasVariantsIn(other *Part) bool {
	return !slices.ContainsFunc(p.Variants, func(v string) bool { return !slices.Contains(other.Variants, v) })
}
