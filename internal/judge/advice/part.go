package advice

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// part is a part of the scenario: variants at sizes and concurrencies. Its axes
// hold what has a valid trial.
type part struct {
	name        string
	cells       []*matrix.Cell   // valid or not
	variants    []string         // in the order of the cells
	sizes       []record.Payload // ascending
	clients     []int            // ascending
	comparisons []*compare.Comparison
}

// point is where variants of a part are compared.
type point struct {
	size    record.Payload
	clients int
}

// partsOf leaves out cells whose calls were made by another program: that is a
// measure for wirelab's own client, and nothing to choose.
func partsOf(s *analysis.Summary) []*part {
	own := cellsOf(s, func(c *matrix.Cell) bool { return !c.ForeignClient })
	var parts []*part
	for _, cells := range lists.GroupBy(own, func(c *matrix.Cell) string { return c.Part }) {
		p := &part{name: cells[0].Part, cells: cells}
		for _, c := range cells {
			if c.IsValid() {
				p.variants = withNew(p.variants, c.Variant)
				p.sizes = withNew(p.sizes, c.Payload)
				p.clients = withNew(p.clients, c.Clients)
			}
		}
		for i := range s.Comparisons {
			if c := &s.Comparisons[i]; c.Part == p.name {
				p.comparisons = append(p.comparisons, c)
			}
		}
		slices.SortFunc(p.sizes, record.Payload.Compare)
		slices.Sort(p.clients)
		parts = append(parts, p)
	}
	return parts
}

// cellsOf returns the cells that can is true of.
func cellsOf(s *analysis.Summary, can func(*matrix.Cell) bool) []*matrix.Cell {
	var cells []*matrix.Cell
	for i := range s.Cells {
		if c := &s.Cells[i]; can(c) {
			cells = append(cells, c)
		}
	}
	return cells
}

func withNew[T comparable](list []T, item T) []T {
	if slices.Contains(list, item) {
		return list
	}
	return append(list, item)
}

// cell is nil where it has no valid trial.
func (p *part) cell(variant string, at point) *matrix.Cell {
	for _, c := range p.cells {
		if c.IsValid() && c.Variant == variant && c.Payload == at.size && c.Clients == at.clients {
			return c
		}
	}
	return nil
}

// cellsAt are the cells of all variants at a point that have a valid trial.
func (p *part) cellsAt(at point) []*matrix.Cell {
	var cells []*matrix.Cell
	for _, v := range p.variants {
		if c := p.cell(v, at); c != nil {
			cells = append(cells, c)
		}
	}
	return cells
}

// clientEnds are the lowest and the highest concurrency, or the only one.
func (p *part) clientEnds() []int { return ends(p.clients) }

// sizesAscend reports whether neither requests nor responses become smaller along the
// sizes, so that a range of them may be named by its ends.
func (p *part) sizesAscend() bool {
	return slices.IsSortedFunc(p.sizes, func(a, b record.Payload) int { return cmp.Compare(a.ResponseBytes, b.ResponseBytes) })
}

// sizeEnds are the smallest and the largest size, or the only one.
func (p *part) sizeEnds() []record.Payload { return ends(p.sizes) }

func ends[T any](axis []T) []T {
	if len(axis) < 2 {
		return axis
	}
	return []T{axis[0], axis[len(axis)-1]}
}

func (p *part) mostClients() int { return p.clients[len(p.clients)-1] }

// cold reports whether the part was measured without warm-up, so that its
// figures are of the start.
func (p *part) cold() bool {
	return !slices.ContainsFunc(p.cells, func(c *matrix.Cell) bool { return !c.IsValid() || c.WarmUp.Value > 0 })
}

// closed reports whether clients wait for their answers before they ask again.
func (p *part) closed() bool { return p.cells[0].Load.Model == "closed" }

// searched reports whether the rate of each cell was searched for.
func (p *part) searched() bool { return p.cells[0].Load.Model == "search" }

// within reports whether all variants are also another part's.
func (p *part) within(other *part) bool {
	return !slices.ContainsFunc(p.variants, func(v string) bool { return !slices.Contains(other.variants, v) })
}

// repeated reports whether most cells have the trials that a verdict takes.
func (p *part) repeated() bool {
	enough := 0
	for _, c := range p.cells {
		if c.Throughput.Interval != nil {
			enough++
		}
	}
	return 2*enough > len(p.cells)
}

