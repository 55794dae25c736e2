package table

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// A block holds parts below one line of titles. Other columns or longer names start a new block.
type block struct {
	lines   []line
	said    []key // keys in the heading of each part
	columns []column
	left    []string // titles of columns without room
}

// blocks arranges the parts. It shows the CPU time of each end if all parts then have room.
func (t Table) blocks(varying []key, lines []line) []block {
	// All lines decide, so that parts with equal columns stay together.
	figures := withFigures(figureColumns(), lines)
	var all []block
	for _, without := range [][]string{{cpuTitle}, {clientTitle, serverTitle}} {
		if len(t.Columns) > 0 {
			without = nil
		}
		all = arrangement{table: t, keys: varying, figures: figures, without: without}.blocks(lines)
		if !slices.ContainsFunc(all, func(b block) bool { return len(b.left) > 0 }) {
			break
		}
	}
	return all
}

type arrangement struct {
	table   Table
	keys    []key // keys in which cells differ
	figures []column
	without []string // titles of hidden columns
}

func (a arrangement) blocks(lines []line) (all []block) {
	first, end := 0, 0 // line range of the last block
	for _, part := range runs(lines, func(a, b line) bool { return a.cell.Part == b.cell.Part }) {
		begin := end
		end += len(part)
		own := a.block(part)
		if len(all) > 0 {
			both := a.block(lines[first:end])
			if last := &all[len(all)-1]; both.looksLike(last) && both.looksLike(&own) {
				*last = both
				continue
			}
		}
		all, first = append(all, own), begin
	}
	return all
}

func (a arrangement) block(lines []line) block {
	b := block{lines: lines}
	var shown []key
	for _, k := range a.keys {
		if b.hasPartWith(k) {
			shown = append(shown, k)
		} else {
			b.said = append(b.said, k)
		}
	}
	if names := a.table.Columns; len(names) > 0 {
		b.columns = measured(asked(shown, a.figures, names), lines)
		return b
	}
	b.columns = append(keyColumns(shown), a.usual(lines)...)
	b.columns[0].title = lines[0].cell.Kind().VariantTitle
	b.columns = measured(b.columns, lines)
	b.fit(a.table.room())
	return b
}

// usual returns the figures that are shown by default.
func (a arrangement) usual(lines []line) []column {
	return slices.DeleteFunc(slices.Clone(a.figures), func(c column) bool {
		isUsual := c.usual == nil || slices.ContainsFunc(lines, func(l line) bool { return c.usual(l.cell) })
		return c.priority == 0 || !isUsual || slices.Contains(a.without, c.title)
	})
}

func (b *block) looksLike(other *block) bool {
	return slices.EqualFunc(b.columns, other.columns, func(x, y column) bool { return x.title == y.title && x.of == y.of })
}

// hasPartWith reports whether a part's cells differ in a key.
func (b *block) hasPartWith(k key) bool {
	of := k.compare()
	for i := 1; i < len(b.lines); i++ {
		if last, next := b.lines[i-1].cell, b.lines[i].cell; last.Part == next.Part && of(last) != of(next) {
			return true
		}
	}
	return false
}

// print prints the block. Headings name the parts, if there is more than one.
func (b *block) print(out *strings.Builder, table Table, headings bool) {
	paint := format.Painter(table.Colour)
	out.WriteString(paint(format.Bold, row(b.columns, func(c column) string { return c.pad(c.title) })) + "\n")
	for i, l := range b.lines {
		if i > 0 && !compared(b.lines[i-1].cell, l.cell) {
			out.WriteByte('\n')
		}
		if headings && (i == 0 || b.lines[i-1].cell.Part != l.cell.Part) {
			b.printHeading(out, table, l.cell)
		}
		out.WriteString(l.print(b.columns, paint) + "\n")
	}
}

func (b *block) printHeading(out *strings.Builder, table Table, c *matrix.Cell) {
	paint := format.Painter(table.Colour)
	also := say(b.said, c)
	if also == "" {
		out.WriteString(paint(format.Bold, c.Part) + "\n")
		return
	}
	var text strings.Builder
	format.Wrap(&text, also, format.Layout{Width: table.room(), Lead: c.Part + ": ", Hang: 2})
	out.WriteString(paint(format.Bold, c.Part) + strings.TrimPrefix(text.String(), c.Part))
}

// withFigures leaves out columns without figures.
func withFigures(all []column, lines []line) []column {
	return slices.DeleteFunc(all, func(c column) bool {
		return !slices.ContainsFunc(lines, func(l line) bool { text := c.value(l); return text != "" && text != format.Absent })
	})
}

func measured(all []column, lines []line) []column {
	for i := range all {
		all[i].width = utf8.RuneCountInString(all[i].title)
		for _, l := range lines {
			all[i].width = max(all[i].width, utf8.RuneCountInString(all[i].value(l)))
		}
	}
	return all
}

// fit leaves out empty columns, then columns of the lowest priority, until the width is enough.
func (b *block) fit(width int) {
	if lineWidth(b.columns) > width {
		b.columns = withFigures(b.columns, b.lines)
	}
	for lineWidth(b.columns) > width {
		least := slices.MinFunc(b.columns, func(x, y column) int { return x.priority - y.priority })
		if least.priority == stays {
			return
		}
		b.left = append(b.left, least.title)
		b.columns = slices.DeleteFunc(b.columns, func(c column) bool { return c.title == least.title })
	}
}

