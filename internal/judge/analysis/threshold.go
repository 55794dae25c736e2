package analysis

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Threshold is a figure that a cell must not have: `p99>20ms`, `errors>0.1%`, `rps<1000`.
type Threshold struct {
	Text  string
	Above bool    // the figure must not be above the limit; else not below it
	Limit float64 // in the unit
	Unit  Unit
	of    *limitable
}

// Unit is what a gate's limit and figure are in.
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

// limitable is a figure that can have a limit.
type limitable struct {
	names []string // in small letters; the first is the one in messages
	unit  Unit
	of    func(*Cell) *Figure // nil where it was not measured
	model string              // of the only load that has it; empty: all have
}

// limitables are the figures that the table has columns for.
var limitables = slices.Concat(limitableLatencies(), []limitable{
	{names: []string{"rps", "req/s", "throughput"}, unit: PerSecond, of: func(c *Cell) *Figure { return &c.Throughput }},
	{names: []string{"errors", "err"}, unit: Requests, of: func(c *Cell) *Figure { return &Figure{Value: float64(c.Errors)} }},
	{names: []string{"ok", "answered"}, unit: Share, of: func(c *Cell) *Figure { return &Figure{Value: 1 - errorShare(c)} }},
	{names: []string{"cpu"}, unit: Microseconds, of: (*Cell).BothCPU},
	{names: []string{"client"}, unit: Microseconds, of: func(c *Cell) *Figure { return c.ClientCPU }},
	{names: []string{"server", "service"}, unit: Microseconds, of: func(c *Cell) *Figure { return c.ServerCPU }},
	{names: []string{"handshake"}, unit: Microseconds, of: handshakeP50},
	{names: []string{"p99/p50"}, unit: Ratio, of: func(c *Cell) *Figure { return &c.P99OverP50 }},
	{names: []string{"kept"}, unit: PerSecond, model: "search", of: searched(func(s *Search) *Figure { return &s.Kept })},
	{names: []string{"missed"}, unit: PerSecond, model: "search", of: searched(func(s *Search) *Figure { return &s.Missed })},
	{names: []string{"drain"}, unit: Microseconds, model: "burst", of: func(c *Cell) *Figure { return c.Drain }},
})

// limitableLatencies are the response times, by the tags of their fields.
func limitableLatencies() []limitable {
	var all []limitable
	for field := range reflect.TypeFor[Latencies]().Fields() {
		title, _, _ := strings.Cut(field.Tag.Get("column"), ",")
		if title == "" {
			continue
		}
		names := slices.Compact([]string{strings.ToLower(title), field.Tag.Get("json")})
		all = append(all, limitable{names: names, unit: Microseconds, of: func(c *Cell) *Figure {
			return reflect.ValueOf(c.ResponseTimes()).Elem().FieldByIndex(field.Index).Addr().Interface().(*Figure)
		}})
	}
	return all
}

func handshakeP50(c *Cell) *Figure {
	if c.Connections.Handshake == nil {
		return nil
	}
	return &c.Connections.Handshake.P50
}

func searched(of func(*Search) *Figure) func(*Cell) *Figure {
	return func(c *Cell) *Figure {
		if c.Search == nil {
			return nil
		}
		return of(c.Search)
	}
}

func errorShare(c *Cell) float64 { return float64(c.Errors) / float64(max(1, c.Requests)) }

// LimitableNames are the figures that a threshold may be about.
func LimitableNames() []string {
	var names []string
	for _, l := range limitables {
		names = append(names, l.names[0])
	}
	return names
}

func findLimitable(name string) *limitable {
	for i, l := range limitables {
		if slices.Contains(l.names, strings.ToLower(name)) {
			return &limitables[i]
		}
	}
	return nil
}

var thresholdForm = regexp.MustCompile(`^\s*([A-Za-z0-9./]+)\s*([<>])\s*([^\s<>=]+)\s*$`)

// ParseThreshold reads a threshold.
func ParseThreshold(text string) (Threshold, error) {
	parts := thresholdForm.FindStringSubmatch(text)
	if parts == nil {
		return Threshold{}, fmt.Errorf("%q is no condition: want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms, errors>0.1%% or rps<1000", text)
	}
	of := findLimitable(parts[1])
	if of == nil {
		return Threshold{}, fmt.Errorf("%q in %q is no figure: want one of %s", parts[1], text, strings.Join(LimitableNames(), ", "))
	}
	t := Threshold{Text: strings.TrimSpace(text), Above: parts[2] == ">", Unit: of.unit, of: of}
	share, isShare := strings.CutSuffix(parts[3], "%")
	var err error
	switch {
	case t.Unit == Microseconds:
		var limit time.Duration
		limit, err = time.ParseDuration(parts[3])
		t.Limit = float64(limit) / float64(time.Microsecond)
	case t.Unit == Requests && isShare:
		t.Unit = Share
		fallthrough
	case t.Unit == Share && isShare:
		t.Limit, err = strconv.ParseFloat(share, 64)
		t.Limit /= 100
	case t.Unit == Share:
		err = strconv.ErrSyntax
	default:
		t.Limit, err = strconv.ParseFloat(parts[3], 64)
	}
	if err != nil || !(t.Limit >= 0) || math.IsInf(t.Limit, 0) {
		return Threshold{}, fmt.Errorf("the limit %q in %q is not known: %s", parts[3], text, of.wants(parts[1]+parts[2]))
	}
	return t, nil
}

