package probe

import "slices"

// InsideOneSpan reports whether the time between two instants lies in one span.
func InsideOneSpan(spans []Span, begin, end int64) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.BeginNS <= begin && end <= s.EndNS })
}

// MeanInTurns returns the mean duration of calls in the turns of a probe that runs by turns, and of
// calls outside them. A call at the edge of a turn belongs to neither. A mean is nil without calls.
func MeanInTurns(calls [][2]int64, turns []Span) (traced, bare *float64) {
	var sums, counts [2]float64
	for _, call := range calls {
		begin, end := call[0], call[0]+call[1]
		kind := 0
		switch {
		case InsideOneSpan(turns, begin, end):
		case slices.ContainsFunc(turns, func(s Span) bool { return begin < s.EndNS && s.BeginNS < end }):
			continue
		default:
			kind = 1
		}
		sums[kind] += float64(call[1])
		counts[kind]++
	}
	mean := func(kind int) *float64 {
		if counts[kind] == 0 {
			return nil
		}
		return new(sums[kind] / counts[kind])
	}
	return mean(0), mean(1)
}
