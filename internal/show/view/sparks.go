package view

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// sparks draws the table of a run as it fills: one line per variant with one sign per cell, from
// small to large messages and few to many clients. A higher sign means more throughput.
type sparks struct {
	rows  []sparkRow
	place map[string][2]int // of a cell, by its key: its row, and where in it
	hides int               // variants that have no row
}

type sparkRow struct {
	variant string
	cells   []spark
}

type spark struct {
	rate    float64 // of the last valid trial; 0: none
	refused bool    // trials were measured, and none was valid
}

// mostSparks leaves room on a terminal of 24 lines.
const mostSparks = 8

func newSparks(plan []scenario.Planned, order []record.PlannedTrial) *sparks {
	type planned struct {
		key  string
		cell scenario.Cell
	}
	var cells []planned
	var parts, variants []string
	for i, t := range order {
		if c := plan[i].Cell; c.Probe == "" && !slices.ContainsFunc(cells, func(p planned) bool { return p.key == t.Cell }) {
			cells = append(cells, planned{t.Cell, c})
			parts, variants = append(parts, c.Part), append(variants, c.Variant.String())
		}
	}
	slices.SortStableFunc(cells, func(a, b planned) int {
		return cmp.Or(cmp.Compare(slices.Index(parts, a.cell.Part), slices.Index(parts, b.cell.Part)),
			cmp.Compare(a.cell.Size.Request, b.cell.Size.Request), cmp.Compare(a.cell.Size.Response, b.cell.Size.Response),
			cmp.Compare(a.cell.Clients, b.cell.Clients))
	})
	slices.Sort(variants)
	variants = slices.Compact(variants)
	s := &sparks{place: map[string][2]int{}, hides: max(0, len(variants)-mostSparks)}
	for _, variant := range variants[:min(len(variants), mostSparks)] {
		row := sparkRow{variant: variant}
		for _, c := range cells {
			if c.cell.Variant.String() == variant {
				s.place[c.key] = [2]int{len(s.rows), len(row.cells)}
				row.cells = append(row.cells, spark{})
			}
		}
		s.rows = append(s.rows, row)
	}
	return s
}

// take notes a trial.
func (s *sparks) take(r *record.Record) {
	at, shown := s.place[r.Cell.Key()]
	if !shown {
		return
	}
	cell := &s.rows[at[0]].cells[at[1]]
	if r.Failure != "" || !r.Valid() {
		cell.refused = cell.rate == 0
		return
	}
	*cell = spark{rate: r.ThroughputPerSecond()}
}

// lines returns the rows and their legend, or nil if a row would be a single sign.
func (s *sparks) lines(width int) []string {
	least, most, longest, cells := math.Inf(1), 0.0, 0, 0
	for _, row := range s.rows {
		longest, cells = max(longest, len(row.variant)), max(cells, len(row.cells))
		for _, c := range row.cells {
			if c.rate > 0 {
				least, most = min(least, c.rate), max(most, c.rate)
			}
		}
	}
	if most == 0 || cells < 2 {
		return nil
	}
	const longestName = 32
	longest = min(longest, longestName)
	lines := make([]string, 0, len(s.rows)+1)
	for _, row := range s.rows {
		var signs []rune
		for _, c := range row.cells {
			signs = append(signs, c.sign(least, most))
		}
		signs = signs[:min(len(signs), max(0, width-longest-2))]
		lines = append(lines, fmt.Sprintf("%-*.*s  %s", longest, longest, row.variant, string(signs)))
	}
	legend := "requests/s, one sign per cell; ·: to come, ×: refused"
	if s.hides > 0 {
		legend += fmt.Sprintf("; and %d more variants", s.hides)
	}
	return append(lines, legend)
}

// sign is higher for more throughput, on a logarithmic scale.
func (s spark) sign(least, most float64) rune {
	switch {
	case s.refused:
		return '×'
	case s.rate == 0:
		return '·'
	case most == least:
		return heights[len(heights)-1]
	}
	return heights[int(math.Log(s.rate/least)/math.Log(most/least)*float64(len(heights)-1))]
}
