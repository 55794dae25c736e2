package insight

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// FindInsights returns an insight for each cell that has passes.
func FindInsights(points []*matrix.Point, passes []*record.Record, categories *Categories) []Insight {
	var all []Insight
	for _, group := range groupByCell(points, passes) {
		if one := newInsight(group, categories); len(one.Passes) > 0 {
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
	return shareLives(all)
}

// shareLives gives the traced calls of a cell that has nothing else to the cells that differ from it only in
// their clients, and leaves this cell out.
func shareLives(all []Insight) []Insight {
	var kept []Insight
	for _, from := range all {
		if !from.onlyTraced {
			kept = append(kept, from)
		}
	}
	for _, from := range all {
		taken := false
		for i := range kept {
			if one := &kept[i]; from.onlyTraced && one.lifePass() == nil && one.isBesides(&from) {
				one.Life, one.Passes, taken = from.Life, append(one.Passes, *from.lifePass()), true
			}
		}
		if from.onlyTraced && !taken {
			kept = append(kept, from)
		}
	}
	return kept
}

// isBesides reports whether two insights differ at most in their clients.
func (i *Insight) isBesides(other *Insight) bool {
	return i.Part == other.Part && i.Variant == other.Variant && i.Workload == other.Workload && i.Payload == other.Payload
}
