package advice

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/analysis"
)

// standing is who leads at a spot, and how far that is beyond doubt.
type standing struct {
	at     spot
	best   string
	equal  []string // to the best, within the margin
	unsure []string // cannot be told from it
	behind []string // beyond doubt
	once   bool     // too few trials for any verdict
	others []seen   // from the best's side, the nearest first
	value  analysis.Figure
}

// metricOf is a cell's figure for one of the analysis' metrics that are better
// where they are lower.
func metricOf(metric string, c *analysis.Cell) analysis.Figure {
	if metric == analysis.P99 {
		return latencies(c).P99
	}
	return latencies(c).Mean
}

// stand ranks the variants at a spot. The best is one that none is beyond doubt
// faster than, and of these the one with the lowest figure.
func (f *field) stand(metric string, at spot) (standing, bool) {
	var best *analysis.Cell
	for _, variant := range f.variants {
		c := f.cell(variant, at)
		if c == nil || f.beaten(variant, metric, at) {
			continue
		}
		if best == nil || metricOf(metric, c).Value < metricOf(metric, best).Value {
			best = c
		}
	}
	if best == nil {
		return standing{}, false
	}
	s := standing{at: at, best: best.Variant, value: metricOf(metric, best), once: true}
	for _, other := range f.variants {
		view, compared := f.against(s.best, other, metric, at)
		if !compared {
			continue
		}
		s.others = append(s.others, view)
		s.once = s.once && view.times.Interval == nil
		switch view.verdict {
		case analysis.Faster:
			s.behind = append(s.behind, other)
		case analysis.Equivalent:
			s.equal = append(s.equal, other)
		default:
			s.unsure = append(s.unsure, other)
		}
	}
	slices.SortStableFunc(s.others, func(a, b seen) int { return cmp.Compare(a.times.Value, b.times.Value) })
	return s, true
}

func (f *field) beaten(variant, metric string, at spot) bool {
	return slices.ContainsFunc(f.variants, func(other string) bool {
		view, compared := f.against(variant, other, metric, at)
		return compared && view.verdict == analysis.Slower
	})
}

// candidates are the variants that nothing measured speaks against.
func (s standing) candidates() []string {
	return slices.Concat([]string{s.best}, s.equal, s.unsure)
}

// alike tells whether the same can be said of both.
func (s standing) alike(o standing) bool {
	return s.best == o.best && s.once == o.once &&
		slices.Equal(s.equal, o.equal) && slices.Equal(s.unsure, o.unsure) && slices.Equal(s.behind, o.behind)
}

// along is the standings of one concurrency by size, those of which the same can
// be said put together.
func (f *field) along(metric string, clients int) [][]standing {
	var groups [][]standing
	for _, bytes := range f.sizes {
		s, ok := f.stand(metric, spot{bytes, clients})
		if !ok {
			continue
		}
		i := slices.IndexFunc(groups, func(g []standing) bool { return g[0].alike(s) })
		if i < 0 {
			groups = append(groups, []standing{s})
			continue
		}
		groups[i] = append(groups[i], s)
	}
	return groups
}
