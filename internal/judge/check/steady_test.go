package check

import (
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/data/record"
)

// course is a window of 200 intervals of 5 ms after 50 of warm-up; of gives an interval's
// figure, as a factor, at its time in seconds from the window's begin.
func course(open bool, of func(seconds float64) float64) []record.Interval {
	var all []record.Interval
	for i := -50; i < 200; i++ {
		jitter := 1 + 0.01*math.Sin(float64(i*i)) // some noise, always the same
		one := record.Interval{StartNS: int64(i) * 5e6, TookNS: 5e6, Requests: 200, SumNS: 2e7}
		if open {
			one.SumNS = int64(2e7 * jitter * of(float64(i)*0.005))
		} else {
			one.Requests = int64(2000 * jitter * of(float64(i)*0.005))
		}
		all = append(all, one)
	}
	return all
}

func TestAWindowThatOpenedTooEarlyIsSeen(t *testing.T) {
	steady := func(float64) float64 { return 1 }
	slow := func(seconds float64) float64 { return 1 - 0.3*math.Exp(-(seconds+0.25)/1) }
	for name, c := range map[string]struct {
		open  bool
		of    func(float64) float64
		level record.Level
		says  string
	}{
		"closed":                 {false, steady, record.OK, "steady after 250 ms"},
		"open":                   {true, steady, record.OK, "steady after 250 ms"},
		"closed, on its way":     {false, slow, record.Warning, "the throughput was still changing, and its mean is about 1"},
		"open, on its way":       {true, func(s float64) float64 { return 2 - slow(s) }, record.Warning, "the service time was still changing, and its mean is about 2"},
		"mostly on its way":      {false, func(s float64) float64 { return 0.1 + 0.9*max(0, s) }, record.Invalid, "% too low;"},
		"steady before it began": {false, func(s float64) float64 { return 1 - 0.3*math.Exp(-(s+0.25)/0.05) }, record.OK, "steady after"},
		"a stall in the middle":  {false, func(s float64) float64 { return 1 - 0.9*math.Exp(-(s-0.5)*(s-0.5)/0.0005) }, record.OK, "steady after"},
		"ever slower, by 20 %":   {false, func(s float64) float64 { return 1 - 0.2*s }, record.Warning, "% too high;"},
	} {
		r := &record.Record{WindowNS: 1e9, Cell: record.Cell{Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}}}
		r.Active, r.WarmUp = 4, record.WarmUp{TookNS: 250e6, Settled: true, Method: "MSER-5"}
		r.Intervals = course(c.open, c.of)
		if c.open {
			r.Cell.Load.Model, r.Pacing = "open", &record.Pacing{}
		}
		check := trial{Record: r, limits: DefaultLimits()}.checkSettled()
		if check.Level != c.level || !strings.Contains(check.Detail, c.says) {
			t.Errorf("%s: %s: %s", name, check.Level, check.Detail)
		}
		needed, more := WarmUpNeeded(r, DefaultLimits())
		if more != (c.level != record.OK) || more && needed <= 500*time.Millisecond {
			t.Errorf("%s: a warm-up of %v is said to be needed: %v", name, needed, more)
		}
	}
}

// Clients that have made their requests stop one after the other, which is no drift; a
// burst, and a search's step, have no steady state.
func TestWhatIsNoDrift(t *testing.T) {
	slow := func(seconds float64) float64 { return 1 - 0.3*math.Exp(-(seconds+0.25)/1) }
	for name, change := range map[string]func(*record.Record){
		"clients that stop": func(r *record.Record) {
			r.Active = 3.8
			r.Intervals = course(false, func(s float64) float64 { return min(1, max(0, (1-s)/0.1)) })
		},
		"a burst":         func(r *record.Record) { r.Cell.Load.Model = burstModel },
		"a ramp":          func(r *record.Record) { r.Cell.Load.Model = "ramp" },
		"a search's step": func(r *record.Record) { r.WarmUp.Method = "fixed" },
		"a cold start":    func(r *record.Record) { r.WarmUp.Method = "none" },
		"no course":       func(r *record.Record) { r.Intervals = nil },
	} {
		r := &record.Record{WindowNS: 1e9, Cell: record.Cell{Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}}}
		r.Active, r.WarmUp = 4, record.WarmUp{TookNS: 250e6, Settled: true, Method: "MSER-5"}
		r.Intervals = course(false, slow)
		change(r)
		if c := (trial{Record: r, limits: DefaultLimits()}).checkSettled(); c.Level != record.OK {
			t.Errorf("%s: %s: %s", name, c.Level, c.Detail)
		}
		if needed, more := WarmUpNeeded(r, DefaultLimits()); more {
			t.Errorf("%s: a warm-up of %v is said to be needed", name, needed)
		}
	}
}

