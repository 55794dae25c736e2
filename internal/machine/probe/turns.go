package probe

import "slices"

// InsideOneSpan reports whether the time between two instants lies in one span.
func InsideOneSpan(spans []Span, begin, end int64) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.BeginNS <= begin && end <= s.EndNS })
}

// MeanInTurns returns the mean duration of the calls inside turns of a probe, and of the calls inside
// its pauses. A mean is nil without calls.
func MeanInTurns(calls [][2]int64, on, off []Span) (traced, bare *float64) {
	mean := func(of []Span) *float64 {
		sum, count := 0.0, 0
		for _, call := range calls {
			if InsideOneSpan(of, call[0], call[0]+call[1]) {
				sum += float64(call[1])
				count++
			}
		}
		if count == 0 {
			return nil
		}
		return new(sum / float64(count))
	}
	return mean(on), mean(off)
}
