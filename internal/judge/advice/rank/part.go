// Package rank ranks the variants at each point by the verdicts of comparisons. It finds the best
// variant, its equals and the worse variants. It also grades the best variant over groups of points.
//
// It reads an analysis and formats no text.
package rank

import (
	"slices"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Part holds the cells of one part of the scenario, and their comparisons.
type Part struct {
	Name        string
	Cells       []*matrix.Cell   // all cells, including those without a valid trial
	Variants    []string         // variants with valid trials, in the order of the cells
	Sizes       []record.Payload // ascending
	Clients     []int            // ascending
	Comparisons []*compare.Comparison
}

// A Point is a size and a concurrency at which variants of a part are compared.
type Point struct {
	Size    record.Payload `json:"size"`    // message size
	Clients int            `json:"clients"` // number of clients
}

// PartsOf groups cells by part. It omits cells that another program called, because they only serve
// to check wirelab's client.
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

// CellsOf returns the run's cells for which can returns true.
func CellsOf(s *analysis.Summary, can func(*matrix.Cell) bool) []*matrix.Cell {
	var all []*matrix.Cell
	for i := range s.Cells {
		all = append(all, &s.Cells[i])
	}
	return Filter(all, can)
}

// Filter returns the cells for which can returns true.
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

// MainPart returns the part with the most cells.
func MainPart(parts []*Part) *Part {
	return slices.MaxFunc(parts, func(a, b *Part) int { return len(a.Cells) - len(b.Cells) })
}

// IsClosedLoop reports whether a part was measured under a closed loop.
func IsClosedLoop(s *analysis.Summary, part string) bool {
	i := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool { return c.Part == part })
	return i >= 0 && s.Cells[i].Load.Model == "closed"
}

// CellsUnder returns the cells with this load model for which has returns true.
func CellsUnder(s *analysis.Summary, model string, has func(*matrix.Cell) bool) []*matrix.Cell {
	return CellsOf(s, func(c *matrix.Cell) bool { return c.Load.Model == model && has(c) })
}

// FilterCells returns the part with only the cells for which can returns true.
func (p *Part) FilterCells(can func(*matrix.Cell) bool) *Part {
	return newPart(p.Name, Filter(p.Cells, can), p.Comparisons)
}

// AtNearestPoints returns the part with only the points around the wanted point. It returns nil if
// this point is outside the measured range.
func (p *Part) AtNearestPoints(size record.Payload, clients int) *Part {
	q := *p
	if size != (record.Payload{}) {
		q.Sizes = bracket(p.Sizes, func(other record.Payload) int { return other.Compare(size) })
		if len(q.Sizes) == 2 && (q.Sizes[0].RequestBytes > size.RequestBytes || q.Sizes[0].ResponseBytes > size.ResponseBytes || q.Sizes[1].RequestBytes < size.RequestBytes || q.Sizes[1].ResponseBytes < size.ResponseBytes) {
			return nil
		}
	}
	if clients > 0 {
		q.Clients = bracket(p.Clients, func(other int) int { return other - clients })
	}
	if len(q.Sizes) == 0 || len(q.Clients) == 0 {
		return nil
	}
	return &q
}

// bracket finds a value among ascending values. It returns the value itself, or else the two values
// around it. It returns nil if the value is outside their range.
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
