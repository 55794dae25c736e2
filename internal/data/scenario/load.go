package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode"

	"wirelab.dev/internal/base/pattern"
	"wirelab.dev/internal/data/record"
)

// LoadModel is the rule for when a client sends its next request.
type LoadModel string

// The load models.
const (
	Closed LoadModel = "closed" // each client has one request in flight
	Open   LoadModel = "open"   // requests follow a schedule that does not wait for answers
	// An open loop at a constant rate; losing a request is a failure.
	Sustained LoadModel = "sustained"
	Burst     LoadModel = "burst"  // all requests at one instant
	Ramp      LoadModel = "ramp"   // an open loop whose rate changes linearly
	Search    LoadModel = "search" // looks for the highest rate that meets a goal
)

// Arrivals is the distribution of the instants in an open loop.
type Arrivals string

// The kinds of arrivals.
const (
	Constant Arrivals = "constant"
	Poisson  Arrivals = "poisson"
)

// Load says when requests are sent, and for how long.
type Load struct {
	// closed: each client sends its next request when it has the last answer. open: requests are
	// sent on a schedule, even if answers are missing. sustained: like open, at a constant rate.
	// burst: all requests at once. ramp: an open loop whose rate changes linearly. search: finds
	// the highest rate that meets a goal.
	Model LoadModel `json:"model" jsonschema:"required,enum=closed,enum=open,enum=sustained,enum=burst,enum=ramp,enum=search"`
	// Closed loop: the number of measured requests of each client; duration is the alternative.
	// Burst: the number of requests that all clients together send at once.
	Requests int `json:"requests,omitempty" jsonschema:"minimum=1"`
	// Closed loop: the number of measured requests of all clients together, instead of a number per
	// client. Clients get equal numbers; the first clients also get the remainder. Open loop: the
	// number of requests that are sent within the duration, and none before or after it.
	Total int `json:"total-requests,omitempty" jsonschema:"minimum=1"`
	// The length of the measured window. In a search, the length of each step's window.
	Duration Duration `json:"duration,omitempty"`
	// Open loop: requests per second of all clients together. Ramp: the initial rate.
	Rate float64 `json:"rate,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Ramp: the final rate, in requests per second.
	To float64 `json:"to,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Ramp: the stages of the rate, such as 30s:100,2m:500,30s:0, in place of its final rate. In each
	// stage, the rate changes evenly to that of the stage. It begins at the initial rate, or at 0. If
	// a duration is given, the stages are stretched or shortened to it.
	Stages record.Stages `json:"stages,omitempty"`
	// Search: the goal that a rate must meet, such as p99<10ms. It is a percentile of the response
	// time and its limit.
	Goal Goal `json:"goal,omitzero"`
	// Open loop: the distribution of the arrivals. If left out, poisson.
	Arrivals Arrivals `json:"arrivals,omitempty" jsonschema:"enum=constant,enum=poisson"`
}

// loadModels lists the load models. For each it gives the required and the optional keys, the text
// form, and the default arrivals.
var loadModels = []struct {
	model      LoadModel
	needs, may []string
	what       string
	example    string
	arrivals   Arrivals
}{
	{model: Closed, may: []string{"requests", "total-requests", "duration"}, what: "a closed loop", example: "{model: closed, requests: 1000}"},
	{model: Open, needs: []string{"rate", "duration"}, may: []string{"arrivals", "total-requests"}, what: "an open loop", example: "{model: open, rate: 5000, duration: 5s}", arrivals: Poisson},
	{model: Sustained, needs: []string{"rate", "duration"}, what: "a sustained load", example: "{model: sustained, rate: 50, duration: 60s}"},
	{model: Burst, needs: []string{"requests"}, what: "a burst", example: "{model: burst, requests: 1000}"},
	{model: Ramp, needs: []string{"duration"}, may: []string{"rate", "to", "stages", "arrivals"}, what: "a ramp", example: "{model: ramp, rate: 100, to: 5000, duration: 30s}", arrivals: Constant},
	{model: Search, needs: []string{"goal", "duration"}, what: "a search", example: "{model: search, goal: p99<10ms, duration: 1s}"},
}

// SetDefaults sets the load model's default arrivals, and the duration of stages, if none are given.
func (l *Load) SetDefaults() {
	if stages, err := l.Stages.Parse(l.Rate); err == nil && l.Duration == 0 {
		l.Duration = Duration(record.Length(stages))
	}
	for _, form := range loadModels {
		if form.model == l.Model && l.Arrivals == "" {
			l.Arrivals = form.arrivals
		}
	}
}

// A Limit is a limit of a figure as users write it: p99<10ms, errors > 0.1%, p99 > +10%, p99=5ms.
// Parsing checks only the syntax. The code that uses the limit checks figure and value.
type Limit struct {
	Text   string // the text that was parsed
	Figure string // in lower case
	Sign   string // one of <, > and =
	Value  string // without spaces
}

var limitForm = pattern.Lazy(`^([A-Za-z0-9./_]+)([<>=])([^<>=]+)$`)

// ParseLimit reads a limit. It ignores spaces.
func ParseLimit(text string) (Limit, error) {
	parts := limitForm().FindStringSubmatch(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), ""))
	if parts == nil {
		return Limit{}, fmt.Errorf("%q is no condition: want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms, errors>0.1%%, rps<1000 or p99>+10%%", text)
	}
	return Limit{Text: strings.TrimSpace(text), Figure: strings.ToLower(parts[1]), Sign: parts[2], Value: parts[3]}, nil
}

// Time returns the value if it is a time with a unit, such as 20ms.
func (l Limit) Time() (time.Duration, bool) {
	value, err := time.ParseDuration(l.Value)
	return value, err == nil
}

// Number returns the value if it is a number.
func (l Limit) Number() (float64, bool) {
	value, err := strconv.ParseFloat(l.Value, 64)
	return value, err == nil
}

// Percent returns a percentage as a share: 0.001 for 0.1%.
func (l Limit) Percent() (float64, bool) {
	number, is := strings.CutSuffix(l.Value, "%")
	value, err := strconv.ParseFloat(number, 64)
	return value / 100, is && err == nil
}

// A Goal is the limit of a percentile of the response time, written `p99<10ms`.
type Goal struct {
	Percentile float64
	Limit      Duration
}

// ParseGoal reads a goal: p99<10ms, or p99=10ms.
func ParseGoal(text string) (Goal, error) {
	limit, err := ParseLimit(text)
	number, prefixed := strings.CutPrefix(limit.Figure, "p")
	p, notNumber := strconv.ParseFloat(number, 64)
	d, isTime := limit.Time()
	if err != nil || limit.Sign == ">" || !prefixed || notNumber != nil || !isTime || !(p > 0 && p < 100) || d <= 0 {
		return Goal{}, fmt.Errorf("goal %q: want a percentile and its limit, as in p99<10ms", text)
	}
	return Goal{Percentile: p, Limit: Duration(d)}, nil
}

func (g Goal) String() string {
	return "p" + strconv.FormatFloat(g.Percentile, 'g', -1, 64) + "<" + g.Limit.String()
}

// MarshalText returns the text of String.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the text with ParseGoal.
func (g *Goal) UnmarshalText(text []byte) error { return parseInto(g, text, ParseGoal) }
