package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"

	"wirelab.dev/internal/scenario"
)

// shapeFlags say when requests are sent, where it is not a closed loop.
type shapeFlags struct {
	rate, rampTo float64
	arrivals     string
	burst        int
	goal         string
}

func (s *shapeFlags) register(f *pflag.FlagSet) {
	f.Float64Var(&s.rate, "rps", 0, "open loop: total `requests` a second, sent on schedule whether answered or not")
	f.StringVar(&s.arrivals, "arrivals", "", "open loop: `spread` of the arrivals, poisson or constant (default poisson; constant in a ramp)")
	f.Float64Var(&s.rampTo, "ramp-to", 0, "open loop: change the rate evenly from --rps to these `requests` a second")
	f.IntVar(&s.burst, "burst", 0, "send so many `requests` at one instant, and see how long they take to drain")
	f.StringVar(&s.goal, "goal", "", "search for the highest rate that keeps a `goal` of the response time, as in p99<10ms")
}

// searchStep is how long each step of a search lasts where -z does not say.
const searchStep = time.Second

// load is the load that the flags mean, with -n and -z.
func (s *shapeFlags) load(requests int, duration time.Duration) (scenario.Load, error) {
	length := scenario.Duration(duration)
	given := 0
	for _, set := range []bool{s.rate != 0, s.burst != 0, s.goal != ""} {
		if set {
			given++
		}
	}
	switch {
	case given > 1:
		return scenario.Load{}, errors.New("--rps, --burst and --goal are different loads: give one of them")
	case requests < 0:
		return scenario.Load{}, fmt.Errorf("-n: %d requests: want 1 or more", requests)
	case s.rate < 0:
		return scenario.Load{}, fmt.Errorf("--rps: %v requests a second: want more than 0", s.rate)
	case s.burst < 0:
		return scenario.Load{}, fmt.Errorf("--burst: %d requests: want 1 or more", s.burst)
	case given > 0 && requests > 0:
		return scenario.Load{}, errors.New("-n: it bounds a closed loop: with --rps and --goal give -z instead of -n, with --burst nothing")
	case s.rampTo != 0 && s.rate == 0:
		return scenario.Load{}, errors.New("--ramp-to: give --rps as well, the rate that the ramp begins with")
	case s.arrivals != "" && s.rate == 0:
		return scenario.Load{}, errors.New("--arrivals: only an open loop has arrivals; give --rps")
	case s.burst > 0:
		return scenario.Load{Model: scenario.Burst, Requests: s.burst}, nil
	case s.goal != "":
		goal, err := scenario.ParseGoal(s.goal)
		if err != nil {
			return scenario.Load{}, fmt.Errorf("--goal: %w", err)
		}
		if duration == usualDuration {
			length = scenario.Duration(searchStep)
		}
		return scenario.Load{Model: scenario.Search, Goal: goal, Duration: length}, nil
	case s.rampTo != 0:
		arrivals := scenario.Constant
		if s.arrivals != "" {
			arrivals = scenario.Arrivals(s.arrivals)
		}
		return scenario.Load{Model: scenario.Ramp, Rate: s.rate, To: s.rampTo, Duration: length, Arrivals: arrivals}, nil
	case s.rate > 0:
		arrivals := scenario.Poisson
		if s.arrivals != "" {
			arrivals = scenario.Arrivals(s.arrivals)
		}
		return scenario.Load{Model: scenario.Open, Rate: s.rate, Duration: length, Arrivals: arrivals}, nil
	case requests > 0:
		return scenario.Load{Model: scenario.Closed, Requests: requests}, nil
	default:
		return scenario.Load{Model: scenario.Closed, Duration: length}, nil
	}
}
