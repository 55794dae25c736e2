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
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A Condition is a condition of --fail-if: a figure that fails a cell (p99>20ms, errors>0.1%,
// rps<1000), or a change since an earlier run that fails it (p99>+10%).
type Condition struct {
	Text  string
	Above bool    // the figure fails above the limit; else below it
	Limit float64 // in Unit; for a change the ratio of after to before: 1.1 for +10%
	Unit  Unit
	of    *gateFigure
}

// ParseCondition reads a condition. A percentage is a change if signed, or if not of a share.
func ParseCondition(text string) (Condition, error) {
	written, err := scenario.ParseLimit(text)
	if err == nil && written.Sign == "=" {
		err = fmt.Errorf("%q is not a condition: want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms", text)
	}
	if err != nil {
		return Condition{}, err
	}
	of := findLimitable(written.Figure)
	if of == nil {
		names := lists.Map(gateFigures, func(l gateFigure) string { return l.names[0] })
		return Condition{}, fmt.Errorf("%q in %q is not a figure: want one of %s", written.Figure, text, strings.Join(names, ", "))
	}
	c := Condition{Text: written.Text, Above: written.Sign == ">", Unit: of.unit, of: of}
	percent, isPercent := written.Percent()
	if isPercent && (strings.ContainsAny(written.Value[:1], "+-") || of.unit != Share && of.unit != Requests) {
		return c.ofChange(percent)
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
		return Condition{}, fmt.Errorf("unknown limit %q in %q: %s", written.Value, text, of.wants(written.Figure+written.Sign))
	}
	return c, nil
}

// ofChange turns the condition into a condition on a change by a share.
func (c Condition) ofChange(by float64) (Condition, error) {
	switch c.Limit, c.Unit = 1+by, Relative; {
	case c.of.metric() == "":
		return Condition{}, fmt.Errorf("%q in %q cannot be compared with another run: want one of %s", c.of.names[0], c.Text, strings.Join(DiffMetrics, ", "))
	case !(c.Limit > 0) || math.IsInf(c.Limit, 0):
		return Condition{}, fmt.Errorf("impossible change in %q: a figure falls by less than 100%%", c.Text)
	}
	return c, nil
}

// IsChange reports whether the condition is about a change since an earlier run.
func (c Condition) IsChange() bool { return c.Unit == Relative }

// CheckLoad refuses a figure that a load does not have, and a change that a load cannot show.
func (c Condition) CheckLoad(model string) error {
	switch {
	case c.IsChange() && !matrix.IsMeaningful(model, c.of.metric()):
		return fmt.Errorf("%q: the %s of this load cannot be compared: the load sends at a given rate, or searches for one", c.Text, c.of.metric())
	case !c.IsChange() && c.of.model != "" && c.of.model != model:
		return fmt.Errorf("%q: only a load with --%s has %s", c.Text, map[string]string{"search": "goal", "burst": "burst"}[c.of.model], c.of.names[0])
	}
	return nil
}

// A GateOutcome is the result of a condition in a cell.
type GateOutcome string

// The outcomes. A change is breached only if proven: its whole interval lies beyond the limit, and
// the difference is real.
const (
	Kept     GateOutcome = "kept"
	Breached GateOutcome = "breached"
	Open     GateOutcome = "open" // the change lies beyond the limit, perhaps by chance
	// Unjudged is the outcome of a condition without a figure. It is never a pass.
	Unjudged GateOutcome = "unjudged"
)

// A GateFinding is the outcome of a condition in one cell, with the figure.
type GateFinding struct {
	Gate    string        `json:"gate"` // as it was written
	Cell    string        `json:"cell"`
	Clients int           `json:"-"`
	Outcome GateOutcome   `json:"outcome" jsonschema:"enum=kept,enum=breached,enum=open,enum=unjudged"`               // open: a change lies beyond the limit, perhaps by chance
	Unit    Unit          `json:"unit" jsonschema:"enum=us,enum=rps,enum=requests,enum=share,enum=ratio,enum=change"` // unit of limit and found
	Limit   float64       `json:"limit"`
	Found   matrix.Figure `json:"found"`         // null if unknown
	Windows int           `json:"windows"`       // valid windows of the figure
	Why     string        `json:"why,omitempty"` // reason if the outcome is unjudged
	Change  *Difference   `json:"-"`             // the judged change; nil for a figure
	within  bool          // the estimate of the change is within the limit
}

// JudgeConditions judges figures first, and then changes in the cells that both runs share.
func JudgeConditions(conditions []Condition, s *Summary, since *Diff) []GateFinding {
	var all []GateFinding
	for i := range s.Cells {
		for _, c := range conditions {
			if !c.IsChange() {
				all = append(all, c.Judge(&s.Cells[i]))
			}
		}
	}
	for _, c := range conditions {
		for i := range s.Cells {
			if since != nil && c.IsChange() && !slices.Contains(since.OnlyInAfter, s.Cells[i].Key) {
				all = append(all, c.judgeIn(&s.Cells[i], since))
			}
		}
	}
	return all
}

// Judge judges the figure of a cell. Only the figure decides, so that a run of one window can be
// judged. For a statement about chance, measure three and read the interval.
func (c Condition) Judge(cell *matrix.Cell) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: cell.Key, Clients: cell.Clients, Unit: c.Unit, Limit: c.Limit, Windows: cell.Valid, Found: unknown}
	if !cell.IsValid() {
		f.Outcome, f.Why = Unjudged, "the cell has no valid window"
		return f
	}
	if c.of.unit == Requests && c.Unit == Share {
		f.Found.Value = errorShare(cell)
	} else if found := c.of.of(cell); found != nil {
		f.Found = *found
	}
	switch {
	case math.IsNaN(f.Found.Value):
		f.Outcome, f.Why = Unjudged, c.of.whyUnknown()
	case c.isBeyond(f.Found.Value):
		f.Outcome = Breached
	default:
		f.Outcome = Kept
	}
	return f
}

