package table

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/units"
	"wirelab.dev/internal/judge/analysis/matrix"
	"wirelab.dev/internal/show/report/format"
)

// A column shows one figure per line. A narrow table hides columns of low priority.
type column struct {
	title          string
	of             string // title of the column to the left that this column adds to; may be empty
	leftAligned    bool
	priority       int
	shownByDefault func(*matrix.Cell) bool // reports whether a cell needs the column; nil means always
	legend         string
	value          func(line) string
	width          int
}

// alwaysShown is the priority of a column that is never hidden.
const alwaysShown = 9

// Titles of columns that other code looks up.
const (
	stackTitle  = "stack"
	meanTitle   = "mean"
	keptTitle   = "kept"
	cpuTitle    = "CPU"
	clientTitle = "client"
	serverTitle = "server"
	validTitle  = "valid"
)

// figureColumns returns all columns except those that name the cell.
func figureColumns() []column {
	hasSearch := func(c *matrix.Cell) bool { return c.Search != nil }
	all := []column{
		{title: keptTitle, priority: alwaysShown, shownByDefault: hasSearch, legend: "kept: highest rate that kept the goal", value: valueOfField("Search.Kept", format.PerSecond)},
		bestMarkColumn(keptTitle),
		{title: "missed", legend: "missed: lowest rate above kept that missed the goal", value: valueOfField("Search.Missed", format.PerSecond)},
		{title: "req/s", priority: 5, shownByDefault: func(c *matrix.Cell) bool { return !hasSearch(c) }, value: valueOfField("Throughput", format.PerSecond)},
	}
	all = append(all, latencyColumns()...)
	return append(all, []column{
		{title: "P99/P50", value: valueOfField("P99OverP50", format.PlainNumber)},
		{title: "drain", priority: 6, shownByDefault: func(c *matrix.Cell) bool { return c.Drain != nil }, legend: "drain: time until a burst's last answer", value: valueOfField("Drain", format.Micros)},
		{title: "answered", value: valueOfCell(answeredCount)},
		{title: "ok", priority: 7, shownByDefault: hasFailedConnections, legend: "ok: requests answered", value: valueOfCell(func(c *matrix.Cell) string { return formatOptional(c.Survival.Share, format.Percent) })},
		{title: "handshake", legend: "handshake: median time", value: valueOfField("Connections.Handshake.P50", format.Micros)},
		{title: "err", priority: 7, shownByDefault: hasErrors, value: valueOfCell(func(c *matrix.Cell) string { return units.Thousands(c.Errors) })},
		{title: cpuTitle, priority: 2, legend: "CPU: per request, client + server", value: valueOfFigure((*matrix.Cell).BothCPU, format.Micros)},
		{title: clientTitle, priority: 2, legend: "client, server: CPU per request", value: valueOfField("ClientCPU", format.Micros)},
		{title: serverTitle, priority: 2, value: valueOfField("ServerCPU", format.Micros)},
		{title: validTitle, leftAligned: true, priority: alwaysShown, value: validityText},
	}...)
}

// ColumnValues returns the figures of a cell in the columns with the given titles.
func ColumnValues(c *matrix.Cell, titles ...string) []string {
	all := figureColumns()
	return lists.Map(titles, func(title string) string {
		i := slices.IndexFunc(all, func(f column) bool { return f.title == title })
		return all[i].value(line{cell: c, latencies: c.ResponseTimes()})
	})
}

func hasFailedConnections(c *matrix.Cell) bool {
	return c.Connections.PerRequest && c.Survival.Share != nil && *c.Survival.Share < 1
}

func hasErrors(c *matrix.Cell) bool { return c.Errors > 0 && !c.Connections.PerRequest }

// bestMarkColumn returns a column that marks the fastest cell of each group by the titled column.
func bestMarkColumn(title string) column {
	return column{of: title, priority: alwaysShown, legend: "*: proven fastest of its group", value: func(l line) string {
		if l.best == title {
			return "*"
		}
		return ""
	}}
}

