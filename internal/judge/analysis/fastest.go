package analysis

import (
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Fastest returns the cell at a point that is certainly faster than every other valid one, by
// the figure that is shown: the mean, or a search's rate. It returns nil if there is none.
func (s *Summary) Fastest(point []*matrix.Cell) *matrix.Cell {
	for _, c := range point {
		if c.IsValid() && s.beatsAll(c, point) {
			return c
		}
	}
	return nil
}

func (s *Summary) beatsAll(c *matrix.Cell, point []*matrix.Cell) bool {
	beaten := 0
	for _, other := range point {
		if other == c || !other.IsValid() {
			continue
		}
		if !showsFaster(c, other) || !s.isFaster(c, other) {
			return false
		}
		beaten++
	}
	return beaten > 0
}

func showsFaster(c, other *matrix.Cell) bool {
	if c.Search != nil && other.Search != nil {
		return c.Search.Kept.Value > other.Search.Kept.Value
	}
	return c.ResponseTimes().Mean.Value < other.ResponseTimes().Mean.Value
}

func (s *Summary) isFaster(c, other *matrix.Cell) bool {
	metric := matrix.Mean
	if !matrix.IsMeaningful(c.Load.Model, metric) {
		metric = matrix.Throughput
	}
	found, turned := s.comparison(c, other.Variant, metric)
	switch {
	case found == nil:
		return false
	case turned:
		return found.Verdict == compare.Slower
	}
	return found.Verdict == compare.Faster
}

// Against returns a metric of a cell over that of another variant at the same point. It
// returns nil if the two were not compared by it.
func (s *Summary) Against(c *matrix.Cell, other, metric string) *matrix.Figure {
	found, turned := s.comparison(c, other, metric)
	switch {
	case found == nil:
		return nil
	case turned:
		return new(found.Ratio.Inverse())
	}
	return &found.Ratio
}

// comparison finds the comparison of a cell with another variant at the same point. turned is
// true if the other variant is its A.
func (s *Summary) comparison(c *matrix.Cell, other, metric string) (found *compare.Comparison, turned bool) {
	load := c.Load
	load.InFlightLimit = 0
	for i := range s.Comparisons {
		found := &s.Comparisons[i]
		if found.Metric != metric || found.Part != c.Part || found.Place != c.Place || found.Load != load {
			continue
		}
		switch {
		case found.A == c.Variant && found.B == other:
			return found, false
		case found.B == c.Variant && found.A == other:
			return found, true
		}
	}
	return nil, false
}
