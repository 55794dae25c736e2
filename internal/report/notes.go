package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/units"
)

// notes explain marks in the table. Cells with the same trouble share a note,
// told once in the words of the first of them, so that the reasons can be read
// beneath seventy-five lines.
type notes struct {
	list []*note
}

type note struct {
	name   string
	level  record.Level
	detail string
	cells  []*analysis.Cell
}

// failed is the name of the note on trials that gave no measurement.
const failed = "failed"

func newNotes(cells []*analysis.Cell) *notes {
	n := &notes{}
	for _, cell := range cells {
		if cell.Failure != "" {
			n.add(cell, note{name: failed, level: record.Invalid, detail: cell.Failure})
		}
		for _, finding := range cell.Findings {
			n.add(cell, note{name: finding.Name, level: finding.Level, detail: finding.Detail})
		}
		if text, differs := unachieved(cell); differs {
			n.add(cell, note{name: connectionsNote, level: record.Warning, detail: text})
		}
		for _, failure := range cell.Survival.Failures {
			n.add(cell, note{name: failureName(failure), level: record.Warning, detail: failureText(failure)})
		}
	}
	return n
}

func (n *notes) add(cell *analysis.Cell, found note) {
	for _, known := range n.list {
		if known.name == found.name && known.level == found.level {
			if !slices.Contains(known.cells, cell) {
				known.cells = append(known.cells, cell)
			}
			return
		}
	}
	found.cells = []*analysis.Cell{cell}
	n.list = append(n.list, &found)
}

// marks refer to the notes that speak of the cell.
func (n *notes) marks(cell *analysis.Cell) string {
	var marks []string
	for i, note := range n.list {
		if slices.Contains(note.cells, cell) {
			marks = append(marks, fmt.Sprint(i+1))
		}
	}
	if len(marks) == 0 {
		return ""
	}
	return "[" + strings.Join(marks, ",") + "]"
}

func (n *notes) print(out *strings.Builder, terminal Terminal) {
	paint := painter(terminal.Colour)
	for i, note := range n.list {
		style := usual
		if note.level == record.Invalid {
			style = refused
		}
		wrap(out, note.text(i), layout{width: terminal.Width, hang: 4, paint: func(s string) string { return paint(style, s) }})
	}
}

// text is the note as it stands beneath the table, with the mark that refers
// to it.
func (n *note) text(place int) string {
	return fmt.Sprintf("[%d] %s: %s (%s)", place+1, n.headline(), strings.TrimSuffix(n.detail, "."), n.where())
}

func (n *note) headline() string {
	switch n.level {
	case record.Invalid:
		if n.name == failed {
			return failureHeadline(n.cells[0])
		}
		return "invalid, " + n.name
	case record.Unknown:
		return "not known, " + n.name
	default:
		return n.name
	}
}

// where names the first cell, whose detail is told, and counts the rest.
func (n *note) where() string {
	first := n.cells[0]
	text := first.Variant
	if first.RequestBytes > 0 || first.ResponseBytes > 0 { // else the workload has no sizes
		text += ", " + sizes(first.RequestBytes, first.ResponseBytes)
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

// failureName is the class of a failure, or the code of one that has none.
func failureName(failure record.ErrorCount) string {
	return "failed, " + cmp.Or(failure.Class, failure.Code)
}

func failureText(failure record.ErrorCount) string {
	code := ""
	if failure.Class != "" {
		code = " (" + failure.Code + ")"
	}
	return fmt.Sprintf("%s requests%s, first: %q", units.Thousands(failure.Count), code, failure.Example)
}

// connectionsNote is the name of the check, and of the note, on connections
// that were not as asked for.
const connectionsNote = "connections"

// unachieved says what came of a connection mode that was not achieved, unless
// a check of the trials has said so already.
func unachieved(c *analysis.Cell) (text string, differs bool) {
	made := &c.Connections
	if !made.Differs || slices.ContainsFunc(c.Findings, func(f analysis.Finding) bool { return f.Name == connectionsNote }) {
		return "", false
	}
	if made.Achieved == nil {
		return fmt.Sprintf("asked for %s, %d at once: %s opened from the start on, %s of them in the window",
			c.Connection, made.Want, plain(c.Opened.Value), units.Thousands(made.During)), true
	}
	return fmt.Sprintf("asked for %s, achieved for %s of the connections: %s opened, %s full handshakes, %s resumed, %s with early data",
		c.Connection, percent(*made.Achieved), units.Thousands(made.During), units.Thousands(made.Full), units.Thousands(made.Resumed), units.Thousands(made.Early)), true
}

// legend says what the table cannot: what its times are, and over which
// connections each stack was measured.
func legend(cells []*analysis.Cell, lines []line, left []string) []string {
	times := "Times are service times, from the send to the answer; in a closed loop they are response times too."
	if len(lines) > len(cells) {
		times = "Times are response times, from the instant a request was meant to go out; the lines below give the service time, from the actual send, and the wait for a permit of an in-flight limit."
	}
	times += " client, server: CPU time a request. c: concurrent clients."
	if slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Connections.PerRequest }) {
		times += " ok: requests answered, of all trials that were measured. hs: handshake."
	}
	if slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Search != nil }) {
		times += " kept, missed: rates a second, between which the highest lies that keeps the goal; the other figures are of the one that was kept."
	}
	if slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Drain != nil }) {
		times += " drain: from the burst to its last answer."
	}
	texts := []string{
		times,
		"Connections: " + connections(cells) + ".",
	}
	if len(left) > 0 {
		texts = append(texts, "Left out for want of width: "+strings.Join(left, ", ")+". All figures are in --json and in the report.")
	}
	return texts
}

// connections lists the mode of each variant that does not say its own.
func connections(cells []*analysis.Cell) string {
	var texts []string
	for _, cell := range cells {
		if strings.Contains(cell.Variant, "conn=") {
			continue
		}
		if text := cell.Variant + " " + cell.Connection; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 {
		return "as each variant's conn says"
	}
	return strings.Join(texts, "; ")
}
