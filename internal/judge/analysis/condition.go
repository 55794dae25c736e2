package analysis

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Condition is a condition of --fail-if. It fails a cell by its figure (p99>20ms, errors>0.1%,
// rps<1000), or by the change of a figure since an earlier run (p99>+10%).
type Condition struct {
	Text  string
	Above bool    // true: the cell fails above the limit; false: it fails below the limit
	Limit float64 // in Unit; for a change the ratio of later to earlier, 1.1 for +10%
	Unit  Unit
	of    *gateFigure
}

// ParseCondition reads a condition. A percentage means a change if it has a sign, or if the figure
// is neither a share nor a number of requests.
func ParseCondition(text string) (Condition, error) {
	written, err := scenario.ParseLimit(text)
	if err == nil && written.Sign == "=" {
		err = fmt.Errorf("the condition %q has no > or <: write FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms", text)
	}
	if err != nil {
		return Condition{}, err
	}
	of := findGateFigure(written.Figure)
	if of == nil {
		names := lists.Map(gateFigures, func(l gateFigure) string { return l.names[0] })
		return Condition{}, fmt.Errorf("unknown figure %q in the condition %q: use one of %s", written.Figure, text, strings.Join(names, ", "))
	}
	c := Condition{Text: written.Text, Above: written.Sign == ">", Unit: of.unit, of: of}
	percent, isPercent := written.Percent()
	if isPercent && (strings.ContainsAny(written.Value[:1], "+-") || of.unit != Share && of.unit != Requests) {
		return c.asChange(percent)
	}
	known := true
	switch {
	case c.Unit == Microseconds:
		limit, isTime := written.Time()
		c.Limit, known = float64(limit)/1e3, isTime
	case isPercent:
		c.Limit, c.Unit = percent, Share
	case c.Unit == Share:
		known = false
	default:
		c.Limit, known = written.Number()
	}
	if !known || !(c.Limit >= 0) || math.IsInf(c.Limit, 0) {
		return Condition{}, fmt.Errorf("unknown limit %q in the condition %q: %s", written.Value, text, of.describeLimit(written.Figure+written.Sign))
	}
	return c, nil
}

func (c Condition) asChange(by float64) (Condition, error) {
	switch c.Limit, c.Unit = 1+by, Relative; {
	case c.of.metric() == "":
		return Condition{}, fmt.Errorf("the condition %[2]q needs an earlier run, but runs are not compared by %[1]q: use one of %[3]s", c.of.names[0], c.Text, strings.Join(DiffMetrics, ", "))
	case !(c.Limit > 0) || math.IsInf(c.Limit, 0):
		return Condition{}, fmt.Errorf("impossible change in the condition %q: write a finite change above -100%%", c.Text)
	}
	return c, nil
}

// IsChange reports whether the condition is about a change since an earlier run.
func (c Condition) IsChange() bool { return c.Unit == Relative }

// CheckLoad returns an error if a load does not have the figure, or cannot show its change.
func (c Condition) CheckLoad(model string) error {
	switch {
	case c.IsChange() && !matrix.IsMeaningful(model, c.of.metric()):
		return fmt.Errorf("condition %q: the %s of this load cannot be compared, because the load sends at a given rate or searches for one; use another figure", c.Text, c.of.metric())
	case !c.IsChange() && c.of.model != "" && c.of.model != model:
		return fmt.Errorf("condition %q: only a load with --%s has the figure %s", c.Text, map[string]string{"search": "goal", "burst": "burst"}[c.of.model], c.of.names[0])
	}
	return nil
}

// isBeyond reports whether a value violates the limit. A value equal to the limit does not.
func (c Condition) isBeyond(value float64) bool {
	if c.Above {
		return value > c.Limit
	}
	return value < c.Limit
}

// A Unit is the unit of a condition's limit and figure.
type Unit string

// The units.
const (
	Microseconds Unit = "us"
	PerSecond    Unit = "rps"
	Requests     Unit = "requests"
	Share        Unit = "share"
	Ratio        Unit = "ratio"  // a figure divided by another one, such as P99/P50
	Relative     Unit = "change" // a figure divided by the same figure of an earlier run
)

// A gateFigure is a figure that can have a limit.
type gateFigure struct {
	names []string // possible names in lower case; messages use the first name
	unit  Unit
	of    func(*matrix.Cell) *matrix.Figure // nil if it was not measured
	model string                            // the only load model with this figure; empty means every model

	ofFailures bool // the figure counts what failed: it is exact, and also known in invalid windows
	// outOf returns what a share of a count is of; nil: the requests.
	outOf func(*matrix.Cell) int64
}

// gateFigures lists the figures that have columns in the table.
var gateFigures = slices.Concat(gateLatencies(), []gateFigure{
	{names: []string{"rps", "req/s", "throughput"}, unit: PerSecond, of: func(c *matrix.Cell) *matrix.Figure { return &c.Throughput }},
	{names: []string{"errors", "err"}, unit: Requests, ofFailures: true, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: float64(c.Errors)} }},
	{names: []string{"ok", "answered"}, unit: Share, ofFailures: true, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: 1 - errorShare(c)} }},
	{names: []string{"lost"}, unit: Requests, ofFailures: true, of: lostMessages, outOf: func(c *matrix.Cell) int64 { return c.Streams.Received + c.Streams.Sequence.Missing }},
	{names: []string{"reopened"}, unit: Requests, ofFailures: true, of: reopenedStreams, outOf: func(c *matrix.Cell) int64 { return c.Streams.Held }},
	{names: []string{"cpu"}, unit: Microseconds, of: cpuOfBothEnds},
	{names: []string{"client"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ClientCPU }},
	{names: []string{"server", "service"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ServerCPU }},
	{names: []string{"handshake"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure {
		return &cmp.Or(c.Connections.Handshake, &matrix.Times{P50: unknownFigure}).P50
	}},
	{names: []string{"p99/p50"}, unit: Ratio, of: func(c *matrix.Cell) *matrix.Figure { return &c.P99OverP50 }},
	{names: []string{"kept"}, unit: PerSecond, model: "search", of: func(c *matrix.Cell) *matrix.Figure {
		return &cmp.Or(c.Search, &matrix.Search{Kept: unknownFigure}).Kept
	}},
	{names: []string{"missed"}, unit: PerSecond, model: "search", of: func(c *matrix.Cell) *matrix.Figure {
		return &cmp.Or(c.Search, &matrix.Search{Missed: unknownFigure}).Missed
	}},
	{names: []string{"drain"}, unit: Microseconds, model: "burst", of: func(c *matrix.Cell) *matrix.Figure { return c.Drain }},
})

