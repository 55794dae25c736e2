package table

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/words"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// notes explain the marks in the table. Cells with the same finding share a note.
type notes []note

type note struct {
	matrix.Finding
	cells []*matrix.Cell
}

// Names of findings that no check reports. A check is named connections, too.
const (
	failedFinding      = "failed"
	connectionsFinding = "connections"
)

func newNotes(cells []*matrix.Cell) (all notes) {
	for _, cell := range cells {
		for _, found := range slices.Concat(cellProblems(cell), lists.Map(cell.Survival.Failures, failureFinding)) {
			n := lists.FindOrAdd((*[]note)(&all), note{Finding: found}, func(known note) bool { return known.Name == found.Name && known.Level == found.Level })
			n.cells = lists.AppendNew(n.cells, cell)
		}
	}
	slices.SortStableFunc(all, func(a, b note) int { return cmp.Compare(b.Level.Severity(), a.Level.Severity()) })
	return all
}

// failureFinding returns a finding about failed requests, named after their class or code.
func failureFinding(f record.ErrorCount) matrix.Finding {
	code := ""
	if f.Class != "" {
		code = " (" + f.Code + ")"
	}
	return matrix.Finding{
		Name: "failed, " + cmp.Or(f.Class, f.Code), Level: record.Warning,
		Detail: fmt.Sprintf("%s requests%s, first: %q", units.Thousands(f.Count), code, f.Example),
	}
}

// cellProblems returns a cell's failure, its findings, and unrequested kinds of connections.
func cellProblems(c *matrix.Cell) []matrix.Finding {
	var all []matrix.Finding
	if c.Failure != "" {
		all = append(all, matrix.Finding{Name: failedFinding, Level: record.Invalid, Detail: c.Failure})
	}
	all = append(all, c.Findings...)
	if text, differs := connectionDifference(c); differs {
		all = append(all, matrix.Finding{Name: connectionsFinding, Level: record.Warning, Detail: text})
	}
	return all
}

func (all notes) marksOf(cell *matrix.Cell) string {
	var places []int
	for i, note := range all {
		if slices.Contains(note.cells, cell) {
			places = append(places, i+1)
		}
	}
	if len(places) == 0 {
		return ""
	}
	return "[" + formatRanges(places) + "]"
}

// formatRanges formats ascending numbers, with three or more in a row as a range.
func formatRanges(numbers []int) string {
	var texts []string
	for len(numbers) > 0 {
		in := 1
		for in < len(numbers) && numbers[in] == numbers[0]+in {
			in++
		}
		if in < 3 {
			in = 1
			texts = append(texts, strconv.Itoa(numbers[0]))
		} else {
			texts = append(texts, fmt.Sprintf("%d-%d", numbers[0], numbers[in-1]))
		}
		numbers = numbers[in:]
	}
	return strings.Join(texts, ",")
}

// shortNoteLength limits a note's length in a table that is not verbose.
const shortNoteLength = 100

// maxShortNotes limits the number of notes below a table that is not verbose.
const maxShortNotes = 3

// print prints one line per note, the worst first. It prints the reason for a missing measurement in
// full. A table that is not verbose has few notes, so that the answer below stays on the screen.
func (all notes) print(out *strings.Builder, table Table) {
	paint := format.Painter(table.Colour)
	cut, more := false, 0
	for i, note := range all {
		style := format.Normal
		if note.Level == record.Invalid {
			style = format.Red
		}
		if !table.Verbose && i >= maxShortNotes {
			more++
			continue
		}
		if table.Verbose || note.Name == failedFinding {
			format.Wrap(out, note.text(i), format.Layout{Width: table.Width, Hang: 4, Paint: func(s string) string { return paint(style, s) }})
			continue
		}
		text := cutBetweenWords(note.textWithoutCells(i), min(shortNoteLength, cmp.Or(table.Width, shortNoteLength)))
		cut = cut || strings.HasSuffix(text, ellipsis)
		out.WriteString(paint(style, text) + "\n")
	}
	where := cmp.Or(table.More, "with --verbose, and in the report")
	switch {
	case more > 0:
		fmt.Fprintf(out, "%s and all texts in full: %s.\n", words.Count(more, "more note"), where)
	case cut:
		fmt.Fprintf(out, "%s: full text %s.\n", ellipsis, where)
	}
}

const ellipsis = "…"

// cutBetweenWords shortens a text to a length, between words.
func cutBetweenWords(text string, length int) string {
	if utf8.RuneCountInString(text) <= length {
		return text
	}
	whole := string([]rune(text)[:length-1])
	return strings.TrimRight(whole[:max(strings.LastIndexByte(whole, ' '), 1)], " ,;:(") + ellipsis
}

// text returns the note with its mark, as printed below the table.
func (n *note) text(place int) string {
	return n.textWithoutCells(place) + " (" + n.describeCells() + ")"
}

func (n *note) textWithoutCells(place int) string {
	return fmt.Sprintf("[%d] %s: %s", place+1, findingTitle(n.cells[0], n.Finding), strings.TrimSuffix(n.Detail, "."))
}

func findingTitle(c *matrix.Cell, f matrix.Finding) string {
	switch {
	case f.Name == failedFinding && c.IsValid():
		return "a trial has no measurement"
	case f.Name == failedFinding:
		return "no measurement"
	case f.Level == record.Invalid:
		return f.Refused() + ", " + f.Name
	case f.Level == record.Unknown:
		return "unknown, " + f.Name
	}
	return f.Name
}

// describeCells names the first cell, whose detail the note shows, and counts the other cells.
func (n *note) describeCells() string {
	first := n.cells[0]
	text := first.ShortVariant()
	if first.Payload != (record.Payload{}) { // a zero payload means that the workload has no sizes
		text += ", " + first.Payload.Text(format.ByteSize, "→")
	}
	text += fmt.Sprintf(", c=%d", first.Clients)
	switch more := len(n.cells) - 1; more {
	case 0:
		return text
	case 1:
		return text + " and one more cell"
	default:
		return fmt.Sprintf("%s and %d more cells", text, more)
	}
}

// connectionDifference describes connections of another mode than requested. It returns false if a
// check reports them already.
func connectionDifference(c *matrix.Cell) (text string, differs bool) {
	made := &c.Connections
	if !made.Differs || slices.ContainsFunc(c.Findings, func(f matrix.Finding) bool { return f.Name == connectionsFinding }) {
		return "", false
	}
	if made.Achieved == nil {
		return fmt.Sprintf("requested connection mode %s with %d open at once, but %s were opened, %s of them in the window",
			c.Connection, made.Want, format.PlainNumber(c.Opened.Value), units.Thousands(made.During)), true
	}
	return fmt.Sprintf("requested connection mode %s, but only %s of the connections had it: %s opened, %s full handshakes, %s resumed, %s with early data",
		c.Connection, format.Percent(*made.Achieved), units.Thousands(made.During), units.Thousands(made.Full), units.Thousands(made.Resumed), units.Thousands(made.Early)), true
}

// Warnings lists a cell's problems, worst first.
func Warnings(c *matrix.Cell) []string {
	var texts []string
	for _, f := range cellProblems(c) {
		text := findingTitle(c, f)
		if f.Trials > 0 && c.Trials > 1 {
			text += fmt.Sprintf(" (%d of %d trials)", f.Trials, c.Trials)
		}
		texts = append(texts, text+": "+f.Detail)
	}
	return append(texts, c.Warnings...)
}
