package scenario

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// shapes say which keys each load model needs and may have, and how one is
// written.
var shapes = map[LoadModel]struct {
	needs, may []string
	what       string
	example    string
}{
	Closed:    {may: []string{"requests", "total-requests", "duration"}, what: "a closed loop", example: "{model: closed, requests: 1000}"},
	Open:      {needs: []string{"rate", "duration"}, may: []string{"arrivals"}, what: "an open loop", example: "{model: open, rate: 5000, duration: 5s}"},
	Sustained: {needs: []string{"rate", "duration"}, what: "a sustained load", example: "{model: sustained, rate: 50, duration: 60s}"},
	Burst:     {needs: []string{"requests"}, what: "a burst", example: "{model: burst, requests: 1000}"},
	Ramp:      {needs: []string{"rate", "to", "duration"}, may: []string{"arrivals"}, what: "a ramp", example: "{model: ramp, rate: 100, to: 5000, duration: 30s}"},
	Search:    {needs: []string{"goal", "duration"}, what: "a search", example: "{model: search, goal: p99<10ms, duration: 1s}"},
}

// given lists the keys of a load that are set, in the order of the file form.
func (l Load) given() []string {
	var keys []string
	for _, k := range []struct {
		key string
		set bool
	}{
		{"requests", l.Requests != 0},
		{"total-requests", l.Total != 0},
		{"duration", l.Duration != 0},
		{"rate", l.Rate != 0},
		{"to", l.To != 0},
		{"goal", l.Goal != Goal{}},
		{"arrivals", l.Arrivals != ""},
	} {
		if k.set {
			keys = append(keys, k.key)
		}
	}
	return keys
}

func (c *checker) load(in func(...any) at, p Part) *problem {
	l := p.Load
	shape, known := shapes[l.Model]
	if !known {
		var names []string
		for _, m := range LoadModels() {
			names = append(names, string(m))
		}
		return c.problem(in("load", "model"), "load: want model: %s, found %q", strings.Join(names, ", "), l.Model)
	}
	given := l.given()
	for _, key := range given {
		if !slices.Contains(shape.needs, key) && !slices.Contains(shape.may, key) {
			return c.problem(in("load", key), "%s has no %s: write for example `%s`", shape.what, key, shape.example)
		}
	}
	if problem := c.loadFigures(in, l); problem != nil {
		return problem
	}
	for _, key := range shape.needs {
		if !slices.Contains(given, key) {
			return c.problem(in("load"), "%s needs %s: write for example `%s`", shape.what, key, shape.example)
		}
	}
	if l.Model == Closed && len(given) != 1 {
		return c.problem(in("load"), "a closed loop needs one of requests (of each client), total-requests (of all together) and duration: write one of them, as in `%s`", shape.example)
	}
	return nil
}

// loadFigures checks what is given, whatever the model.
func (c *checker) loadFigures(in func(...any) at, l Load) *problem {
	rate := func(key string, r float64) *problem {
		if r != 0 && (!(r > 0) || math.IsInf(r, 0) || r > maxRequests) {
			return c.problem(in("load", key), "%s: want requests a second above 0, of all clients together, found %v", key, r)
		}
		return nil
	}
	switch {
	case l.Requests < 0 || l.Requests > maxRequests:
		return c.problem(in("load", "requests"), "requests: want 1 to %d, found %d", maxRequests, l.Requests)
	case l.Total < 0 || l.Total > maxRequests:
		return c.problem(in("load", "total-requests"), "total-requests: want 1 to %d, found %d", maxRequests, l.Total)
	case l.Duration < 0:
		return c.problem(in("load", "duration"), "duration: want more than 0s, found %v", l.Duration)
	case l.Arrivals != "" && l.Arrivals != Constant && l.Arrivals != Poisson:
		return c.problem(in("load", "arrivals"), "arrivals: want constant or poisson, found %q", l.Arrivals)
	}
	if problem := rate("rate", l.Rate); problem != nil {
		return problem
	}
	return rate("to", l.To)
}

// defaultArrivals is what an open loop has that does not say.
func (l *Load) defaultArrivals() {
	switch {
	case l.Arrivals != "":
	case l.Model == Open:
		l.Arrivals = Poisson
	case l.Model == Ramp:
		l.Arrivals = Constant
	}
}

// String is the load in a few words.
func (l Load) String() string {
	switch l.Model {
	case Open, Sustained:
		return strings.TrimSpace(fmt.Sprintf("%s %g/s", l.Arrivals, l.Rate))
	case Burst:
		return fmt.Sprintf("burst of %d", l.Requests)
	case Ramp:
		return fmt.Sprintf("ramp %g to %g/s", l.Rate, l.To)
	case Search:
		return "search " + l.Goal.String()
	default:
		return string(l.Model)
	}
}
