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

// A column is a figure of every line. Without enough room, columns of low priority are left out.
type column struct {
	title    string
	of       string // title of the column that this one follows and is shown with
	left     bool
	priority int
	usual    func(*matrix.Cell) bool // reports for a cell whether the column is shown by default; nil: always
	legend   string
	value    func(line) string
	width    int
}

// stays is the priority of a column that is never left out.
const stays = 9

// Titles of columns that others refer to.
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
		{title: keptTitle, priority: stays, usual: hasSearch, legend: "kept: highest rate that kept the goal", value: ofFigure("Search.Kept", format.PerSecond)},
		bestOf(keptTitle),
		{title: "missed", legend: "missed: lowest higher rate that missed it", value: ofFigure("Search.Missed", format.PerSecond)},
		{title: "req/s", priority: 5, usual: func(c *matrix.Cell) bool { return !hasSearch(c) }, value: ofFigure("Throughput", format.PerSecond)},
	}
	all = append(all, latencyColumns()...)
	return append(all, []column{
		{title: "P99/P50", value: ofFigure("P99OverP50", format.Plain)},
		{title: "drain", priority: 6, usual: func(c *matrix.Cell) bool { return c.Drain != nil }, legend: "drain: until a burst's last answer", value: ofFigure("Drain", format.Micros)},
		{title: "answered", value: ofCell(answered)},
		{title: "ok", priority: 7, usual: losesConnections, legend: "ok: requests answered", value: ofCell(func(c *matrix.Cell) string { return optional(c.Survival.Share, format.Percent) })},
		{title: "handshake", legend: "handshake: P50", value: ofFigure("Connections.Handshake.P50", format.Micros)},
		{title: "err", priority: 7, usual: hasErrors, value: ofCell(func(c *matrix.Cell) string { return units.Thousands(c.Errors) })},
		{title: cpuTitle, priority: 2, legend: "CPU: per request, both ends", value: ofCellFigure((*matrix.Cell).BothCPU, format.Micros)},
		{title: clientTitle, priority: 2, legend: "client, server: CPU per request", value: ofFigure("ClientCPU", format.Micros)},
		{title: serverTitle, priority: 2, value: ofFigure("ServerCPU", format.Micros)},
		{title: validTitle, left: true, priority: stays, value: validity},
	}...)
}

// Values returns the figures of a cell in the columns with the given titles.
func Values(c *matrix.Cell, titles ...string) []string {
	all := figureColumns()
	return lists.Map(titles, func(title string) string {
		i := slices.IndexFunc(all, func(f column) bool { return f.title == title })
		return all[i].value(line{cell: c, latencies: c.ResponseTimes()})
	})
}

func losesConnections(c *matrix.Cell) bool {
	return c.Connections.PerRequest && c.Survival.Share != nil && *c.Survival.Share < 1
}

func hasErrors(c *matrix.Cell) bool { return c.Errors > 0 && !c.Connections.PerRequest }

// bestOf marks the fastest cell of each group, behind the figure that decides.
func bestOf(title string) column {
	return column{of: title, priority: stays, legend: "*: proven fastest of its group", value: func(l line) string {
		if l.best == title {
			return "*"
		}
		return ""
	}}
}

// latencyColumns returns the columns of latencies with a tag `column`.
func latencyColumns() []column {
	var columns []column
	for field := range reflect.TypeFor[matrix.Latencies]().Fields() {
		title, text, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		priority, _ := strconv.Atoi(text) // none: only on request
		columns = append(columns, column{title: title, priority: priority, value: func(l line) string {
			if !l.cell.HasFigures() {
				return format.Absent
			}
			return format.Micros(FigureAt(l.latencies, field.Name).Value)
		}})
		if title == meanTitle {
			columns = append(columns, bestOf(meanTitle),
				column{title: "±", of: meanTitle, priority: 3, legend: "±: 95 % interval", value: func(l line) string { return plusMinus(l.latencies.Mean) }})
		}
	}
	return columns
}

// plusMinus formats half of a figure's interval.
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

// answered returns the answered share if every request must be answered.
func answered(c *matrix.Cell) string {
	if c.Load.Model != "sustained" && c.Load.Burst == 0 || c.Survival.Requests == 0 {
		return format.Absent
	}
	return units.Thousands(c.Survival.Succeeded) + " of " + units.Thousands(c.Survival.Requests)
}

func ofCell(show func(*matrix.Cell) string) func(line) string {
	return func(l line) string {
		if l.label != "" {
			return ""
		}
		return show(l.cell)
	}
}

