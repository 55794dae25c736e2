package insight

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// FindInsights returns an insight for each cell that has passes. compared holds the comparisons of the
// points.
func FindInsights(points []*matrix.Point, compared []compare.Comparison, passes []*record.Record, categories *Categories) []Insight {
	var all []Insight
	for _, group := range groupByCell(points, passes) {
		if one := newInsight(group, categories); len(one.Passes) > 0 {
			one.comparisons = compared
			all = append(all, one)
		}
	}
	allocations := FindAllocations(points, passes)
	for i := range all {
		for j := range allocations {
			if a := &allocations[j]; a.Part == all[i].Part && a.Variant == all[i].Variant && a.Place == all[i].Place {
				all[i].End(a.End).Allocated = a
			}
		}
	}
	return all
}