// rival is a variant as compared with another one.
type rival struct {
	variant string
	times   matrix.Figure   // the rival's figure over the other's
	verdict compare.Verdict // on the other
}

// against compares one variant with another, the rival.
func (p *part) against(one, other, metric string, at point) (rival, bool) {
	for _, c := range p.comparisons {
		if c.Metric != metric || c.Payload != at.size || c.Clients != at.clients {
			continue
		}
		switch {
		case c.A == one && c.B == other:
			return rival{variant: other, times: c.Ratio.Inverse(), verdict: c.Verdict}, true
		case c.A == other && c.B == one:
			return rival{variant: other, times: c.Ratio, verdict: opposite(c.Verdict)}, true
		}
	}
	return rival{}, false
}

func opposite(v compare.Verdict) compare.Verdict {
	switch v {
	case compare.Faster:
		return compare.Slower
	case compare.Slower:
		return compare.Faster
	case compare.Less:
		return compare.More
	case compare.More:
		return compare.Less
	}
	return v
}

// prefixed puts the part's name before sentences if the same could be said of
// several parts.
func (p *part) prefixed(parts []*part, sentences []string) []string {
	if len(parts) < 2 || p.name == "" {
		return sentences
	}
	named := make([]string, len(sentences))
	for i, sentence := range sentences {
		named[i] = p.name + ": " + strings.ToLower(sentence[:1]) + sentence[1:]
	}
	return named
}

// ranking is who leads at a point, and how far that is beyond doubt.
type ranking struct {
	at     point
	best   string
	equal  []string // to the best, within the margin
	unsure []string // cannot be told from it
	behind []string // beyond doubt
	tooFew bool     // too few trials for any verdict
	rivals []rival  // of the best, the nearest first
	value  matrix.Figure
}

// metricOf is a cell's figure for one of the analysis' metrics that are better
// where they are lower; nil where it was not measured, or of too few requests.
func metricOf(metric string, c *matrix.Cell) *matrix.Figure {
	switch metric {
	case matrix.P99:
		if math.IsNaN(c.ResponseTimes().P99.Value) {
			return nil
		}
		return &c.ResponseTimes().P99
	case matrix.CPU:
		return c.BothCPU()
	}
	return &c.ResponseTimes().Mean
}

// rank ranks the variants at a point. The best is the one with the lowest figure
// of those that no other is faster than beyond doubt.
func (p *part) rank(metric string, at point) (ranking, bool) {
	var best *matrix.Cell
	for _, variant := range p.variants {
		c := p.cell(variant, at)
		if c == nil || metricOf(metric, c) == nil || p.beaten(variant, metric, at) {
			continue
		}
		if best == nil || metricOf(metric, c).Value < metricOf(metric, best).Value {
			best = c
		}
	}
	if best == nil {
		return ranking{}, false
	}
	r := ranking{at: at, best: best.Variant, value: *metricOf(metric, best), tooFew: true}
	for _, other := range p.variants {
		view, compared := p.against(r.best, other, metric, at)
		if !compared {
			continue
		}
		r.rivals = append(r.rivals, view)
		r.tooFew = r.tooFew && view.times.Interval == nil
		switch view.verdict {
		case compare.Faster, compare.Less:
			r.behind = append(r.behind, other)
		case compare.Equivalent:
			r.equal = append(r.equal, other)
		default:
			r.unsure = append(r.unsure, other)
		}
	}
	slices.SortStableFunc(r.rivals, func(a, b rival) int { return cmp.Compare(a.times.Value, b.times.Value) })
	return r, true
}

func (p *part) beaten(variant, metric string, at point) bool {
	return slices.ContainsFunc(p.variants, func(other string) bool {
		view, compared := p.against(variant, other, metric, at)
		return compared && (view.verdict == compare.Slower || view.verdict == compare.More)
	})
}

// candidates are the variants that no measurement speaks against.
func (r ranking) candidates() []string {
	return slices.Concat([]string{r.best}, r.equal, r.unsure)
}

// sizeGroups ranks the variants with so many clients at every size, and puts the
// sizes with equal rankings together.
func (p *part) sizeGroups(metric string, clients int) [][]ranking {
	var all []ranking
	for _, size := range p.sizes {
		if r, ok := p.rank(metric, point{size, clients}); ok {
			all = append(all, r)
		}
	}
	return lists.GroupBy(all, func(r ranking) string { return fmt.Sprint(r.best, r.tooFew, r.equal, r.unsure, r.behind) })
}
