package scenario

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
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

// loadForms lists the load models: the keys that each needs and may have, how it
// is written, and how its arrivals are spread by default.
var loadForms = []struct {
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
	for _, form := range loadForms {
		if form.model == l.Model && l.Arrivals == "" {
			l.Arrivals = form.arrivals
		}
	}
}

// A loadKey is a key of a load in the file, with a check of its value.
type loadKey struct {
	name  string
	set   bool
	valid bool
	want  string
	value any
}

func (l Load) keys() []loadKey {
	const aRate = "requests per second above 0, of all clients together"
	count := fmt.Sprintf("1 to %d", maxRequests)
	isCount := func(n int) bool { return n > 0 && n <= maxRequests }
	isRate := func(r float64) bool { return r > 0 && r <= maxRequests }
	return []loadKey{
		{"requests", l.Requests != 0, isCount(l.Requests), count, l.Requests},
		{"total-requests", l.Total != 0, isCount(l.Total), count, l.Total},
		{"duration", l.Duration != 0, l.Duration > 0, "more than 0s", l.Duration},
		{"rate", l.Rate != 0, isRate(l.Rate), aRate, l.Rate},
		{"to", l.To != 0, isRate(l.To), aRate, l.To},
		{"goal", l.Goal != Goal{}, true, "", l.Goal},
		{"arrivals", l.Arrivals != "", l.Arrivals == Constant || l.Arrivals == Poisson, "constant or poisson", strconv.Quote(string(l.Arrivals))},
	}
}

func (c *checker) load(in func(...any) at, p Part) *problem {
	l := p.Load
	var models []string
	for _, form := range loadForms {
		models = append(models, string(form.model))
	}
	i := slices.Index(models, string(l.Model))
	if i < 0 {
		return c.problem(in("load", "model"), "load: want model: %s, found %q", strings.Join(models, ", "), l.Model)
	}
	form := loadForms[i]
	var given []string
	for _, key := range l.keys() {
		switch {
		case !key.set:
			continue
		case !slices.Contains(form.needs, key.name) && !slices.Contains(form.may, key.name):
			return c.problem(in("load", key.name), "%s has no %s: write for example `%s`", form.what, key.name, form.example)
		case !key.valid:
			return c.problem(in("load", key.name), "%s: want %s, found %v", key.name, key.want, key.value)
		}
		given = append(given, key.name)
	}
	for _, key := range form.needs {
		if !slices.Contains(given, key) {
			return c.problem(in("load"), "%s needs %s: write for example `%s`", form.what, key, form.example)
		}
	}
	if l.Model == Closed && len(given) != 1 {
		return c.problem(in("load"), "a closed loop needs one of requests (of each client), total-requests (of all together) and duration: write one of them, as in `%s`", form.example)
	}
	if most := slices.Max(p.Clients); l.Total > 0 && l.Total < most {
		return c.problem(in("load", "total-requests"), "total-requests: %d are fewer than the %d clients: each needs one at least", l.Total, most)
	}
	return nil
}
