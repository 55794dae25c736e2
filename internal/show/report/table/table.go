// Package table shows cells on a terminal: as a table, with the notes that explain its marks, and
// as paragraphs where a run has one trial of a service. It also has the words for a cell that
// other forms share.
//
// No figure is computed here. The package must not know who writes the page or the exports.
package table

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// A Table says how the table is printed.
type Table struct {
	format.Terminal
	Columns []string // as [FindColumns] gives them; none: the usual ones
	Verbose bool     // with what the columns mean in general, and the notes whole
}

func (t Table) room() int { return cmp.Or(t.Width, format.UsualWidth) }

// WriteTable prints one line per cell, with compared cells next to each other. Notes below say why
// some figures must not be believed. If there is no room for all of the usual columns, it leaves
// some out, and names them.
func WriteTable(w io.Writer, summary *analysis.Summary, table Table) error {
	cells := Ordered(summary.Cells)
	if len(cells) == 0 && len(summary.Allocations) > 0 {
		return nil // nothing was to be measured
	}
	if len(cells) == 0 {
		_, err := fmt.Fprintln(w, "No trial has ended yet: there is nothing to show.")
		return err
	}
	notes := newNotes(cells)
	lines := tableLines(summary, cells, notes)
	if !table.showsTimes() {
		lines = slices.DeleteFunc(lines, func(l line) bool { return l.label != "" })
	}
	constant, varying := placeKeys(cells)
	blocks := table.blocks(varying, lines)

	var out strings.Builder
	if len(summary.Foreign) > 0 {
		format.Wrap(&out, whose(summary), format.Layout{Width: table.room(), Hang: 2})
	}
	if text := say(constant, cells[0]); text != "" {
		format.Wrap(&out, text, format.Layout{Width: table.room(), Hang: 2})
	}
	for i, b := range blocks {
		if i > 0 {
			out.WriteByte('\n')
		}
		b.print(&out, table, varies(cells, partOf))
	}
	out.WriteByte('\n')
	for _, text := range table.legend(cells, lines, blocks) {
		format.Wrap(&out, text, format.Layout{Width: table.room(), Hang: 2})
	}
	notes.print(&out, table)
	writeForeign(&out, summary, table)
	_, err := io.WriteString(w, out.String())
	return err
}

func partOf(c *matrix.Cell) string { return c.Part }

// A line is a row of the table. A cell whose response time is not its service time has
// a line for each kind of time, with a label in place of the stack.
type line struct {
	cell      *matrix.Cell
	latencies *matrix.Latencies
	label     string
	marks     string
	best      string // the column in which the cell is the fastest of its group; mostly none
}

func tableLines(summary *analysis.Summary, cells []*matrix.Cell, notes *notes) []line {
	var lines []line
	for _, group := range runs(cells, compared) {
		fastest := summary.Fastest(group)
		for _, cell := range group {
			l := line{cell: cell, latencies: cell.ResponseTimes(), marks: notes.marks(cell)}
			switch {
			case cell != fastest:
			case cell.Search != nil:
				l.best = keptTitle
			default:
				l.best = meanTitle
			}
			if lines = append(lines, l); cell.Response == nil {
				continue
			}
			lines = append(lines, line{cell: cell, latencies: &cell.Service, label: "└ service"})
			if cell.Wait != nil {
				lines = append(lines, line{cell: cell, latencies: cell.Wait, label: "└ wait"})
			}
		}
	}
	return lines
}

// print sets the best figure in bold, besides its mark.
func (l line) print(shown []column, paint func(format.Style, string) string) string {
	style := format.Usual
	switch {
	case !l.cell.IsValid():
		style = format.Refused
	case l.label != "":
		style = format.Faint
	}
	return paint(style, row(shown, func(c column) string {
		text := c.pad(c.value(l))
		if l.best != "" && (c.title == l.best || c.of == l.best && c.title == "") {
			return paint(format.Bold, text)
		}
		return text
	}))
}

// A PlainTable is the terminal's table, for a reader without JavaScript.
type PlainTable struct {
	Titles []string
	Rows   [][]string
	Notes  []string
}

// NewPlain returns the table of all cells and columns.
func NewPlain(summary *analysis.Summary) PlainTable {
	cells := Ordered(summary.Cells)
	if len(cells) == 0 {
		return PlainTable{}
	}
	notes := newNotes(cells)
	lines := tableLines(summary, cells, notes)
	table := PlainTable{Rows: make([][]string, len(lines))}
	for _, c := range withFigures(append(keyColumns(keys()), figureColumns()...), lines) {
		if c.title == "" { // a mark
			continue
		}
		table.Titles = append(table.Titles, c.title)
		for i, l := range lines {
			table.Rows[i] = append(table.Rows[i], c.value(l))
		}
	}
	for i, note := range notes.list {
		table.Notes = append(table.Notes, note.text(i))
	}
	return table
}

// Ordered returns the cells in the order of the table: cells that are compared stand
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

// whose says above a table whose figures stand in it.
func whose(s *analysis.Summary) string {
	return fmt.Sprintf("Imported: figures of %s, not of wirelab.", strings.Join(s.Foreign, ", "))
}

// writeForeign says below a table what the figures of other programs are of, and what is not
// known of them.
func writeForeign(out *strings.Builder, s *analysis.Summary, table Table) {
	if len(s.Foreign) == 0 {
		return
	}
	said := slices.Clone(s.Warnings)
	for _, c := range s.Cells {
		for _, text := range c.Warnings {
			if text = fmt.Sprintf("%s: %s", c.Key, text); len(s.Cells) == 1 {
				text = strings.TrimPrefix(text, c.Key+": ")
			}
			said = append(said, text)
		}
	}
	for _, text := range said {
		format.Wrap(out, text+".", format.Layout{Width: table.room(), Lead: "• ", Hang: 2})
	}
}