// lostMessages returns the messages that never came on held streams. It is nil if they have no numbers.
func lostMessages(c *matrix.Cell) *matrix.Figure {
	if c.Streams == nil || c.Streams.Sequence == nil {
		return nil
	}
	return &matrix.Figure{Value: float64(c.Streams.Sequence.Missing)}
}

func reopenedStreams(c *matrix.Cell) *matrix.Figure {
	if c.Streams == nil {
		return nil
	}
	return &matrix.Figure{Value: float64(c.Streams.Reopened)}
}

// unknownFigure stands for a figure that was not measured.
var unknownFigure = matrix.Figure{Value: math.NaN()}

// gateLatencies returns a figure per response time. The tags of the fields give the names.
func gateLatencies() []gateFigure {
	var all []gateFigure
	for field := range reflect.TypeFor[matrix.Latencies]().Fields() {
		title, _, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		names := slices.Compact([]string{strings.ToLower(title), field.Tag.Get("json")})
		all = append(all, gateFigure{names: names, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure {
			return reflect.ValueOf(c.ResponseTimes()).Elem().FieldByIndex(field.Index).Addr().Interface().(*matrix.Figure)
		}})
	}
	return all
}

// cpuOfBothEnds returns the CPU time of both ends. The sum of two intervals is wide enough for the
// sum of the figures, however they depend on each other.
func cpuOfBothEnds(c *matrix.Cell) *matrix.Figure {
	both := c.BothCPU()
	if both == nil || c.ClientCPU.Interval == nil || c.ServerCPU.Interval == nil {
		return both
	}
	client, server := c.ClientCPU.Interval, c.ServerCPU.Interval
	both.Interval = &matrix.Interval{Low: client.Low + server.Low, High: client.High + server.High, Confidence: client.Confidence}
	return both
}

func errorShare(c *matrix.Cell) float64 { return float64(c.Errors) / float64(max(1, c.Requests)) }

func findGateFigure(name string) *gateFigure {
	i := slices.IndexFunc(gateFigures, func(l gateFigure) bool { return slices.Contains(l.names, strings.ToLower(name)) })
	if i < 0 {
		return nil
	}
	return &gateFigures[i]
}

func (l *gateFigure) outOfIn(c *matrix.Cell) int64 {
	if l.outOf == nil {
		return c.Requests
	}
	return l.outOf(c)
}

// metric returns the figure's name in comparisons of runs, or "" if runs are not compared by it.
func (l *gateFigure) metric() string {
	i := slices.IndexFunc(DiffMetrics, func(name string) bool { return slices.Contains(l.names, name) })
	if i < 0 {
		return ""
	}
	return DiffMetrics[i]
}

// describeLimit shows how to write a limit. figure is the figure's name followed by > or <.
func (l *gateFigure) describeLimit(figure string) string {
	wanted := map[Unit]string{
		Microseconds: "a time with a unit, as in %s20ms",
		PerSecond:    "requests per second, as in %s1000",
		Requests:     "a number of requests or a share of them, as in %[1]s10 or %[1]s0.1%%",
		Share:        "a share, as in %s99.9%%",
		Ratio:        "a number, as in %s10",
	}
	return fmt.Sprintf("write "+wanted[l.unit], figure)
}

func (l *gateFigure) reasonUnknown() string {
	if l.names[0] == "lost" {
		return "messages have no numbers: name them with --sequence"
	}
	if strings.HasPrefix(l.names[0], "p") && l.unit == Microseconds {
		return "fewer than ten requests are slower than this percentile: measure longer"
	}
	return "this cell has no measurement of the figure"
}
