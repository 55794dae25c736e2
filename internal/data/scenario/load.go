package scenario

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// LoadModel says what decides when the next request is sent.
type LoadModel string

// The load models.
const (
	Closed    LoadModel = "closed"    // each client has one request in flight
	Open      LoadModel = "open"      // a schedule of arrivals that does not wait for answers
	Sustained LoadModel = "sustained" // an open loop at a constant rate that may lose no request
	Burst     LoadModel = "burst"     // many requests at one instant
	Ramp      LoadModel = "ramp"      // an open loop whose rate changes evenly
	Search    LoadModel = "search"    // looks for the highest rate that keeps a goal
)

// Arrivals says how the instants of an open loop are spread.
type Arrivals string

// The kinds of arrivals.
const (
	Constant Arrivals = "constant"
	Poisson  Arrivals = "poisson"
)

// Load says when requests are sent, and for how long.
type Load struct {
	// closed: each client sends its next request when the last is answered;
	// open: requests are sent on a schedule, answered or not; sustained: the
	// same at a constant rate; burst: all requests at once; ramp: an open loop
	// whose rate changes evenly; search: the highest rate that keeps a goal.
	Model LoadModel `json:"model" jsonschema:"required,enum=closed,enum=open,enum=sustained,enum=burst,enum=ramp,enum=search"`
	// Closed loop: how many requests each client measures. Either this or a
	// duration. Burst: how many are sent at once, by all clients together.
	Requests int `json:"requests,omitempty" jsonschema:"minimum=1"`
	// Closed loop: how many requests all clients together measure, instead of
	// a number per client. They are shared out evenly; the first clients take
	// the remainder.
	Total int `json:"total-requests,omitempty" jsonschema:"minimum=1"`
	// How long the measured window is; in a search, the window of each step.
	Duration Duration `json:"duration,omitempty"`
	// Open loop: requests per second, all clients together. Ramp: the rate
	// at its begin.
	Rate float64 `json:"rate,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Ramp: requests per second at its end.
	To float64 `json:"to,omitempty" jsonschema:"exclusiveMinimum=0"`
	// Search: what a rate must keep, as in p99<10ms: a percentile of the
	// response time, and its limit.
	Goal Goal `json:"goal,omitzero"`
	// Open loop: how arrivals are spread. If left out, poisson.
	Arrivals Arrivals `json:"arrivals,omitempty" jsonschema:"enum=constant,enum=poisson"`
}

// loadModels lists the load models: the keys that each needs and may have, how it
// is written, and how its arrivals are spread by default.
var loadModels = []struct {
	model      LoadModel
	needs, may []string
	what       string
	example    string
	arrivals   Arrivals
}{
	{model: Closed, may: []string{"requests", "total-requests", "duration"}, what: "a closed loop", example: "{model: closed, requests: 1000}"},
	{model: Open, needs: []string{"rate", "duration"}, may: []string{"arrivals"}, what: "an open loop", example: "{model: open, rate: 5000, duration: 5s}", arrivals: Poisson},
	{model: Sustained, needs: []string{"rate", "duration"}, what: "a sustained load", example: "{model: sustained, rate: 50, duration: 60s}"},
	{model: Burst, needs: []string{"requests"}, what: "a burst", example: "{model: burst, requests: 1000}"},
	{model: Ramp, needs: []string{"rate", "to", "duration"}, may: []string{"arrivals"}, what: "a ramp", example: "{model: ramp, rate: 100, to: 5000, duration: 30s}", arrivals: Constant},
	{model: Search, needs: []string{"goal", "duration"}, what: "a search", example: "{model: search, goal: p99<10ms, duration: 1s}"},
}

// SetDefaultArrivals sets the arrivals that the load model has if none are given.
func (l *Load) SetDefaultArrivals() {
	for _, form := range loadModels {
		if form.model == l.Model && l.Arrivals == "" {
			l.Arrivals = form.arrivals
		}
	}
}

// A Limit is the limit of a figure as users write it: p99<10ms, errors > 0.1%, p99 > +10%,
// p99=5ms. It is only syntax: its readers know the figures, and the values that each takes.
type Limit struct {
	Text   string // as it was written
	Figure string // in small letters
	Sign   string // <, > or =
	Value  string // without spaces
}

var limitForm = regexp.MustCompile(`^([A-Za-z0-9./_]+)([<>=])([^<>=]+)$`)

// ParseLimit reads a limit. Spaces may stand anywhere.
func ParseLimit(text string) (Limit, error) {
	parts := limitForm.FindStringSubmatch(strings.Join(strings.FieldsFunc(text, unicode.IsSpace), ""))
	if parts == nil {
		return Limit{}, fmt.Errorf("%q is no condition: want FIGURE>LIMIT or FIGURE<LIMIT, as in p99>20ms, errors>0.1%%, rps<1000 or p99>+10%%", text)
	}
	return Limit{Text: strings.TrimSpace(text), Figure: strings.ToLower(parts[1]), Sign: parts[2], Value: parts[3]}, nil
}

// Time returns the value if it is a time with its unit, as in 20ms.
func (l Limit) Time() (time.Duration, bool) {
	value, err := time.ParseDuration(l.Value)
	return value, err == nil
}

// Number returns the value if it is a number.
func (l Limit) Number() (float64, bool) {
	value, err := strconv.ParseFloat(l.Value, 64)
	return value, err == nil
}

// Percent returns the value as a share if it is a percentage: 0.001 for 0.1%.
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

// MarshalText writes the goal as String does.
func (g Goal) MarshalText() ([]byte, error) { return []byte(g.String()), nil }

// UnmarshalText reads the text as ParseGoal does.
func (g *Goal) UnmarshalText(text []byte) error { return parseInto(g, text, ParseGoal) }