// A change that the slices of the other trials show too is one of the machine.
func TestAChangeOfTheMachineIsNoDrift(t *testing.T) {
	slower := func(seconds float64) float64 { return 1 - 0.5*max(0, seconds) }
	for _, open := range []bool{false, true} {
		r := &record.Record{WindowNS: 1e9, Cell: record.Cell{Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}}}
		r.Active, r.WarmUp = 4, record.WarmUp{TookNS: 250e6, Settled: true, Method: "MSER-5"}
		r.Intervals = course(open, slower)
		if open {
			r.Cell.Load.Model, r.Pacing = "open", &record.Pacing{}
			r.Intervals = course(open, func(s float64) float64 { return 1 / slower(s) })
		}
		for slice := range 20 {
			r.Slices = append(r.Slices, record.Slice{AtNS: int64(slice) * 150e6, TookNS: 50e6, Pace: slower(0.05*float64(slice) + 0.025)})
		}
		if c := (trial{Record: r, limits: DefaultLimits()}).checkSettled(); c.Level != record.OK {
			t.Errorf("open %v: %s: %s", open, c.Level, c.Detail)
		}
		for i := range r.Slices {
			r.Slices[i].Pace = 0
		}
		if c := (trial{Record: r, limits: DefaultLimits()}).checkSettled(); c.Level == record.OK {
			t.Errorf("open %v, unknown paces: %s", open, c.Detail)
		}
	}
}

// A warm-up that was too short to show a steady state is no fault if the window shows it, alone or together
// with the warm-up.
func TestASteadyStateIsSeenAfterwards(t *testing.T) {
	steady := func(float64) float64 { return 1 }
	warming := func(seconds float64) float64 { return 1 + 0.15*seconds } // too little to be a certain drift of the window
	for name, c := range map[string]struct {
		of     func(float64) float64
		enough *int64
		level  record.Level
	}{
		"steady from the warm-up on":    {steady, new(int64(50e6)), record.OK},
		"steady in the window at least": {steady, new(int64(600e6)), record.OK},
		"never steady":                  {func(s float64) float64 { return 1 + 0.5*math.Sin(9*s) }, nil, record.Warning},
		"still warming up, like a JVM":  {warming, new(int64(50e6)), record.Warning},
		"cold at first, and warm since": {func(s float64) float64 { return 1 - 0.5*math.Exp(-(s+0.25)/0.01) }, new(int64(80e6)), record.OK},
	} {
		r := &record.Record{WindowNS: 1e9, Cell: record.Cell{Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed"}}}
		r.Active, r.WarmUp = 4, record.WarmUp{TookNS: 250e6, EnoughNS: c.enough, Method: "MSER-5"}
		r.Intervals = course(false, c.of)
		if check := (trial{Record: r, limits: DefaultLimits()}).checkSettled(); check.Level != c.level {
			t.Errorf("%s: %s: %s", name, check.Level, check.Detail)
		}
	}
}

// A service that refuses connections for a while was not loaded too early.
func TestAnOutageIsNoWarmUp(t *testing.T) {
	for _, refused := range []bool{false, true} {
		r := sound(t)
		r.Cell.Stack = record.ServiceStack
		r.Intervals = course(false, func(seconds float64) float64 {
			if seconds < 0.5 {
				return 1
			}
			return 0.02 + seconds/4
		})
		r.WarmUp = record.WarmUp{Method: "mser", TookNS: 250e6, Requests: 1000}
		if refused {
			r.Errors = []record.ErrorCount{{Class: string(failure.Refused), Code: "Unknown", Count: 5, Example: "connection refused"}}
		}
		for _, c := range Judge(r, DefaultLimits()) {
			switch {
			case c.Name == "settled" && (c.Level == record.OK) != refused:
				t.Errorf("refused %v: %s, %s", refused, c.Level, c.Detail)
			case c.Name == "errors" && refused && !strings.HasPrefix(c.Detail, "the service stopped listening under load; 5 of "):
				t.Errorf("the failures are said to be %q", c.Detail)
			case c.Name == "errors" && refused && !strings.Contains(c.Detail, "the most frequent failure is refused: connection refused"):
				t.Errorf("the failures have no cause: %q", c.Detail)
			}
		}
	}
}