func ofFigure(path string, show func(float64) string) func(line) string {
	return ofCellFigure(func(c *matrix.Cell) *matrix.Figure { return FigureAt(c, path) }, show)
}

func ofCellFigure(of func(*matrix.Cell) *matrix.Figure, show func(float64) string) func(line) string {
	return ofCell(func(c *matrix.Cell) string {
		if f := of(c); f != nil && c.HasFigures() {
			return show(f.Value)
		}
		return format.Absent
	})
}

func validity(l line) string {
	if l.label != "" {
		return ""
	}
	text := fmt.Sprintf("%d/%d", l.cell.Valid, l.cell.Trials)
	switch {
	case l.cell.IsValid():
	case l.cell.Capacity != nil:
		text = "beyond capacity"
	default:
		text = "INVALID"
	}
	return strings.TrimSpace(text + " " + l.marks)
}

// AllColumns selects every column.
const AllColumns = "all"

// ColumnNames lists the columns that users can select.
func ColumnNames() []string {
	names := append([]string{stackTitle}, lists.Map(keys(), func(k key) string { return k.title })...)
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

// asked returns the columns that distinguish cells, the wanted columns, and the validity.
func asked(varying []key, figures []column, names []string) []column {
	isVarying := func(k key) bool { return slices.ContainsFunc(varying, func(v key) bool { return v.title == k.title }) }
	if slices.Contains(names, AllColumns) {
		usual := slices.DeleteFunc(keys(), func(k key) bool { return k.seldom && !isVarying(k) })
		return append(keyColumns(usual), figures...)
	}
	shown := slices.DeleteFunc(keys(), func(k key) bool { return !slices.Contains(names, k.title) && !isVarying(k) })
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

// A line is a row of the table. A cell has a line, with a label, for each kind of times.
type line struct {
	cell      *matrix.Cell
	latencies *matrix.Latencies
	label     string
	marks     string
	best      string // title of the column in which the cell is its group's fastest; mostly empty
}

func keyColumns(keys []key) []column {
	all := []column{{title: stackTitle, left: true, priority: stays, value: func(l line) string {
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

// A key is a property of cells: a column if cells of a part differ in it, else in a heading.
type key struct {
	title  string
	left   bool
	legend string
	text   func(*matrix.Cell) string
	said   func(*matrix.Cell) string // text in a heading; may be empty
	seldom bool                      // most runs do not use it: only a column, if cells differ
}

func keys() []key {
	workload := func(c *matrix.Cell) string { return c.Workload }
	return []key{
		{title: "workload", left: true, text: workload, said: workload},
		{title: "size", text: func(c *matrix.Cell) string { return c.Payload.Text(format.ByteSize, "→") }, said: saySizes},
		{title: "c", legend: "c: clients", text: ClientCount, said: DescribeClients},
		{title: "load", left: true, text: DescribeLoad, said: sayLoad},
		{title: "link", left: true, text: link, said: sayLink},
		{title: "agents", legend: "agents: agents of a fleet with the clients", text: func(c *matrix.Cell) string { return countOr(c.Agents) }, said: sayAgents, seldom: true},
		{title: "conn", left: true, text: func(c *matrix.Cell) string { return c.Connection }, said: sayMode},
	}
}

func (k key) column() column {
	return column{title: k.title, left: k.left, priority: stays, legend: k.legend, value: ofCell(k.text)}
}

// placeKeys separates the keys that all cells share from the others.
func placeKeys(cells []*matrix.Cell) (constant, varying []key) {
	for _, k := range keys() {
		if varies(cells, k.compare()) {
			varying = append(varying, k)
		} else {
			constant = append(constant, k)
		}
	}
	return constant, varying
}

func say(keys []key, c *matrix.Cell) string {
	texts := lists.Map(keys, func(k key) string { return k.said(c) })
	return strings.Join(slices.DeleteFunc(texts, func(text string) bool { return text == "" }), ", ")
}

// compare returns the text that cells are compared by. Each stack keeps connections in its own
// way, which a verbose legend lists. So only ways without kept connections make a difference here.
func (k key) compare() func(*matrix.Cell) string {
	if k.title == "conn" {
		return k.said
	}
	return k.text
}

// runs divides the items wherever two neighbours differ.
func runs[T any](items []T, same func(a, b T) bool) (all [][]T) {
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

func optional(value *float64, show func(float64) string) string {
	if value == nil {
		return format.Absent
	}
	return show(*value)
}
