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

// A block holds the parts below one line of titles. A part with other columns starts a new block.
type block struct {
	lines       []line
	headingKeys []key // keys that the heading of each part shows
	columns     []column
	omitted     []string // titles of columns that are too wide for the line
}

// blocks divides the table into blocks. It shows the CPU time of client and server, or only the sum
// in a narrow table.
func (t Table) blocks(varying []key, lines []line) []block {
	figures := withFigures(figureColumns(), lines)
	var all []block
	for _, without := range [][]string{{cpuTitle}, {clientTitle, serverTitle}} {
		if len(t.Columns) > 0 {
			without = nil
		}
		all = arrangement{table: t, keys: varying, figures: figures, hidden: without}.blocks(lines)
		if !slices.ContainsFunc(all, func(b block) bool { return len(b.omitted) > 0 }) {
			break
		}
	}
	return all
}

type arrangement struct {
	table   Table
	keys    []key // keys in which cells differ
	figures []column
	hidden  []string // titles of hidden columns
}

func (a arrangement) blocks(lines []line) (all []block) {
	first, end := 0, 0 // line range of the last block
	for _, part := range groupNeighbours(lines, func(a, b line) bool { return a.cell.Part == b.cell.Part }) {
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
		if b.differsWithinPart(k) {
			shown = append(shown, k)
		} else {
			b.headingKeys = append(b.headingKeys, k)
		}
	}
	if names := a.table.Columns; len(names) > 0 {
		b.columns = withWidths(chosenColumns(shown, a.figures, names), lines)
		return b
	}
	b.columns = append(keyColumns(shown), a.defaultColumns(lines)...)
	b.columns[0].title = lines[0].cell.Kind().VariantTitle
	b.columns = withWidths(b.columns, lines)
	b.fit(a.table.wrapWidth())
	return b
}

func (a arrangement) defaultColumns(lines []line) []column {
	return slices.DeleteFunc(slices.Clone(a.figures), func(c column) bool {
		isUsual := c.shownByDefault == nil || slices.ContainsFunc(lines, func(l line) bool { return c.shownByDefault(l.cell) })
		return c.priority == 0 || !isUsual || slices.Contains(a.hidden, c.title)
	})
}

func (b *block) looksLike(other *block) bool {
	return slices.EqualFunc(b.columns, other.columns, func(x, y column) bool { return x.title == y.title && x.of == y.of })
}

func (b *block) differsWithinPart(k key) bool {
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
	out.WriteString(paint(format.Bold, joinColumns(b.columns, func(c column) string { return c.pad(c.title) })) + "\n")
	for i, l := range b.lines {
		if i > 0 && !sameWork(b.lines[i-1].cell, l.cell) {
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
	also := headingText(b.headingKeys, c)
	if also == "" {
		out.WriteString(paint(format.Bold, c.Part) + "\n")
		return
	}
	var text strings.Builder
	format.Wrap(&text, also, format.Layout{Width: table.wrapWidth(), Lead: c.Part + ": ", Hang: 2})
	out.WriteString(paint(format.Bold, c.Part) + strings.TrimPrefix(text.String(), c.Part))
}

func withFigures(all []column, lines []line) []column {
	return slices.DeleteFunc(all, func(c column) bool {
		return !slices.ContainsFunc(lines, func(l line) bool { text := c.value(l); return text != "" && text != format.Absent })
	})
}

func withWidths(all []column, lines []line) []column {
	for i := range all {
		all[i].width = utf8.RuneCountInString(all[i].title)
		for _, l := range lines {
			all[i].width = max(all[i].width, utf8.RuneCountInString(all[i].value(l)))
		}
	}
	return all
}

// fit removes empty columns, then columns of the lowest priority, until a line fits the width.
func (b *block) fit(width int) {
	if lineWidth(b.columns) > width {
		b.columns = withFigures(b.columns, b.lines)
	}
	for lineWidth(b.columns) > width {
		least := slices.MinFunc(b.columns, func(x, y column) int { return x.priority - y.priority })
		if least.priority == alwaysShown {
			return
		}
		b.omitted = append(b.omitted, least.title)
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

func (c column) gap() string {
	switch {
	case c.of == "":
		return "  "
	case c.title == "": // a column of marks
		return ""
	}
	return " "
}

func joinColumns(shown []column, text func(column) string) string {
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
	if c.leftAligned {
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
		for _, title := range b.omitted {
			left = lists.AppendNew(left, title)
		}
	}
	var items []string
	if len(lines) > len(cells) {
		items = []string{"times: from planned send", "└ service: from actual send"}
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
	if slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.IsValid() && c.RefusesTimes() }) {
		items = append(items, "ratios only: other programs lengthened the times of all variants alike")
	}
	if len(left) > 0 {
		items = append(items, strings.Join(left, ", ")+" hidden: too narrow (--columns)")
	}
	texts := joinItems(items, t.wrapWidth())
	if t.Verbose {
		texts = append(texts, "Times are service times: from the send to the answer. In a closed loop, response times are the same.")
		if len(lines) > len(cells) {
			texts[len(texts)-1] = "Times are response times: from the planned send to the answer. The lines below show service times, from the actual send, and the wait for the in-flight limit."
		}
		texts = append(texts, percentileNotes(cells)...)
		texts = append(texts, "Connections: "+describeConnections(cells)+".")
	}
	return texts
}

// joinItems puts as many items on each line as fit.
func joinItems(items []string, width int) (lines []string) {
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

// lacksPercentile reports whether a cell with figures has no value in a shown column of times.
func lacksPercentile(lines []line, shown []column) bool {
	times := latencyColumns()
	return slices.ContainsFunc(shown, func(c column) bool {
		isTime := slices.ContainsFunc(times, func(t column) bool { return t.title == c.title && t.of == "" })
		return isTime && slices.ContainsFunc(lines, func(l line) bool { return l.cell.HasFigures() && c.value(l) == format.Absent })
	})
}

// percentileNotes explain which requests percentiles cover, and that a closed loop hides stalls.
func percentileNotes(cells []*matrix.Cell) []string {
	texts := []string{"Percentiles cover the requests of all trials; – means too few requests: P99 needs 1,000, P99.9 needs 10,000.", ClosedLoopNote(cells)}
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// ClosedLoopNote explains that a closed loop hides stalls. It returns "" without a closed loop.
func ClosedLoopNote(cells []*matrix.Cell) string {
	if !slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Load.Model == "closed" }) {
		return ""
	}
	return "A closed loop sends nothing while it waits, so stalls count less in its tails than for independent callers (coordinated omission); an open loop shows stalls in full (" + cells[0].Kind().Command + " --rps)."
}

// describeConnections lists the connection mode of each variant whose name does not state it.
func describeConnections(cells []*matrix.Cell) string {
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
	return "as in each variant's conn option"
}

// showsTimes reports whether a shown column has response, service or wait times.
func (t Table) showsTimes() bool {
	if len(t.Columns) == 0 || slices.Contains(t.Columns, AllColumns) {
		return true
	}
	return slices.ContainsFunc(latencyColumns(), func(c column) bool { return slices.Contains(t.Columns, c.title) })
}

// A Table holds options for printing the table.
type Table struct {
	format.Terminal
	Columns []string // names from [FindColumns]; empty means the default columns
	Verbose bool     // explain all columns, and print notes in full
	More    string   // where the notes are in full; empty means with --verbose, and in the report
}

func (t Table) wrapWidth() int { return cmp.Or(t.Width, format.DefaultWidth) }
