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

// notes explain the marks in the table. Cells with the same finding share one note,
// with the detail of the first cell, so that a table of 75 lines has few notes.
type notes struct {
	list []*note
}

type note struct {
	analysis.Finding
	cells []*analysis.Cell
}

// The names of findings that are not from a check: trials without a measurement, and
// connections that are not as asked for. The latter is also the name of a check.
const (
	failed          = "failed"
	connectionsNote = "connections"
)

func newNotes(cells []*analysis.Cell) *notes {
	n := &notes{}
	for _, cell := range cells {
		for _, f := range troubles(cell) {
			n.add(cell, f)
		}
		for _, f := range cell.Survival.Failures {
			n.add(cell, analysis.Finding{Name: failureName(f), Level: record.Warning, Detail: failureText(f)})
		}
	}
	return n
}

// troubles are a cell's failure, its findings, and how its connections differ from what
// was asked for.
func troubles(c *analysis.Cell) []analysis.Finding {
	var all []analysis.Finding
	if c.Failure != "" {
		all = append(all, analysis.Finding{Name: failed, Level: record.Invalid, Detail: c.Failure})
	}
	all = append(all, c.Findings...)
	if text, differs := unachievedMode(c); differs {
		all = append(all, analysis.Finding{Name: connectionsNote, Level: record.Warning, Detail: text})
	}
	return all
}

func (n *notes) add(cell *analysis.Cell, found analysis.Finding) {
	for _, known := range n.list {
		if known.Name == found.Name && known.Level == found.Level {
			if !slices.Contains(known.cells, cell) {
				known.cells = append(known.cells, cell)
			}
			return
		}
	}
	n.list = append(n.list, &note{found, []*analysis.Cell{cell}})
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
		if note.Level == record.Invalid {
			style = refused
		}
		wrap(out, note.text(i), layout{width: terminal.Width, hang: 4, paint: func(s string) string { return paint(style, s) }})
	}
}

// text is the note as it stands beneath the table, with the mark that refers
// to it.
func (n *note) text(place int) string {
	return fmt.Sprintf("[%d] %s: %s (%s)", place+1, headline(n.cells[0], n.Finding), strings.TrimSuffix(n.Detail, "."), n.where())
}

// headline names a finding, and how bad it is.
func headline(c *analysis.Cell, f analysis.Finding) string {
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

// where names the first cell, whose detail is shown, and counts the others.
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

// unachievedMode describes how the connections differ from the mode that was asked
// for. A check of the trials may have reported that already.
func unachievedMode(c *analysis.Cell) (text string, differs bool) {
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

// legend explains the columns, and lists the connections of each stack.
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
		times += " kept: the highest rate, a second, that kept the goal in two of up to three tries, and missed: the lowest above it that did not; the other figures are of a try of the one that was kept."
	}
	if slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Drain != nil }) {
		times += " drain: from the burst to its last answer."
	}
	texts := append([]string{times}, tailTexts(cells)...)
	texts = append(texts, "Connections: "+connections(cells)+".")
	if len(left) > 0 {
		texts = append(texts, "The terminal is too narrow for these columns: "+strings.Join(left, ", ")+". All figures are in --json and in the report.")
	}
	return texts
}

// tailTexts say what percentiles are of, and what those of a closed loop cannot see.
func tailTexts(cells []*analysis.Cell) []string {
	texts := []string{"Percentiles are those of all trials' requests together; – where fewer than ten lie beyond: P99 takes 1,000 requests, P99.9 10,000."}
	if text := closedTail(cells); text != "" {
		texts = append(texts, text)
	}
	return texts
}

// closedTail is empty where no load is a closed loop.
func closedTail(cells []*analysis.Cell) string {
	if !slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Load.Model == "closed" }) {
		return ""
	}
	return "A closed loop sends nothing while it waits: stalls weigh less in its tails than in those of independent callers (coordinated omission), which an open loop shows (compare --rps)."
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
