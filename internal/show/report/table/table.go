// Package table shows cells on a terminal: as a table with notes that explain its marks, and as
// paragraphs for a run with one trial of a service. Other outputs also use the package's texts
// about a cell.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// WriteTable prints one line per cell. Notes below explain marks and name hidden columns.
func WriteTable(w io.Writer, summary *analysis.Summary, table Table) error {
	cells := SortedCells(summary.Cells)
	if len(cells) == 0 && len(summary.Allocations) > 0 {
		return nil // all trials were profiled, so there are no measured cells
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
	constant, varying := splitKeys(cells)
	blocks := table.blocks(varying, lines)

	var out strings.Builder
	if len(summary.Foreign) > 0 {
		format.Wrap(&out, fmt.Sprintf("Imported: figures by %s, not by wirelab.", strings.Join(summary.Foreign, ", ")), format.Layout{Width: table.wrapWidth(), Hang: 2})
	}
	if text := headingText(constant, cells[0]); text != "" {
		format.Wrap(&out, text, format.Layout{Width: table.wrapWidth(), Hang: 2})
	}
	for i, b := range blocks {
		if i > 0 {
			out.WriteByte('\n')
		}
		b.print(&out, table, varies(cells, partName))
	}
	out.WriteByte('\n')
	for _, text := range table.legend(cells, lines, blocks) {
		format.Wrap(&out, text, format.Layout{Width: table.wrapWidth(), Hang: 2})
	}
	notes.print(&out, table)
	writeForeignNotes(&out, summary, table)
	_, err := io.WriteString(w, out.String())
	return err
}

func tableLines(summary *analysis.Summary, cells []*matrix.Cell, notes notes) []line {
	var lines []line
	for _, group := range groupNeighbours(cells, sameWork) {
		fastest := summary.Fastest(group)
		for _, cell := range group {
			l := line{cell: cell, latencies: cell.ResponseTimes(), marks: notes.marksOf(cell)}
			if cell == fastest {
				l.best = map[bool]string{true: keptTitle, false: meanTitle}[cell.Search != nil]
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

// print formats the line. The figure of the fastest cell is bold.
func (l line) print(shown []column, paint func(format.Style, string) string) string {
	style := format.Normal
	switch {
	case l.cell.RefusesTimes():
		style = format.Red
	case l.label != "":
		style = format.Faint
	}
	return paint(style, joinColumns(shown, func(c column) string {
		text := c.pad(c.value(l))
		if l.best != "" && (c.title == l.best || c.of == l.best && c.title == "") {
			return paint(format.Bold, text)
		}
		return text
	}))
}

// A TextTable holds the terminal's table for page readers without JavaScript.
type TextTable struct {
	Titles []string
	Rows   [][]string
	Notes  []string
}

// NewPlainTable returns the table of all cells and columns.
func NewPlainTable(summary *analysis.Summary) TextTable {
	cells := SortedCells(summary.Cells)
	if len(cells) == 0 {
		return TextTable{}
	}
	notes := newNotes(cells)
	lines := tableLines(summary, cells, notes)
	table := TextTable{Rows: make([][]string, len(lines))}
	for _, c := range withFigures(append(keyColumns(cellKeys()), figureColumns()...), lines) {
		if c.title == "" { // a column of marks
			continue
		}
		table.Titles = append(table.Titles, c.title)
		for i, l := range lines {
			table.Rows[i] = append(table.Rows[i], c.value(l))
		}
	}
	for i, note := range notes {
		table.Notes = append(table.Notes, note.text(i))
	}
	return table
}

// writeForeignNotes prints warnings about figures that other programs measured.
func writeForeignNotes(out *strings.Builder, s *analysis.Summary, table Table) {
	if len(s.Foreign) == 0 {
		return
	}
	warnings := slices.Clone(s.Warnings)
	for _, c := range s.Cells {
		for _, text := range c.Warnings {
			if len(s.Cells) > 1 {
				text = c.Key + ": " + text
			}
			warnings = append(warnings, text)
		}
	}
	for _, text := range warnings {
		format.Wrap(out, text+".", format.Layout{Width: table.wrapWidth(), Lead: "• ", Hang: 2})
	}
}

// WriteScaling prints throughput by calls in flight, the ideal, and the fitted scalability law.
func WriteScaling(w io.Writer, s *analysis.Summary) error {
	var out strings.Builder
	for i, scaling := range s.Scalings {
		if i > 0 {
			out.WriteByte('\n')
		}
		fmt.Fprintf(&out, "%s (%s), %s\n", scaling.Variant, scaling.Connection, scaling.Workload)
		if err := scalingTable(&out, s, scaling); err != nil {
			return err
		}
		out.WriteString(describeLaw(scaling) + "\n")
	}
	if cells := SortedCells(s.Cells); len(cells) > 0 {
		out.WriteString("\n" + strings.Join(percentileNotes(cells), "\n") + "\n")
	}
	_, err := io.WriteString(w, out.String())
	return err
}

func scalingTable(out io.Writer, s *analysis.Summary, scaling curves.Scaling) error {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "in flight\treq/s\tideal\tof ideal\tlaw\tP50\tP90\tP99\tP99.9\tP100\tclient\tserver\t")
	for _, p := range scaling.Points {
		i := slices.IndexFunc(s.Cells, func(c matrix.Cell) bool {
			return c.Part == scaling.Part && c.Variant == scaling.Variant && c.Connection == scaling.Connection &&
				c.Workload == scaling.Workload && c.Payload == scaling.Payload && c.Clients == p.Clients
		})
		if i < 0 {
			continue
		}
		cell := &s.Cells[i]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\t%s\t", p.Clients, format.PerSecond(p.Throughput.Value), formatOptional(p.Ideal, format.PerSecond), formatOptional(p.Share, wholePercent), formatOptional(p.Law, format.PerSecond))
		for _, quantile := range []string{"P50", "P90", "P99", "P999", "Max"} {
			fmt.Fprintf(table, "%s\t", format.Micros(FigureAt(cell.ResponseTimes(), quantile).Value))
		}
		for _, end := range []*matrix.Figure{cell.Client.Busy, cell.Server.Busy} {
			var share *float64
			if end != nil {
				share = &end.Value
			}
			fmt.Fprintf(table, "%s\t", formatOptional(share, wholePercent))
		}
		fmt.Fprintln(table)
	}
	return table.Flush()
}

func wholePercent(share float64) string { return fmt.Sprintf("%.0f %%", 100*share) }

func describeLaw(s curves.Scaling) string {
	if s.Law == nil {
		return "No scalability law is fitted: " + s.Reason
	}
	text := fmt.Sprintf("Scalability law: X(N) = %s N / (1 + σ(N−1) + κN(N−1)), σ %s (contention), κ %s (coherency), mean error %.1f %%",
		format.PerSecond(s.Law.Ideal.Value), formatWithInterval(s.Law.Contention), formatWithInterval(s.Law.Coherency), 100*s.Law.Misfit)
	if s.Law.Peak != nil {
		text += fmt.Sprintf("; the peak is at %s in flight", formatWithInterval(*s.Law.Peak))
	}
	return text
}

func formatWithInterval(f matrix.Figure) string {
	return words.WithInterval(f, func(v float64) string { return fmt.Sprintf("%.3g", v) })
}
