package latency

import "fmt"

// Merge adds the durations of another histogram, bucket by bucket; it does not change.
func (h *Histogram) Merge(other *Histogram) {
	if dropped := h.buckets.Merge(other.buckets); dropped != 0 {
		panic(fmt.Sprintf("latency: two histograms differ in layout: %d durations found no bucket", dropped))
	}
	h.add(other.totals)
}

// MergeDistributions returns what one recorder would have given that had recorded the
// durations of all: buckets and totals are exact. If one part has only totals, the result has
// only totals.
func MergeDistributions(parts ...Distribution) (Distribution, error) {
	all := NewHistogram()
	onlyTotals := false
	for i, part := range parts {
		if part.Count == 0 && part.Histogram == "" {
			continue
		}
		if part.OnlyTotals() {
			onlyTotals = true
			all.add(totals{count: part.Count, sum: part.Sum, min: part.Min, max: part.Max, clamped: part.Clamped})
			continue
		}
		h, err := part.Decode()
		if err != nil {
			return Distribution{}, fmt.Errorf("distribution %d of %d: %w", i+1, len(parts), err)
		}
		all.Merge(h)
	}
	if onlyTotals {
		return Distribution{Count: all.count, Sum: all.sum, Min: int64(all.Min()), Max: int64(all.Max()), Clamped: all.clamped}, nil
	}
	return all.Distribution()
}
