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
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// notes explain the marks in the table. Cells with the same finding share a note.
type notes []note

type note struct {
	matrix.Finding
	cells []*matrix.Cell
}

// Names of findings without a check; connections is also the name of a check.
const (
	failed          = "failed"
	connectionsNote = "connections"
)

func newNotes(cells []*matrix.Cell) (all notes) {
	for _, cell := range cells {
		for _, found := range slices.Concat(troubles(cell), lists.Map(cell.Survival.Failures, failure)) {
			n := lists.FindOrAdd((*[]note)(&all), note{Finding: found}, func(known note) bool { return known.Name == found.Name && known.Level == found.Level })
			n.cells = lists.AppendNew(n.cells, cell)
		}
	}
	return all
}

// failure names a finding by the failure's class, or by its code without a class.
func failure(f record.ErrorCount) matrix.Finding {
	code := ""
	if f.Class != "" {
		code = " (" + f.Code + ")"
	}
	return matrix.Finding{
		Name: "failed, " + cmp.Or(f.Class, f.Code), Level: record.Warning,
		Detail: fmt.Sprintf("%s requests%s, first: %q", units.Thousands(f.Count), code, f.Example),
	}
}

// troubles returns a cell's failure, its findings, and differences from the wanted connections.
func troubles(c *matrix.Cell) []matrix.Finding {
	var all []matrix.Finding
	if c.Failure != "" {
		all = append(all, matrix.Finding{Name: failed, Level: record.Invalid, Detail: c.Failure})
	}
	all = append(all, c.Findings...)
	if text, differs := unachievedMode(c); differs {
		all = append(all, matrix.Finding{Name: connectionsNote, Level: record.Warning, Detail: text})
	}
	return all
}

// marks returns the numbers of the notes about the cell.
func (all notes) marks(cell *matrix.Cell) string {
	var places []int
	for i, note := range all {
		if slices.Contains(note.cells, cell) {
			places = append(places, i+1)
		}
	}
	if len(places) == 0 {
		return ""
	}
	return "[" + ranges(places) + "]"
}

// ranges formats ascending numbers, with three or more in a row as a range.
func ranges(numbers []int) string {
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

// shortNote limits a note's length in a table that is not verbose.
const shortNote = 100

// print prints one line per note, but the reason for a missing measurement in full.
func (all notes) print(out *strings.Builder, table Table) {
	paint := format.Painter(table.Colour)
	isCut := false
	for i, note := range all {
		style := format.Usual
		if note.Level == record.Invalid {
			style = format.Refused
		}
		if table.Verbose || note.Name == failed {
			format.Wrap(out, note.text(i), format.Layout{Width: table.Width, Hang: 4, Paint: func(s string) string { return paint(style, s) }})
			continue
		}
		text := cut(note.withoutPlace(i), min(shortNote, cmp.Or(table.Width, shortNote)))
		isCut = isCut || strings.HasSuffix(text, ellipsis)
		out.WriteString(paint(style, text) + "\n")
	}
	if isCut {
		out.WriteString(ellipsis + ": the rest with --verbose, and in the report.\n")
	}
}

const ellipsis = "…"

// cut shortens a text to a length, between words.
func cut(text string, length int) string {
	if utf8.RuneCountInString(text) <= length {
		return text
	}
	whole := string([]rune(text)[:length-1])
	return strings.TrimRight(whole[:max(strings.LastIndexByte(whole, ' '), 1)], " ,;:(") + ellipsis
}

// text returns the note with its mark, as printed below the table.
func (n *note) text(place int) string {
	return n.withoutPlace(place) + " (" + n.where() + ")"
}

func (n *note) withoutPlace(place int) string {
	return fmt.Sprintf("[%d] %s: %s", place+1, headline(n.cells[0], n.Finding), strings.TrimSuffix(n.Detail, "."))
}

func headline(c *matrix.Cell, f matrix.Finding) string {
	switch {
	case f.Name == failed && c.IsValid():
		return "a trial gave no measurement"
	case f.Name == failed:
		return "no measurement"
	case f.Level == record.Invalid:
		return "invalid, " + f.Name
	case f.Level == record.Unknown:
		return "not known, " + f.Name
	}
	return f.Name
}

// where names the first cell, whose detail is shown, and the number of the others.
func (n *note) where() string {
	first := n.cells[0]
	text := first.ShortVariant()
	if first.Payload != (record.Payload{}) { // otherwise the workload has no sizes
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

// unachievedMode describes connections that differ from the wanted ones, unless a check does.
func unachievedMode(c *matrix.Cell) (text string, differs bool) {
	made := &c.Connections
	if !made.Differs || slices.ContainsFunc(c.Findings, func(f matrix.Finding) bool { return f.Name == connectionsNote }) {
		return "", false
	}
	if made.Achieved == nil {
		return fmt.Sprintf("asked for %s, %d at once: %s opened since the start, %s of them in the window",
			c.Connection, made.Want, format.Plain(c.Opened.Value), units.Thousands(made.During)), true
	}
	return fmt.Sprintf("asked for %s, achieved for %s of the connections: %s opened, %s full handshakes, %s resumed, %s with early data",
		c.Connection, format.Percent(*made.Achieved), units.Thousands(made.During), units.Thousands(made.Full), units.Thousands(made.Resumed), units.Thousands(made.Early)), true
}

// Warnings lists a cell's problems, worst first.
func Warnings(c *matrix.Cell) []string {
	var texts []string
	for _, f := range troubles(c) {
		text := headline(c, f)
		if f.Trials > 0 && c.Trials > 1 {
			text += fmt.Sprintf(" (%d of %d trials)", f.Trials, c.Trials)
		}
		texts = append(texts, text+": "+f.Detail)
	}
	return append(texts, c.Warnings...)
}