// judgeIn judges the change of a cell since an earlier run.
func (c Condition) judgeIn(cell *matrix.Cell, since *Diff) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: cell.Key, Unit: Relative, Limit: c.Limit, Found: unknown}
	f.Outcome, f.Why = Unjudged, "each run needs a valid window with this figure"
	for _, d := range since.Differences {
		if d.Metric == c.of.metric() && d.of.after.Cell == cell.Cell {
			f = c.JudgeChange(d)
		}
	}
	f.Clients, f.Windows = cell.Clients, cell.Valid
	return f
}

// JudgeChange judges a change of the condition's figure.
func (c Condition) JudgeChange(d Difference) GateFinding {
	f := GateFinding{Gate: c.Text, Cell: d.Cell, Outcome: Open, Unit: Relative, Limit: c.Limit, Found: d.Ratio, Windows: d.AfterTrials, Change: &d}
	switch i := d.Ratio.Interval; {
	case !c.isBeyond(d.Ratio.Value):
		f.Outcome = Kept
	case i != nil && c.isBeyond(i.Low) && c.isBeyond(i.High) && d.isReal():
		f.Outcome = Breached
	}
	if f.within = f.Outcome == Kept; min(d.BeforeTrials, d.AfterTrials) < matrix.LeastTrials {
		f.Outcome = Unjudged
		f.Why = fmt.Sprintf("a change needs %d valid windows in each run; they have %d and %d", matrix.LeastTrials, d.BeforeTrials, d.AfterTrials)
	}
	return f
}

// PassUnjudgedChanges adapts the findings for runs of many cells: a change that cannot be judged
// is kept if its estimate is within the limit, and open otherwise.
func PassUnjudgedChanges(findings []GateFinding) []GateFinding {
	all := slices.Clone(findings)
	for i := range all {
		switch f := &all[i]; {
		case f.Unit != Relative || f.Outcome != Unjudged:
		case f.within:
			f.Outcome, f.Why = Kept, ""
		default:
			f.Outcome = Open
		}
	}
	return all
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
	Ratio        Unit = "ratio"  // one figure divided by another
	Relative     Unit = "change" // a figure after divided by the figure before
)

