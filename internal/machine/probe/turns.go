package probe

import "slices"

// InsideOneSpan reports whether the time between two instants lies in one span.
func InsideOneSpan(spans []Span, begin, end int64) bool {
	return slices.ContainsFunc(spans, func(s Span) bool { return s.BeginNS <= begin && end <= s.EndNS })
}

// MeanInTurns returns the mean duration of the calls inside turns of a probe, and of the calls inside
// its pauses. A mean is nil without calls.
func MeanInTurns(calls [][2]int64, on, off []Span) (traced, bare *float64) {
	return meanIf(calls, func(begin, end int64) bool { return InsideOneSpan(on, begin, end) }),
		meanIf(calls, func(begin, end int64) bool { return InsideOneSpan(off, begin, end) })
}

// MeanBegunInTurns is MeanInTurns with the calls that begin inside, wherever they end. It favours no
// short calls, as MeanInTurns does if calls take a large part of a turn or of a shorter pause.
func MeanBegunInTurns(calls [][2]int64, on, off []Span) (traced, bare *float64) {
	return meanIf(calls, func(begin, _ int64) bool { return InsideOneSpan(on, begin, begin) }),
		meanIf(calls, func(begin, _ int64) bool { return InsideOneSpan(off, begin, begin) })
}

func meanIf(calls [][2]int64, counts func(begin, end int64) bool) *float64 {
	sum, count := 0.0, 0
	for _, call := range calls {
		if counts(call[0], call[0]+call[1]) {
			sum += float64(call[1])
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return new(sum / float64(count))
}
