package analysis

// Fastest is the one of the cells at a point that is faster than every other that is
// valid, beyond doubt and by the figure that is shown: the mean, or in a search the rate
// that was kept. It is nil where there is none.
func (s *Summary) Fastest(point []*Cell) *Cell {
	for _, c := range point {
		if c.IsValid() && s.beatsAll(c, point) {
			return c
		}
	}
	return nil
}

func (s *Summary) beatsAll(c *Cell, point []*Cell) bool {
	beaten := 0
	for _, other := range point {
		if other == c || !other.IsValid() {
			continue
		}
		if !c.showsFaster(other) || !s.isFaster(c, other) {
			return false
		}
		beaten++
	}
	return beaten > 0
}

func (c *Cell) showsFaster(other *Cell) bool {
	if c.Search != nil && other.Search != nil {
		return c.Search.Kept.Value > other.Search.Kept.Value
	}
	return c.ResponseTimes().Mean.Value < other.ResponseTimes().Mean.Value
}

func (s *Summary) isFaster(c, other *Cell) bool {
	metric := Mean
	if !isMeaningful(c.Load.Model, metric) {
		metric = Throughput
	}
	found, turned := s.comparison(c, other.Variant, metric)
	switch {
	case found == nil:
		return false
	case turned:
		return found.Verdict == Slower
	}
	return found.Verdict == Faster
}

// HalfWidth is half of the figure's interval, as a share of the figure; false where
// there is no interval.
func (f Figure) HalfWidth() (share float64, known bool) {
	if f.Interval == nil || !(f.Value > 0) {
		return 0, false
	}
	return (f.Interval.High - f.Interval.Low) / 2 / f.Value, true
}