// A gateFigure is a figure that can have a limit.
type gateFigure struct {
	names []string // in lower case; messages use the first
	unit  Unit
	of    func(*matrix.Cell) *matrix.Figure // nil if it was not measured
	model string                            // the only load with this figure; empty: all loads
}

// gateFigures lists the figures that have columns in the table.
var gateFigures = slices.Concat(gateLatencies(), []gateFigure{
	{names: []string{"rps", "req/s", "throughput"}, unit: PerSecond, of: func(c *matrix.Cell) *matrix.Figure { return &c.Throughput }},
	{names: []string{"errors", "err"}, unit: Requests, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: float64(c.Errors)} }},
	{names: []string{"ok", "answered"}, unit: Share, of: func(c *matrix.Cell) *matrix.Figure { return &matrix.Figure{Value: 1 - errorShare(c)} }},
	{names: []string{"cpu"}, unit: Microseconds, of: (*matrix.Cell).BothCPU},
	{names: []string{"client"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ClientCPU }},
	{names: []string{"server", "service"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure { return c.ServerCPU }},
	{names: []string{"handshake"}, unit: Microseconds, of: func(c *matrix.Cell) *matrix.Figure {
		return &cmp.Or(c.Connections.Handshake, &matrix.Times{P50: unknown}).P50
	}},
	{names: []string{"p99/p50"}, unit: Ratio, of: func(c *matrix.Cell) *matrix.Figure { return &c.P99OverP50 }},
	{names: []string{"kept"}, unit: PerSecond, model: "search", of: func(c *matrix.Cell) *matrix.Figure { return &cmp.Or(c.Search, &matrix.Search{Kept: unknown}).Kept }},
	{names: []string{"missed"}, unit: PerSecond, model: "search", of: func(c *matrix.Cell) *matrix.Figure { return &cmp.Or(c.Search, &matrix.Search{Missed: unknown}).Missed }},
	{names: []string{"drain"}, unit: Microseconds, model: "burst", of: func(c *matrix.Cell) *matrix.Figure { return c.Drain }},
})

// unknown stands for a figure that was not measured.
var unknown = matrix.Figure{Value: math.NaN()}

// gateLatencies returns the response times, by the tags of their fields.
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

func errorShare(c *matrix.Cell) float64 { return float64(c.Errors) / float64(max(1, c.Requests)) }

func findLimitable(name string) *gateFigure {
	i := slices.IndexFunc(gateFigures, func(l gateFigure) bool { return slices.Contains(l.names, strings.ToLower(name)) })
	if i < 0 {
		return nil
	}
	return &gateFigures[i]
}

// metric returns the figure's name in comparisons of runs, or nothing.
func (l *gateFigure) metric() string {
	i := slices.IndexFunc(DiffMetrics, func(name string) bool { return slices.Contains(l.names, name) })
	if i < 0 {
		return ""
	}
	return DiffMetrics[i]
}

// wants describes the form of a figure's limit. The text before it is its name and sign.
func (l *gateFigure) wants(figure string) string {
	wanted := map[Unit]string{
		Microseconds: "a time with its unit, as in %s20ms",
		PerSecond:    "requests per second, as in %s1000",
		Requests:     "a number of requests or a share of them, as in %[1]s10 or %[1]s0.1%%",
		Share:        "a share, as in %s99.9%%",
		Ratio:        "a number, as in %s10",
	}
	return fmt.Sprintf("want "+wanted[l.unit], figure)
}

func (l *gateFigure) whyUnknown() string {
	if strings.HasPrefix(l.names[0], "p") && l.unit == Microseconds {
		return "fewer than ten requests lie beyond that percentile: measure longer"
	}
	return "this figure was not measured here"
}

func (d Difference) isReal() bool {
	return d.Verdict != compare.Undecided && d.Verdict != compare.Equivalent
}
