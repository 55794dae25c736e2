package table

import (
	"cmp"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// Ordered returns the cells as they are read: what is compared stands
// together, from small to large. Parts keep the order of the scenario.
func Ordered(cells []matrix.Cell) []*matrix.Cell {
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
