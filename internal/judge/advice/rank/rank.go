package rank

import (
	"cmp"
	"math"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Ranking names the best variant at a point, and says how certain this is.
type Ranking struct {
	At     Point
	Best   string
	Equal  []string // variants that equal the best within the margin
	Unsure []string // variants whose difference from the best is not proven
	TooFew bool     // too few trials for any verdict
	Rivals []Rival  // comparisons of the other variants with the best, the closest first
	Value  matrix.Figure
}

// MetricOf returns a cell's figure, or nil if it was not measured. A lower figure is better.
func MetricOf(metric string, c *matrix.Cell) *matrix.Figure {
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

// Rank ranks the variants. The best has the lowest figure of all variants not proven worse.
func (p *Part) Rank(metric string, at Point) (Ranking, bool) {
	var best *matrix.Cell
	for _, c := range p.CellsAt(at) {
		if MetricOf(metric, c) == nil || p.isBeaten(c.Variant, metric, at) {
			continue
		}
		if best == nil || MetricOf(metric, c).Value < MetricOf(metric, best).Value {
			best = c
		}
	}
	if best == nil {
		return Ranking{}, false
	}
	r := Ranking{At: at, Best: best.Variant, Value: *MetricOf(metric, best), TooFew: true}
	for _, other := range p.Variants {
		view, compared := p.Against(r.Best, other, metric, at)
		if !compared {
			continue
		}
		r.Rivals = append(r.Rivals, view)
		r.TooFew = r.TooFew && view.Times.Interval == nil
		if view.IsEqual {
			r.Equal = append(r.Equal, other)
		} else if view.isUnsure() {
			r.Unsure = append(r.Unsure, other)
		}
	}
	slices.SortStableFunc(r.Rivals, func(a, b Rival) int { return cmp.Compare(a.Times.Value, b.Times.Value) })
	return r, true
}

// RankingsWithRivals returns the rankings at points with at least two variants.
func (p *Part) RankingsWithRivals(metric string, sizes []record.Payload, clients []int) []Ranking {
	var all []Ranking
	for _, size := range sizes {
		for _, n := range clients {
			if r, ok := p.Rank(metric, Point{size, n}); ok && len(r.Rivals) > 0 {
				all = append(all, r)
			}
		}
	}
	return all
}

func (p *Part) isBeaten(variant, metric string, at Point) bool {
	return slices.ContainsFunc(p.Variants, func(other string) bool {
		view, compared := p.Against(variant, other, metric, at)
		return compared && (view.Verdict == compare.Slower || view.Verdict == compare.More)
	})
}

// IsSure reports whether the best variant is proven best.
func (r Ranking) IsSure() bool { return !r.TooFew && len(r.Equal)+len(r.Unsure) == 0 }

// A Rival holds the comparison of one variant, the rival, with another variant.
type Rival struct {
	Variant string
	Times   matrix.Figure   // the rival's figure divided by the other variant's
	Verdict compare.Verdict // verdict on the other variant
	Margin  float64         // relative difference that they differ by at most; 0 if it may be large
	IsEqual bool            // so close that either may be chosen
}

// isUnsure reports whether neither a difference nor equality is proven.
func (r Rival) isUnsure() bool {
	return r.Verdict == compare.Undecided || r.Verdict == compare.Equivalent && !r.IsEqual
}

// Against returns the comparison of the rival other with the variant one.
func (p *Part) Against(one, other, metric string, at Point) (Rival, bool) {
	for _, c := range p.Comparisons {
		switch {
		case c.Metric != metric || c.Payload != at.Size || c.Clients != at.Clients:
		case c.A == one && c.B == other:
			return Rival{Variant: other, Times: c.Ratio.Inverse(), Verdict: c.Verdict, Margin: c.Margin, IsEqual: c.IsEqual()}, true
		case c.A == other && c.B == one:
			return Rival{Variant: other, Times: c.Ratio, Verdict: c.Verdict.Opposite(), Margin: c.Margin, IsEqual: c.IsEqual()}, true
		}
	}
	return Rival{}, false
}

// PeakCells returns each variant's cell with the highest throughput, the highest first.
func (p *Part) PeakCells(size record.Payload) []*matrix.Cell {
	var peaks []*matrix.Cell
	byRate := func(a, b *matrix.Cell) int { return cmp.Compare(b.Throughput.Value, a.Throughput.Value) }
	for _, variant := range p.Variants {
		var own []*matrix.Cell
		for _, n := range p.Clients {
			if c := p.Cell(variant, Point{size, n}); c != nil {
				own = append(own, c)
			}
		}
		if len(own) > 0 {
			peaks = append(peaks, slices.MinFunc(own, byRate))
		}
	}
	slices.SortStableFunc(peaks, byRate)
	return peaks
}

// IsAbove reports whether the first interval lies entirely above the second.
func IsAbove(higher, lower matrix.Figure) bool {
	return higher.Interval != nil && lower.Interval != nil && higher.Interval.Low > lower.Interval.High
}
