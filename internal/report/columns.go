package report

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"wirelab.dev/internal/analysis"
	"wirelab.dev/internal/units"
)

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
		{title: "kept", value: searched(func(s *analysis.Search) string { return perSecond(s.Kept.Value) })},
		{title: "missed", value: searched(func(s *analysis.Search) string { return perSecond(s.Missed.Value) })},
		{title: "req/s", value: measured(func(c *analysis.Cell) string { return perSecond(c.Throughput.Value) })},
	}
	all = append(all, latencyColumns()...)
	all = append(all, []column{
		{title: "P99/P50", patience: 7, value: measured(func(c *analysis.Cell) string { return plain(c.P99OverP50.Value) })},
		{title: "drain", value: ofCell(func(c *analysis.Cell) string { return maybeMicros(c.Drain) })},
		{title: "answered", value: ofCell(answered)},
		{title: "conn", left: true, value: ofCell(func(c *analysis.Cell) string { return c.Connection })},
		{title: "ok", value: ofCell(survived)},
		{title: "hs P50", patience: 8, value: measured(func(c *analysis.Cell) string { return handshake(c) })},
		{title: "err", value: ofCell(func(c *analysis.Cell) string { return units.Thousands(c.Errors) })},
		{title: "client", patience: 4, value: measured(func(c *analysis.Cell) string { return maybeMicros(c.ClientCPU) })},
		{title: "server", patience: 4, value: measured(func(c *analysis.Cell) string { return maybeMicros(c.ServerCPU) })},
		{title: "valid", left: true, value: validity},
	}...)
	return slices.DeleteFunc(all, func(c column) bool { return !says(c.title, cells) })
}

// latencyColumns are the figures of latencies with a tag `column`: the title, and
// the patience where it has one.
func latencyColumns() []column {
	var columns []column
	for field := range reflect.TypeFor[analysis.Latencies]().Fields() {
		title, patience, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		c := column{title: title, value: timed(func(l *analysis.Latencies) analysis.Figure {
			return reflect.ValueOf(l).Elem().FieldByIndex(field.Index).Interface().(analysis.Figure)
		})}
		c.patience, _ = strconv.Atoi(patience) // none: never left out
		columns = append(columns, c)
	}
	return columns
}

// says tells whether a column says something of some of the cells.
func says(title string, cells []*analysis.Cell) bool {
	perRequest := slices.ContainsFunc(cells, func(c *analysis.Cell) bool { return c.Connections.PerRequest })
	some := func(has func(*analysis.Cell) bool) bool { return slices.ContainsFunc(cells, has) }
	switch title {
	case "workload":
		return varies(cells, func(c *analysis.Cell) string { return c.Workload })
	case "load":
		return varies(cells, load)
	case "kept", "missed":
		return some(func(c *analysis.Cell) bool { return c.Search != nil })
	case "drain":
		return some(func(c *analysis.Cell) bool { return c.Drain != nil })
	case "answered":
		return some(losesNone)
	case "conn":
		return some(hidesItsMode)
	case "ok":
		return perRequest
	case "err":
		return !perRequest
	case "hs P50":
		return perRequest && some(func(c *analysis.Cell) bool { return c.Connections.Handshake != nil })
	}
	return true
}

// losesNone tells whether the load is one of which no request may be lost.
func losesNone(c *analysis.Cell) bool { return c.Load.Model == "sustained" || c.Load.Burst > 0 }

func answered(c *analysis.Cell) string {
	if !losesNone(c) || c.Survival.Requests == 0 {
		return absent
	}
	return units.Thousands(c.Survival.Succeeded) + " of " + units.Thousands(c.Survival.Requests)
}

func searched(show func(*analysis.Search) string) func(line) string {
	return measured(func(c *analysis.Cell) string {
		if c.Search == nil {
			return absent
		}
		return show(c.Search)
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
	if c.Survival.Share == nil {
		return absent
	}
	return percent(*c.Survival.Share)
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
