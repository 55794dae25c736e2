package report

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Run is all that there is to show of a run.
type Run struct {
	Summary *analysis.Summary
	// Records are the trials, in the order of the plan. Only the formats with
	// a line a trial need them.
	Records []*record.Record
	// Answer is what package advice has for somebody who reads a few lines.
	Answer []string
	// Advice is what package advice says of the summary, most important first.
	Advice []string
	// Directory is where the run lies; empty where it is not on disk.
	Directory string
	// Gates are what was asked of the run, cell by cell.
	Gates []analysis.GateFinding
	// Since is how it differs from an earlier run; nil where it was held against none.
	Since *DiffReport
}

// ordered returns the cells as they are read: what is compared stands
// together, from small to large. Parts keep the order of the scenario.
func ordered(cells []matrix.Cell) []*matrix.Cell {
	place := make(map[string]int)
	sorted := make([]*matrix.Cell, len(cells))
	for i := range cells {
		sorted[i] = &cells[i]
		if _, seen := place[cells[i].Part]; !seen {
			place[cells[i].Part] = len(place)
		}
	}
	slices.SortStableFunc(sorted, func(a, b *matrix.Cell) int {
		return cmp.Or(
			cmp.Compare(place[a.Part], place[b.Part]),
			cmp.Compare(a.Workload, b.Workload),
			a.Place.Compare(b.Place),
			cmp.Compare(a.Load.RatePerSecond, b.Load.RatePerSecond),
		)
	})
	return sorted
}

// compared reports whether two cells stand in the same group: the same work,
// done in different ways.
func compared(a, b *matrix.Cell) bool {
	return a.Part == b.Part && a.Place == b.Place && loadOf(a) == loadOf(b)
}

// loadOf leaves out the limit, which is the variant's.
func loadOf(c *matrix.Cell) record.Load {
	load := c.Load
	load.InFlightLimit = 0
	return load
}