// latencyColumns returns a column for each field of Latencies with the tag `column`.
func latencyColumns() []column {
	var columns []column
	for field := range reflect.TypeFor[matrix.Latencies]().Fields() {
		title, text, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		priority, _ := strconv.Atoi(text) // 0 means shown only on request
		columns = append(columns, column{title: title, priority: priority, value: func(l line) string {
			if !l.cell.HasFigures() {
				return format.Absent
			}
			return format.Micros(FigureAt(l.latencies, field.Name).Value)
		}})
		if title == meanTitle {
			columns = append(columns, bestMarkColumn(meanTitle),
				column{title: "±", of: meanTitle, priority: 3, legend: "±: 95 % interval", value: func(l line) string { return plusMinus(l.latencies.Mean) }})
		}
	}
	return columns
}

// plusMinus formats half the width of a figure's interval, in percent of the figure.
func plusMinus(f matrix.Figure) string {
	share, known := f.HalfWidth()
	switch {
	case !known || !format.Finite(share):
		return ""
	case share < 0.0095:
		return fmt.Sprintf("±%.1f%%", 100*share)
	}
	return fmt.Sprintf("±%.0f%%", 100*share)
}

// FigureAt returns the figure in a field such as "Response.P99", or nil if it was not measured.
func FigureAt(in any, path string) *matrix.Figure {
	v := reflect.ValueOf(in).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v = v.FieldByName(name); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil
			}
			v = v.Elem()
		}
	}
	return v.Addr().Interface().(*matrix.Figure)
}

// answeredCount returns the number of answered requests, for a load that may lose none.
func answeredCount(c *matrix.Cell) string {
	if c.Load.Model != "sustained" && c.Load.Burst == 0 || c.Survival.Requests == 0 {
		return format.Absent
	}
	return units.Thousands(c.Survival.Succeeded) + " of " + units.Thousands(c.Survival.Requests)
}

func valueOfCell(show func(*matrix.Cell) string) func(line) string {
	return func(l line) string {
		if l.label != "" {
			return ""
		}
		return show(l.cell)
	}
}

func valueOfField(path string, show func(float64) string) func(line) string {
	return valueOfFigure(func(c *matrix.Cell) *matrix.Figure { return FigureAt(c, path) }, show)
}

func valueOfFigure(of func(*matrix.Cell) *matrix.Figure, show func(float64) string) func(line) string {
	return valueOfCell(func(c *matrix.Cell) string {
		if f := of(c); f != nil && c.HasFigures() {
			return show(f.Value)
		}
		return format.Absent
	})
}

func validityText(l line) string {
	if l.label != "" {
		return ""
	}
	text := fmt.Sprintf("%d/%d", l.cell.Valid, l.cell.Trials)
	switch {
	case l.cell.IsValid() && l.cell.RefusesTimes(): // in blocks
		text += " ratios only"
	case l.cell.IsValid():
	case l.cell.Capacity != nil:
		text = "beyond capacity"
	default:
		text = "REFUSED"
	}
	return strings.TrimSpace(text + " " + l.marks)
}

// AllColumns selects every column.
const AllColumns = "all"

// ColumnNames lists the columns that users can select.
func ColumnNames() []string {
	names := append([]string{stackTitle}, lists.Map(cellKeys(), func(k key) string { return k.title })...)
	for _, c := range figureColumns() {
		if c.of == "" {
			names = append(names, c.title)
		}
	}
	return names
}

// FindColumns finds columns by name, ignoring case.
func FindColumns(names []string) ([]string, error) {
	var found []string
	known := append(ColumnNames(), AllColumns)
	for _, name := range names {
		i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, strings.TrimSpace(name)) })
		if i < 0 {
			return nil, fmt.Errorf("unknown column %q: want one of %s", name, strings.Join(known, ", "))
		}
		found = lists.AppendNew(found, known[i])
	}
	return found, nil
}