func lineWidth(shown []column) (width int) {
	for i, c := range shown {
		if width += c.width; i > 0 {
			width += len(c.gap())
		}
	}
	return width
}

// gap returns the text between a column and the one before.
func (c column) gap() string {
	switch {
	case c.of == "":
		return "  "
	case c.title == "": // a column of marks
		return ""
	}
	return " "
}

func row(shown []column, text func(column) string) string {
	var out strings.Builder
	for i, c := range shown {
		if i > 0 {
			out.WriteString(c.gap())
		}
		out.WriteString(text(c))
	}
	return strings.TrimRight(out.String(), " ")
}

func (c column) pad(text string) string {
	blank := strings.Repeat(" ", max(0, c.width-utf8.RuneCountInString(text)))
	if c.left {
		return text + blank
	}
	return blank + text
}

// legend explains the columns, and names hidden ones. A verbose legend also lists connections.
func (t Table) legend(cells []*matrix.Cell, lines []line, blocks []block) []string {
	var shown []column
	var left []string
	for _, b := range blocks {
		shown = append(shown, b.columns...)
		for _, title := range b.left {
			left = lists.AppendNew(left, title)
		}
	}
	var items []string
	if len(lines) > len(cells) {
		items = []string{"times: from when due", "└ service: from the send"}
		if slices.ContainsFunc(lines, func(l line) bool { return l.latencies == l.cell.Wait }) {
			items = append(items, "└ wait: for the limit")
		}
	}
	for _, c := range shown {
		if c.legend != "" {
			items = lists.AppendNew(items, c.legend)
		}
	}
	if lacksPercentile(lines, shown) {
		why := "too few requests"
		if slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Tool != "" }) {
			why = "unknown, or too few requests"
		}
		items = append(items, format.Absent+": "+why)
	}
	if len(left) > 0 {
		items = append(items, "no room for "+strings.Join(left, ", ")+" (see --columns)")
	}
	texts := flow(items, t.room())
	if t.Verbose {
		texts = append(texts, "Times are service times, from the send to the answer. In a closed loop response times are the same.")
		if len(lines) > len(cells) {
			texts[len(texts)-1] = "Times are response times, from the instant a request was meant to go out; the lines below give the service time, from the actual send, and the wait for a permit of an in-flight limit."
		}
		texts = append(texts, tailTexts(cells)...)
		texts = append(texts, "Connections: "+connections(cells)+".")
	}
	return texts
}

// flow joins items to lines, and breaks no item.
func flow(items []string, width int) (lines []string) {
	for i, item := range items {
		if i+1 < len(items) {
			item += ";"
		} else {
			item += "."
		}
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last])+1+utf8.RuneCountInString(item) > width {
			lines = append(lines, item)
		} else {
			lines[last] += " " + item
		}
	}
	return lines
}

// lacksPercentile reports whether a column of times lacks a figure for a cell with other figures.
func lacksPercentile(lines []line, shown []column) bool {
	times := latencyColumns()
	return slices.ContainsFunc(shown, func(c column) bool {
		isTime := slices.ContainsFunc(times, func(t column) bool { return t.title == c.title && t.of == "" })
		return isTime && slices.ContainsFunc(lines, func(l line) bool { return l.cell.HasFigures() && c.value(l) == format.Absent })
	})
}

// tailTexts explain the sample of percentiles, and the limits of percentiles in a closed loop.
func tailTexts(cells []*matrix.Cell) []string {
	texts := []string{"Percentiles are over all trials' requests together; – if fewer than ten lie beyond: P99 needs 1,000 requests, P99.9 10,000.", ClosedTail(cells)}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// ClosedTail explains the limits of tails in a closed loop. It is empty without a closed loop.
func ClosedTail(cells []*matrix.Cell) string {
	if !slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Load.Model == "closed" }) {
		return ""
	}
	return "A closed loop sends nothing while it waits, so stalls count less in its tails than for independent callers (coordinated omission); an open loop shows these (" + cells[0].Kind().Command + " --rps)."
}

// connections lists the connection mode of each variant whose name does not state it.
func connections(cells []*matrix.Cell) string {
	var texts []string
	for _, cell := range cells {
		if strings.Contains(cell.Variant, "conn=") || cell.Tool != "" {
			continue
		}
		texts = lists.AppendNew(texts, cell.ShortVariant()+" "+cell.Connection)
	}
	switch {
	case len(texts) > 0:
		return strings.Join(texts, "; ")
	case len(cells) > 0 && cells[0].Tool != "":
		return "unknown"
	}
	return "as each variant's conn says"
}

// showsTimes reports whether a column may differ between kinds of times of a cell.
func (t Table) showsTimes() bool {
	if len(t.Columns) == 0 || slices.Contains(t.Columns, AllColumns) {
		return true
	}
	return slices.ContainsFunc(latencyColumns(), func(c column) bool { return slices.Contains(t.Columns, c.title) })
}

// A Table holds options for printing the table.
type Table struct {
	format.Terminal
	Columns []string // from [FindColumns]; empty: the usual ones
	Verbose bool     // with the general meaning of columns, and full notes
}

func (t Table) room() int { return cmp.Or(t.Width, format.UsualWidth) }
