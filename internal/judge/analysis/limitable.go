package analysis

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Unit is the unit of a condition's limit and figure.
type Unit string

// The units.
const (
	Microseconds Unit = "us"
	PerSecond    Unit = "rps"
	Requests     Unit = "requests"
	Share        Unit = "share"
	Ratio        Unit = "ratio"  // of one figure over another
	Relative     Unit = "change" // of a figure: that after over that before
)

// A limitable is a figure that can have a limit.
type limitable struct {
	names []string // in small letters; the first is the one in messages
	unit  Unit
	of    func(*matrix.Cell) *matrix.Figure // nil where it was not measured
	model string                            // of the only load that has it; empty: all have
}

// limitables lists the figures that the table has columns for.
var limitables = slices.Concat(limitableLatencies(), []limitable{
	{names: []string{"rps", "req/s", "throughput"}, unit: PerSecond, of: func(c *matrix.Cell) *matrix.Figure { return &c.Throughput }},
	{names: []string{"errors", "err"}, unit: Requests, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: float64(c.Errors)} }},
	{names: []string{"ok", "answered"}, unit: Share, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: 1 - errorShare(c)} }},
	{names: []string{"cpu"}, unit: Microseconds, of: (*matrix.Cell).BothCPU},
	{names: []string{"client"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ClientCPU }},
	{names: []string{"server", "service"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ServerCPU }},
	{names: []string{"handshake"}, unit: Microseconds, of: handshakeP50},
	{names: []string{"p99/p50"}, unit: Ratio, of: func(c *matrix.Cell) *matrix.Figure { return &c.P99OverP50 }},
	{names: []string{"kept"}, unit: PerSecond, model: "search", of: searched(func(s *matrix.Search) *matrix.Figure { return &s.Kept })},
	{names: []string{"missed"}, unit: PerSecond, model: "search", of: searched(func(s *matrix.Search) *matrix.Figure { return &s.Missed })},
	{names: []string{"drain"}, unit: Microseconds, model: "burst", of: func(c *matrix.Cell) *matrix.Figure { return c.Drain }},
})

// limitableLatencies returns the response times, by the tags of their fields.
func limitableLatencies() []limitable {
	var all []limitable
	for field := range reflect.TypeFor[matrix.Latencies]().Fields() {
		title, _, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		names := slices.Compact([]string{strings.ToLower(title), field.Tag.Get("json")})
		all = append(all, limitable{names: names, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure {
			return reflect.ValueOf(c.ResponseTimes()).Elem().FieldByIndex(field.Index).Addr().Interface().(*matrix.Figure)
		}})
	}
	return all
}

func handshakeP50(c *matrix.Cell) *matrix.Figure {
	if c.Connections.Handshake == nil {
		return nil
	}
	return &c.Connections.Handshake.P50
}

func searched(of func(*matrix.Search) *matrix.Figure) func(*matrix.Cell) *matrix.Figure {
	return func(c *matrix.Cell) *matrix.Figure {
		if c.Search == nil {
			return nil
		}
		return of(c.Search)
	}
}

func errorShare(c *matrix.Cell) float64 { return float64(c.Errors) / float64(max(1, c.Requests)) }

func findLimitable(name string) *limitable {
	for i, l := range limitables {
		if slices.Contains(l.names, strings.ToLower(name)) {
			return &limitables[i]
		}
	}
	return nil
}

// metric returns the name under which runs are compared by the figure, or nothing.
func (l *limitable) metric() string {
	for _, name := range l.names {
		if slices.Contains(DiffMetrics, name) {
			return name
		}
	}
	return ""
}

// wants says which limit a figure takes. The text before it is its name and sign.
func (l *limitable) wants(figure string) string {
	switch l.unit {
	case Microseconds:
		return fmt.Sprintf("want a time with its unit, as in %s20ms", figure)
	case PerSecond:
		return fmt.Sprintf("want requests per second, as in %s1000", figure)
	case Requests:
		return fmt.Sprintf("want a number of requests or a share of them, as in %s10 or %s0.1%%", figure, figure)
	case Share:
		return fmt.Sprintf("want a share, as in %s99.9%%", figure)
	default:
		return fmt.Sprintf("want a number, as in %s10", figure)
	}
}

func (l *limitable) whyUnknown() string {
	if strings.HasPrefix(l.names[0], "p") {
		return "fewer than ten requests lie beyond that percentile: measure longer"
	}
	return "it was not measured here"
}
