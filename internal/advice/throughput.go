package advice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
)

// highestThroughput says who answers the most requests a second, at the
// concurrency that suits each best. Whether that is beyond doubt is read off the
// intervals, since the comparisons are of equal concurrencies.
func highestThroughput(f *field) []string {
	if !f.closed() || len(f.variants) < 2 || len(f.clients) < 2 {
		return nil
	}
	var clauses []string
	for _, bytes := range f.endSizes() {
		peaks := f.peaks(bytes)
		if len(peaks) < 2 {
			continue
		}
		first, rest := peaks[0], peaks[1:]
		others := make([]string, len(rest))
		for i, c := range rest {
			others[i] = fmt.Sprintf("%s's %s with %d", c.Variant, rate(c.Throughput.Value), c.Clients)
		}
		clause := fmt.Sprintf("%s%s's, %s with %s, against %s",
			atSize(bytes), first.Variant, between(first.Throughput, rate), clients(first.Clients), list(others))
		if !apart(first.Throughput, rest[0].Throughput) {
			clause += fmt.Sprintf(" (its lead over %s is not beyond doubt)", rest[0].Variant)
		}
		clauses = append(clauses, clause)
	}
	if len(clauses) == 0 {
		return nil
	}
	return []string{"The highest throughput is " + strings.Join(clauses, "; ") + "."}
}

// peaks are the cells in which each variant is at its best, the highest first.
func (f *field) peaks(bytes int) []*analysis.Cell {
	var peaks []*analysis.Cell
	for _, variant := range f.variants {
		var peak *analysis.Cell
		for _, n := range f.clients {
			if c := f.cell(variant, spot{bytes, n}); c != nil && (peak == nil || c.Throughput.Value > peak.Throughput.Value) {
				peak = c
			}
		}
		if peak != nil {
			peaks = append(peaks, peak)
		}
	}
	slices.SortStableFunc(peaks, func(a, b *analysis.Cell) int { return cmp.Compare(b.Throughput.Value, a.Throughput.Value) })
	return peaks
}

func apart(higher, lower analysis.Figure) bool {
	return higher.Interval != nil && lower.Interval != nil && higher.Interval.Low > lower.Interval.High
}