// wants says what limit a figure takes, behind its name and sign.
func (l *limitable) wants(figure string) string {
	switch l.unit {
	case Microseconds:
		return fmt.Sprintf("want a time with its unit, as in %s20ms", figure)
	case PerSecond:
		return fmt.Sprintf("want requests a second, as in %s1000", figure)
	case Requests:
		return fmt.Sprintf("want a number of requests or a share of them, as in %s10 or %s0.1%%", figure, figure)
	case Share:
		return fmt.Sprintf("want a share, as in %s99.9%%", figure)
	default:
		return fmt.Sprintf("want a number, as in %s10", figure)
	}
}

// CheckLoad refuses a figure that a load does not have.
func (t Threshold) CheckLoad(model string) error {
	if t.of.model == "" || t.of.model == model {
		return nil
	}
	return fmt.Errorf("%q: only a load with --%s has %s", t.Text, map[string]string{"search": "goal", "burst": "burst"}[t.of.model], t.of.names[0])
}

// Judge judges the figure of a cell. The figure alone decides, so that a run of one window can
// be judged too: whoever wants to know how far chance goes takes three, and reads the interval.
func (t Threshold) Judge(c *Cell) GateFinding {
	f := GateFinding{Gate: t.Text, Cell: c.Key, Clients: c.Clients, Unit: t.Unit, Limit: t.Limit, Windows: c.Valid, Found: Figure{Value: math.NaN()}}
	if !c.IsValid() {
		f.Outcome, f.Why = Unjudged, "it has no valid window"
		return f
	}
	if found := t.figure(c); found != nil {
		f.Found = *found
	}
	switch {
	case math.IsNaN(f.Found.Value):
		f.Outcome, f.Why = Unjudged, t.of.whyUnknown()
	case beyond(f.Found.Value, t.Limit, t.Above):
		f.Outcome = Breached
	default:
		f.Outcome = Kept
	}
	return f
}

func (t Threshold) figure(c *Cell) *Figure {
	if t.of.unit == Requests && t.Unit == Share {
		return &Figure{Value: errorShare(c)}
	}
	return t.of.of(c)
}

func (l *limitable) whyUnknown() string {
	if strings.HasPrefix(l.names[0], "p") {
		return "fewer than ten requests lie beyond that percentile: measure longer"
	}
	return "it was not measured here"
}

// beyond reports whether a value lies on the wrong side of a limit. One on it is right.
func beyond(value, limit float64, above bool) bool {
	if above {
		return value > limit
	}
	return value < limit
}

// GateFinding is a gate in one cell.
type GateFinding struct {
	Gate    string      `json:"gate"` // as it was written
	Cell    string      `json:"cell"`
	Clients int         `json:"-"`
	Outcome GateOutcome `json:"outcome" jsonschema:"enum=kept,enum=breached,enum=open,enum=unjudged"`               // open: a change lies beyond the limit, and may by chance
	Unit    Unit        `json:"unit" jsonschema:"enum=us,enum=rps,enum=requests,enum=share,enum=ratio,enum=change"` // of the next two
	Limit   float64     `json:"limit"`
	Found   Figure      `json:"found"`         // null where it is not known
	Windows int         `json:"windows"`       // valid ones that it is of
	Why     string      `json:"why,omitempty"` // it could not be judged
}

// JudgeIn judges the gate in the cells of the later run that both runs have.
func (g Gate) JudgeIn(d *Diff, after *Summary) []GateFinding {
	var all []GateFinding
	for i := range after.Cells {
		c := &after.Cells[i]
		if slices.Contains(d.OnlyInAfter, c.Key) {
			continue
		}
		f := GateFinding{Gate: g.Text, Cell: c.Key, Clients: c.Clients, Unit: Relative, Limit: g.Limit, Windows: c.Valid, Found: Figure{Value: math.NaN()}}
		f.Outcome, f.Why = Unjudged, "a window of each run must be valid, and know the figure"
		for _, one := range d.Differences {
			switch {
			case one.Metric != g.Metric || one.of.after.cell != c.Cell:
			case min(one.BeforeTrials, one.AfterTrials) < LeastTrials:
				f.Found = one.Ratio
				f.Why = fmt.Sprintf("a change takes %d valid windows in each run, and they have %d and %d", LeastTrials, one.BeforeTrials, one.AfterTrials)
			default:
				f.Outcome, f.Why, f.Found = g.Judge(one), "", one.Ratio
			}
		}
		all = append(all, f)
	}
	return all
}

// IsChange reports whether a condition is about a change since an earlier run, and not about a
// figure: it is a percentage of something that is no share.
func IsChange(text string) bool {
	parts := thresholdForm.FindStringSubmatch(text)
	if parts == nil {
		return gateForm.MatchString(text)
	}
	of := findLimitable(parts[1])
	return strings.HasSuffix(parts[3], "%") && (strings.ContainsAny(parts[3][:1], "+-") ||
		of != nil && of.unit != Share && of.unit != Requests)
}

// IsCompared reports whether a gate's figure is compared between runs of a load.
func (g Gate) IsCompared(model string) bool { return isMeaningful(model, g.Metric) }
