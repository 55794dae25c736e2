package table

import (
	"slices"
	"strings"
	"unicode/utf8"

	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// legend explains the columns that are shown, and what is left out. In a verbose table it
// also says what times and percentiles are of, and lists the connections of each stack.
func (t Table) legend(cells []*matrix.Cell, lines []line, blocks []block) []string {
	var shown []column
	var left []string
	for _, b := range blocks {
		shown = append(shown, b.columns...)
		for _, title := range b.left {
			if !slices.Contains(left, title) {
				left = append(left, title)
			}
		}
	}
	var items []string
	if len(lines) > len(cells) {
		items = timeItems(lines)
	}
	for _, c := range shown {
		if c.legend != "" && !slices.Contains(items, c.legend) {
			items = append(items, c.legend)
		}
	}
	if lacksPercentile(lines, shown) {
		items = append(items, format.Absent+": "+whyAbsent(cells))
	}
	if len(left) > 0 {
		items = append(items, "no room for "+strings.Join(left, ", ")+" (see --columns)")
	}
	texts := flow(items, t.room())
	if t.Verbose {
		texts = append(texts, "Times are service times, from the send to the answer; in a closed loop they are response times too.")
		if len(lines) > len(cells) {
			texts[len(texts)-1] = "Times are response times, from the instant a request was meant to go out; the lines below give the service time, from the actual send, and the wait for a permit of an in-flight limit."
		}
		texts = append(texts, tailTexts(cells)...)
		texts = append(texts, "Connections: "+connections(cells)+".")
	}
	return texts
}

// whyAbsent says why a cell lacks a percentile.
func whyAbsent(cells []*matrix.Cell) string {
	if slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Tool != "" }) {
		return "unknown, or too few requests"
	}
	return "too few requests"
}

// flow sets items into lines, and breaks none.
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

// timeItems explains the lines below a cell's line.
func timeItems(lines []line) []string {
	items := []string{"times: from when due", "└ service: from the send"}
	if slices.ContainsFunc(lines, func(l line) bool { return l.latencies == l.cell.Wait }) {
		items = append(items, "└ wait: for the limit")
	}
	return items
}

// lacksPercentile reports whether a column of times has no figure of a cell that has others.
func lacksPercentile(lines []line, shown []column) bool {
	times := latencyColumns()
	return slices.ContainsFunc(shown, func(c column) bool {
		isTime := slices.ContainsFunc(times, func(t column) bool { return t.title == c.title && t.of == "" })
		return isTime && slices.ContainsFunc(lines, func(l line) bool { return l.cell.HasFigures() && c.value(l) == format.Absent })
	})
}

// tailTexts say what percentiles are of, and what those of a closed loop cannot see.
func tailTexts(cells []*matrix.Cell) []string {
	texts := []string{"Percentiles are those of all trials' requests together; – where fewer than ten lie beyond: P99 takes 1,000 requests, P99.9 10,000."}
	if text := ClosedTail(cells); text != "" {
		texts = append(texts, text)
	}
	return texts
}

// ClosedTail says what tails of a closed loop cannot show; it is empty if no load is one.
func ClosedTail(cells []*matrix.Cell) string {
	if !slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return c.Load.Model == "closed" }) {
		return ""
	}
	return "A closed loop sends nothing while it waits: stalls weigh less in its tails than in those of independent callers (coordinated omission), which an open loop shows (" + cells[0].Kind().Command + " --rps)."
}

// connections lists the mode of each variant that does not say its own.
func connections(cells []*matrix.Cell) string {
	var texts []string
	for _, cell := range cells {
		if strings.Contains(cell.Variant, "conn=") || cell.Tool != "" {
			continue
		}
		if text := cell.ShortVariant() + " " + cell.Connection; !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	if len(texts) == 0 && len(cells) > 0 && cells[0].Tool != "" {
		return "unknown"
	}
	if len(texts) == 0 {
		return "as each variant's conn says"
	}
	return strings.Join(texts, "; ")
}