// chosenColumns returns the columns that distinguish cells, the wanted columns, and the validity.
func chosenColumns(varying []key, figures []column, names []string) []column {
	isVarying := func(k key) bool { return slices.ContainsFunc(varying, func(v key) bool { return v.title == k.title }) }
	if slices.Contains(names, AllColumns) {
		usual := slices.DeleteFunc(cellKeys(), func(k key) bool { return k.rarelyUsed && !isVarying(k) })
		return append(keyColumns(usual), figures...)
	}
	shown := slices.DeleteFunc(cellKeys(), func(k key) bool { return !slices.Contains(names, k.title) && !isVarying(k) })
	all := keyColumns(shown)
	if !slices.Contains(names, validTitle) {
		names = append(slices.Clone(names), validTitle)
	}
	for _, name := range names {
		for _, c := range figureColumns() {
			switch {
			case c.title == name:
				all = append(all, c)
			case c.of == name && slices.ContainsFunc(figures, func(f column) bool { return f.title == c.title && f.of == c.of }):
				all = append(all, c)
			}
		}
	}
	return all
}

// A line is a row of the table. A cell's extra lines, for service and wait times, have a label.
type line struct {
	cell      *matrix.Cell
	latencies *matrix.Latencies
	label     string
	marks     string
	best      string // title of the column whose best value in the group this is; may be empty
}

func keyColumns(keys []key) []column {
	all := []column{{title: stackTitle, leftAligned: true, priority: alwaysShown, value: func(l line) string {
		if l.label != "" {
			return l.label
		}
		return l.cell.ShortVariant()
	}}}
	for _, k := range keys {
		all = append(all, k.column())
	}
	return all
}

// A key is a property that identifies cells. If cells of a part differ in the key, it has a column.
// If not, a heading shows it.
type key struct {
	title       string
	leftAligned bool
	legend      string
	text        func(*matrix.Cell) string
	heading     func(*matrix.Cell) string // text in a heading; may be empty
	rarelyUsed  bool                      // show the key only if cells differ in it
}

func cellKeys() []key {
	workload := func(c *matrix.Cell) string { return c.Workload }
	return []key{
		{title: "workload", leftAligned: true, text: workload, heading: workload},
		{title: "size", text: func(c *matrix.Cell) string { return c.Payload.Text(format.ByteSize, "→") }, heading: describeSizes},
		{title: "c", legend: "c: clients", text: ClientCount, heading: DescribeClients},
		{title: "load", leftAligned: true, text: DescribeLoad, heading: loadHeading},
		{title: "link", leftAligned: true, text: linkText, heading: describeLink},
		{title: "agents", legend: "agents: fleet machines that run clients", text: func(c *matrix.Cell) string { return formatCount(c.Agents) }, heading: describeAgents, rarelyUsed: true},
		{title: "conn", leftAligned: true, text: func(c *matrix.Cell) string { return c.Connection }, heading: describeConnectionMode},
	}
}

func (k key) column() column {
	return column{title: k.title, leftAligned: k.leftAligned, priority: alwaysShown, legend: k.legend, value: valueOfCell(k.text)}
}

// splitKeys separates keys with the same value in all cells from keys whose value varies.
func splitKeys(cells []*matrix.Cell) (constant, varying []key) {
	for _, k := range cellKeys() {
		if varies(cells, k.compare()) {
			varying = append(varying, k)
		} else {
			constant = append(constant, k)
		}
	}
	return constant, varying
}

func headingText(keys []key, c *matrix.Cell) string {
	texts := lists.Map(keys, func(k key) string { return k.heading(c) })
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}

// compare returns the function whose text shows whether two cells differ in the key. Stacks keep
// connections in different ways, so only modes with a connection per request count as a difference.
func (k key) compare() func(*matrix.Cell) string {
	if k.title == "conn" {
		return k.heading
	}
	return k.text
}

// groupNeighbours splits the items wherever two neighbours are not the same.
func groupNeighbours[T any](items []T, same func(a, b T) bool) (all [][]T) {
	first := 0
	for i := range items {
		if i+1 == len(items) || !same(items[i], items[i+1]) {
			all = append(all, items[first:i+1])
			first = i + 1
		}
	}
	return all
}

func varies(cells []*matrix.Cell, of func(*matrix.Cell) string) bool {
	return slices.ContainsFunc(cells, func(c *matrix.Cell) bool { return of(c) != of(cells[0]) })
}

func formatOptional(value *float64, show func(float64) string) string {
	if value == nil {
		return format.Absent
	}
	return show(*value)
}
