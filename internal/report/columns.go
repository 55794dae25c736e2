package report

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/units"
)

// column is one value of every line. Where the terminal is too narrow, those with a
// priority are left out, the lowest first.
type column struct {
	title    string
	left     bool
	priority int // 0: never left out
	value    func(line) string
	hidden   bool // has nothing to show of any cell
	width    int
}

// columns are those that have something to show of some of the cells.
func columns(cells []*analysis.Cell) []column {
	some := func(has func(*analysis.Cell) bool) bool { return slices.ContainsFunc(cells, has) }
	workload := func(c *analysis.Cell) string { return c.Workload }
	perRequest := some(func(c *analysis.Cell) bool { return c.Connections.PerRequest })
	noSearch := !some(func(c *analysis.Cell) bool { return c.Search != nil })
	all := []column{
		{title: "stack", left: true, value: func(l line) string { return cmp.Or(l.label, l.cell.Variant) }},
		{title: "workload", left: true, value: ofCell(workload), hidden: !varies(cells, workload)},
		{title: "size", value: ofCell(func(c *analysis.Cell) string { return sizes(c.RequestBytes, c.ResponseBytes) })},
		{title: "c", value: ofCell(func(c *analysis.Cell) string { return strconv.Itoa(c.Clients) })},
		{title: "load", left: true, value: ofCell(load), hidden: !varies(cells, load)},
		{title: "kept", value: ofFigure("Search.Kept", perSecond), hidden: noSearch},
		{title: "missed", value: ofFigure("Search.Missed", perSecond), hidden: noSearch},
		{title: "req/s", value: ofFigure("Throughput", perSecond)},
	}
	all = append(all, latencyColumns()...)
	all = append(all, []column{
		{title: "P99/P50", priority: 7, value: ofFigure("P99OverP50", plain)},
		{title: "drain", value: ofFigure("Drain", micros), hidden: !some(func(c *analysis.Cell) bool { return c.Drain != nil })},
		{title: "answered", value: ofCell(answered), hidden: !some(mustAnswerAll)},
		{title: "conn", left: true, value: ofCell(func(c *analysis.Cell) string { return c.Connection }), hidden: !some(modeNotInVariant)},
		{title: "ok", value: ofCell(answeredShare), hidden: !perRequest},
		{
			title: "hs P50", priority: 8, value: ofFigure("Connections.Handshake.P50", micros),
			hidden: !perRequest || !some(func(c *analysis.Cell) bool { return c.Connections.Handshake != nil }),
		},
		{title: "err", value: ofCell(func(c *analysis.Cell) string { return units.Thousands(c.Errors) }), hidden: perRequest},
		{title: "client", priority: 4, value: ofFigure("ClientCPU", micros)},
		{title: "server", priority: 4, value: ofFigure("ServerCPU", micros)},
		{title: "valid", left: true, value: validity},
	}...)
	return slices.DeleteFunc(all, func(c column) bool { return c.hidden })
}

// latencyColumns are the figures of latencies with a tag `column`: the title, and
// the priority where it has one.
func latencyColumns() []column {
	var columns []column
	for field := range reflect.TypeFor[analysis.Latencies]().Fields() {
		title, text, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		priority, _ := strconv.Atoi(text) // none: never left out
		columns = append(columns, column{title: title, priority: priority, value: func(l line) string {
			if !l.cell.HasFigures() {
				return absent
			}
			return micros(figureAt(l.latencies, field.Name).Value)
		}})
	}
	return columns
}

// figureAt is the figure in a field, as in "Response.P99"; nil where it, or what it is
// a part of, was not measured.
func figureAt(in any, path string) *analysis.Figure {
	v := reflect.ValueOf(in).Elem()
	for name := range strings.SplitSeq(path, ".") {
		if v = v.FieldByName(name); v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return nil
			}
			v = v.Elem()
		}
	}
	return v.Addr().Interface().(*analysis.Figure)
}

// mustAnswerAll reports whether every request of the load must be answered.
func mustAnswerAll(c *analysis.Cell) bool { return c.Load.Model == "sustained" || c.Load.Burst > 0 }

func answered(c *analysis.Cell) string {
	if !mustAnswerAll(c) || c.Survival.Requests == 0 {
		return absent
	}
	return units.Thousands(c.Survival.Succeeded) + " of " + units.Thousands(c.Survival.Requests)
}

func ofCell(show func(*analysis.Cell) string) func(line) string {
	return func(l line) string {
		if l.label != "" {
			return ""
		}
		return show(l.cell)
	}
}

func ofFigure(path string, show func(float64) string) func(line) string {
	return ofCell(func(c *analysis.Cell) string {
		if f := figureAt(c, path); f != nil && c.HasFigures() {
			return show(f.Value)
		}
		return absent
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
		text = "beyond capacity, about " + perSecond(l.cell.Capacity.Value) + "/s"
	default:
		text = "INVALID"
	}
	return strings.TrimSpace(text + " " + l.marks)
}

// sizes shows the size of the messages, and both where they differ.
func sizes(request, response int) string {
	if request == response {
		return byteSize(request)
	}
	return byteSize(request) + "→" + byteSize(response)
}

// modeNotInVariant reports whether a cell opens a connection for each request and its
// variant does not name that mode.
func modeNotInVariant(c *analysis.Cell) bool {
	return c.Connections.PerRequest && !strings.Contains(c.Variant, "conn=")
}

// answeredShare is the share of requests that were answered. Cells that are not valid
// have it too.
func answeredShare(c *analysis.Cell) string {
	if c.Survival.Share == nil {
		return absent
	}
	return percent(*c.Survival.Share)
}

// load says in short how the cell was loaded. A limit is in the variant's name.
func load(c *analysis.Cell) string {
	switch l := c.Load; {
	case l.Burst > 0:
		return "burst of " + units.Thousands(int64(l.Burst))
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
