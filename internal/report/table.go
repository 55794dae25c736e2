package report

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/analysis"
)

// Terminal is what the table is printed on. The caller knows whether there is
// a person in front of it.
type Terminal struct {
	Width  int // in columns; 0 for as wide as it gets
	Colour bool
}

// WriteTable prints a line a cell, those that are compared together, and below
// them why some of the figures must not be believed. Where the terminal is too
// narrow it leaves columns out, and says which.
func WriteTable(w io.Writer, summary *analysis.Summary, terminal Terminal) error {
	cells := ordered(summary.Cells)
	if len(cells) == 0 && len(summary.Allocations) > 0 {
		return nil // nothing was to be measured
	}
	if len(cells) == 0 {
		_, err := fmt.Fprintln(w, "No trial has ended yet: there is nothing to show.")
		return err
	}
	notes := newNotes(cells)
	lines := tableLines(cells, notes)
	manyParts := varies(cells, func(c *analysis.Cell) string { return c.Part })
	shown, left := fit(columns(cells), lines, terminal.Width)

	var out strings.Builder
	paint := painter(terminal.Colour)
	out.WriteString(paint(bold, row(shown, func(c column) string { return c.title })) + "\n")
	for i, l := range lines {
		if i > 0 && !compared(lines[i-1].cell, l.cell) {
			out.WriteByte('\n')
		}
		if l.cell.Part != "" && (i == 0 || lines[i-1].cell.Part != l.cell.Part) && manyParts {
			out.WriteString(paint(bold, l.cell.Part) + "\n")
		}
		style := usual
		switch {
		case !l.cell.IsValid():
			style = refused
		case l.label != "":
			style = faint
		}
		out.WriteString(paint(style, row(shown, func(c column) string { return c.value(l) })) + "\n")
	}
	out.WriteByte('\n')
	for _, text := range legend(cells, lines, left) {
		wrap(&out, text, layout{width: terminal.Width, hang: 2})
	}
	notes.print(&out, terminal)
	_, err := io.WriteString(w, out.String())
	return err
}

// line is a row of the table. A cell whose response time is not its service time has
// a line for each kind of time, with a label in place of the stack.
type line struct {
	cell      *analysis.Cell
	latencies *analysis.Latencies
	label     string
	marks     string
}

func tableLines(cells []*analysis.Cell, notes *notes) []line {
	var lines []line
	for _, cell := range cells {
		if cell.Response == nil {
			lines = append(lines, line{cell: cell, latencies: &cell.Service, marks: notes.marks(cell)})
			continue
		}
		lines = append(lines,
			line{cell: cell, latencies: cell.Response, marks: notes.marks(cell)},
			line{cell: cell, latencies: &cell.Service, label: "└ service"})
		if cell.Wait != nil {
			lines = append(lines, line{cell: cell, latencies: cell.Wait, label: "└ wait"})
		}
	}
	return lines
}

const gap = "  "

// fit measures the columns, and leaves out those of the lowest priority until a line
// fits into width.
func fit(all []column, lines []line, width int) (shown []column, left []string) {
	for i := range all {
		all[i].width = utf8.RuneCountInString(all[i].title)
		for _, l := range lines {
			all[i].width = max(all[i].width, utf8.RuneCountInString(all[i].value(l)))
		}
	}
	shown = all
	for width > 0 && lineWidth(shown) > width {
		least := -1
		for i, c := range shown {
			if c.priority > 0 && (least < 0 || c.priority < shown[least].priority) {
				least = i
			}
		}
		if least < 0 {
			break
		}
		left = append(left, shown[least].title)
		shown = slices.Delete(shown, least, least+1)
	}
	return shown, left
}

func lineWidth(shown []column) int {
	width := len(gap) * (len(shown) - 1)
	for _, c := range shown {
		width += c.width
	}
	return width
}

// row joins the columns' texts, each padded to its column's width.
func row(shown []column, text func(column) string) string {
	texts := make([]string, len(shown))
	for i, c := range shown {
		texts[i] = c.pad(text(c))
	}
	return strings.TrimRight(strings.Join(texts, gap), " ")
}

func (c column) pad(text string) string {
	blank := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(text)))
	if c.left {
		return text + blank
	}
	return blank + text
}
