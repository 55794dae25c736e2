package report

import (
	"fmt"
	"io"
	"slices"
	"strconv"
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
	if len(cells) == 0 {
		_, err := fmt.Fprintln(w, "No trial has ended yet: there is nothing to show.")
		return err
	}
	notes := newNotes(cells)
	lines := tableLines(cells, notes)
	shown, left := fit(columns(cells), lines, terminal.Width)

	var out strings.Builder
	paint := painter(terminal.Colour)
	out.WriteString(paint(bold, titles(shown)) + "\n")
	for i, l := range lines {
		if i > 0 && startsGroup(lines[i-1].cell, l.cell) {
			out.WriteByte('\n')
		}
		if l.cell.Part != "" && (i == 0 || lines[i-1].cell.Part != l.cell.Part) && manyParts(cells) {
			out.WriteString(paint(bold, l.cell.Part) + "\n")
		}
		style := usual
		switch {
		case !l.cell.IsValid():
			style = refused
		case l.subordinate != "":
			style = faint
		}
		out.WriteString(paint(style, l.text(shown)) + "\n")
	}
	out.WriteByte('\n')
	for _, text := range legend(cells, lines, left) {
		wrap(&out, text, layout{width: terminal.Width, hang: 2})
	}
	notes.print(&out, terminal)
	_, err := io.WriteString(w, out.String())
	return err
}

// line is a row of the table. A cell whose response time is not its service
// time has further lines, which say what they are.
type line struct {
	cell        *analysis.Cell
	latencies   *analysis.Latencies
	subordinate string
	marks       string
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
			line{cell: cell, latencies: &cell.Service, subordinate: "└ service"})
		if cell.Wait != nil {
			lines = append(lines, line{cell: cell, latencies: cell.Wait, subordinate: "└ wait"})
		}
	}
	return lines
}

// column is one figure of every line. Those with a patience are left out where
// the terminal is too narrow, the least patient first.
type column struct {
	title    string
	left     bool
	patience int // 0: never left out
	value    func(line) string
	width    int
}

func columns(cells []*analysis.Cell) []column {
	all := []column{
		{title: "stack", left: true, value: func(l line) string {
			if l.subordinate != "" {
				return l.subordinate
			}
			return l.cell.Variant
		}},
		{title: "workload", left: true, value: ofCell(func(c *analysis.Cell) string { return c.Workload })},
		{title: "size", value: ofCell(func(c *analysis.Cell) string { return sizes(c.RequestBytes, c.ResponseBytes) })},
		{title: "c", value: ofCell(func(c *analysis.Cell) string { return strconv.Itoa(c.Clients) })},
		{title: "load", left: true, value: ofCell(load)},
		{title: "req/s", value: measured(func(c *analysis.Cell) string { return perSecond(c.Throughput.Value) })},
		{title: "mean", patience: 6, value: timed(func(l *analysis.Latencies) analysis.Figure { return l.Mean })},
		{title: "P50", value: timed(func(l *analysis.Latencies) analysis.Figure { return l.P50 })},
		{title: "P90", patience: 2, value: timed(func(l *analysis.Latencies) analysis.Figure { return l.P90 })},
		{title: "P99", value: timed(func(l *analysis.Latencies) analysis.Figure { return l.P99 })},
		{title: "P99.9", patience: 3, value: timed(func(l *analysis.Latencies) analysis.Figure { return l.P999 })},
		{title: "P99.99", patience: 1, value: timed(func(l *analysis.Latencies) analysis.Figure { return l.P9999 })},
		{title: "max", patience: 5, value: timed(func(l *analysis.Latencies) analysis.Figure { return l.Max })},
		{title: "P99/P50", patience: 7, value: measured(func(c *analysis.Cell) string { return plain(c.P99OverP50.Value) })},
		{title: "conn", left: true, value: ofCell(func(c *analysis.Cell) string { return c.Connection })},
		{title: "ok", value: ofCell(survived)},
		{title: "hs P50", patience: 8, value: measured(func(c *analysis.Cell) string { return handshake(c) })},
		{title: "err", value: ofCell(func(c *analysis.Cell) string { return thousands(c.Errors) })},
		{title: "client", patience: 4, value: measured(func(c *analysis.Cell) string { return maybeMicros(c.Client.CPU) })},
		{title: "server", patience: 4, value: measured(func(c *analysis.Cell) string { return maybeMicros(c.Server.CPU) })},
		{title: "valid", left: true, value: validity},
	}
	perRequest := slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Connections.PerRequest })
	return slices.DeleteFunc(all, func(c column) bool {
		switch c.title {
		case "workload":
			return !varies(cells, func(c *analysis.Cell) string { return c.Workload })
		case "load":
			return !varies(cells, load)
		case "conn":
			return !slices.ContainsFunc(cells, hidesItsMode)
		case "ok":
			return !perRequest
		case "err":
			return perRequest
		case "hs P50":
			return !perRequest || !slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Connections.Handshake != nil })
		}
		return false
	})
}

func ofCell(show func(*analysis.Cell) string) func(line) string {
	return func(l line) string {
		if l.subordinate != "" {
			return ""
		}
		return show(l.cell)
	}
}

func measured(show func(*analysis.Cell) string) func(line) string {
	return ofCell(func(c *analysis.Cell) string {
		if !c.HasFigures() {
			return absent
		}
		return show(c)
	})
}

func timed(figure func(*analysis.Latencies) analysis.Figure) func(line) string {
	return func(l line) string {
		if !l.cell.HasFigures() {
			return absent
		}
		return micros(figure(l.latencies).Value)
	}
}

func validity(l line) string {
	if l.subordinate != "" {
		return ""
	}
	text := fmt.Sprintf("%d/%d", l.cell.Valid, l.cell.Trials)
	if !l.cell.IsValid() {
		text = "INVALID"
	}
	return strings.TrimSpace(text + " " + l.marks)
}

func maybeMicros(f *analysis.Figure) string {
	if f == nil {
		return absent
	}
	return micros(f.Value)
}

// sizes shows the size of the messages, and both where they differ.
func sizes(request, response int) string {
	if request == response {
		return byteSize(request)
	}
	return byteSize(request) + "→" + byteSize(response)
}

// hidesItsMode tells whether a cell opens a connection a request, and its
// variant does not say so.
func hidesItsMode(c *analysis.Cell) bool {
	return c.Connections.PerRequest && !strings.Contains(c.Variant, "conn=")
}

// survived is the share of requests that were answered. It is known of a cell
// that is not valid too.
func survived(c *analysis.Cell) string {
	share, known := c.Survival.Share()
	if !known {
		return absent
	}
	return percent(share)
}

func handshake(c *analysis.Cell) string {
	if c.Connections.Handshake == nil {
		return absent
	}
	return micros(c.Connections.Handshake.P50.Value)
}

// load says in short how the cell was loaded. A limit is in the variant's name.
func load(c *analysis.Cell) string {
	switch l := c.Load; {
	case l.Burst > 0:
		return "burst of " + thousands(int64(l.Burst))
	case l.RampTo > 0:
		return "ramp " + perSecond(l.RatePerSecond) + " to " + perSecond(l.RampTo) + "/s"
	case l.RatePerSecond > 0:
		return strings.TrimSpace(l.Arrivals + " " + perSecond(l.RatePerSecond) + "/s")
	case l.Goal != "":
		return l.Model + " " + l.Goal
	default:
		return l.Model
	}
}

func varies(cells []*analysis.Cell, of func(*analysis.Cell) string) bool {
	return slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return of(c) != of(cells[0]) })
}

func manyParts(cells []*analysis.Cell) bool {
	return varies(cells, func(c *analysis.Cell) string { return c.Part })
}

func startsGroup(before, now *analysis.Cell) bool { return !compared(before, now) }

const gap = "  "

// fit measures the columns, and leaves out the least patient ones until a line
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
			if c.patience > 0 && (least < 0 || c.patience < shown[least].patience) {
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

func titles(shown []column) string {
	texts := make([]string, len(shown))
	for i, c := range shown {
		texts[i] = c.pad(c.title)
	}
	return strings.TrimRight(strings.Join(texts, gap), " ")
}

func (l line) text(shown []column) string {
	texts := make([]string, len(shown))
	for i, c := range shown {
		texts[i] = c.pad(c.value(l))
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
