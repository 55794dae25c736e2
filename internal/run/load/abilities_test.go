package load

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"
	"testing/synctest"
	"time"
)

// reader calls a server and pauses after each call.
type reader struct {
	*server
	pauses time.Duration
	check  time.Duration // how long looking at an answer takes
}

func (r reader) Think() time.Duration { return r.pauses }

func (r reader) Check() error { time.Sleep(r.check); return nil }

// A pause is part of no latency, of no call in flight and of no time between calls, and the
// three figures of Little's law agree.
func TestAPauseIsNoPartOfACall(t *testing.T) {
	for _, plan := range []Plan{
		{Duration: 10 * time.Second},
		{Duration: 10 * time.Second, WarmUp: WarmUp{AtLeast: 500 * time.Millisecond, AtMost: time.Second}},
		{Requests: 100},
		{Duration: 10 * time.Second, InFlight: 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			plan.Drain = 10 * time.Second
			plan.Callers = callers(4, reader{server: &server{delay: 10 * time.Millisecond}, pauses: 90 * time.Millisecond})
			r := mustRun(t, plan)
			if plan.InFlight == 0 {
				within(t, "mean service time", r.service.Mean().Seconds(), 0.010, 0.001)
				within(t, "calls in flight", r.InFlight, 0.4, 0.02)
			}
			seconds := time.Duration(r.End - r.Begin).Seconds()
			within(t, "calls in flight by Little's law", float64(r.Completed)*r.service.Mean().Seconds()/seconds, r.InFlight, 0.03)
			if share := r.Between.Seconds() / (4 * seconds); share > 0.001 {
				t.Errorf("%v between calls, of clients who paused", r.Between)
			}
			within(t, "time paused", time.Duration(r.ThoughtNS).Seconds(), 4*0.9*seconds, 0.03)
		})
	}
}

// What looking at answers takes is no pause: it stays the generator's, whatever users think.
func TestCheckingIsNoPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(4, reader{server: &server{delay: 10 * time.Millisecond}, pauses: 60 * time.Millisecond, check: 30 * time.Millisecond}),
			Duration: 10 * time.Second, Drain: time.Second,
		})
		within(t, "time between calls", r.Between.Seconds(), 4*10*0.3, 0.02)
		within(t, "time paused", time.Duration(r.ThoughtNS).Seconds(), 4*10*0.6, 0.02)
	})
}

// A trial ends with its window, and not with the pauses that the end finds.
func TestPausesEndWithTheWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begin := time.Now()
		r := mustRun(t, Plan{
			Callers:  callers(3, reader{server: &server{delay: time.Millisecond}, pauses: time.Hour}),
			Duration: time.Second, Drain: time.Minute,
		})
		if took := time.Since(begin); took > time.Second+2*courseInterval {
			t.Errorf("a window of a second took %v", took)
		}
		if r.Requests != 3 {
			t.Errorf("%d requests, want one of each client", r.Requests)
		}
		within(t, "time paused", time.Duration(r.ThoughtNS).Seconds(), 3, 0.01)
	})
}

// A call that outlasts the window is waited for while others pause.
func TestCallsAreAwaitedWhileOthersPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := callers(3, reader{server: &server{delay: time.Millisecond}, pauses: time.Hour})
		all = append(all, &server{delay: 3 * time.Second})
		r := mustRun(t, Plan{Callers: all, Duration: time.Second, Drain: time.Minute})
		if r.Requests != 4 || r.service.Max() < 3*time.Second {
			t.Errorf("%d requests, the slowest %v: want 4, and one of 3 s", r.Requests, r.service.Max())
		}
	})
}

// Without a duration a pause longer than the drain is no call that hangs.
func TestALongPauseIsNoHang(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(2, reader{server: &server{delay: time.Millisecond}, pauses: time.Minute}),
			Requests: 3, Drain: time.Second,
		})
		if r.Requests != 6 || len(r.Failures) > 0 {
			t.Errorf("%d requests, failures %v: want 6 and none", r.Requests, r.Failures)
		}
		within(t, "window", time.Duration(r.End-r.Begin).Seconds(), 120, 0.01)
	})
}

// An open loop keeps its schedule.
func TestNobodyPausesInAnOpenLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(1, reader{server: &server{delay: time.Millisecond}, pauses: time.Second}),
			Duration: time.Second, Drain: time.Minute, Open: &Arrivals{RatePerSecond: 100},
		})
		if r.Requests != 100 || r.ThoughtNS != 0 || r.response.Max() > 2*time.Millisecond {
			t.Errorf("%d requests, paused for %v, the slowest %v", r.Requests, time.Duration(r.ThoughtNS), r.response.Max())
		}
	})
}

// walker makes calls of two names in turn: look takes 1 ms, buy 3 ms, and each fourth buy fails.
type walker struct{ calls int }

func (w *walker) Call(context.Context) error {
	w.calls++
	time.Sleep(time.Millisecond)
	if w.Name() == "look" {
		return nil
	}
	time.Sleep(2 * time.Millisecond)
	if w.calls%8 == 0 {
		return errors.New("sold out")
	}
	return nil
}

func (w *walker) Name() string { return [...]string{"buy", "look"}[w.calls%2] }

// Calls are recorded by name beside the whole, whose figures stay what they are.
func TestCallsByName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Callers: []Caller{&walker{}, &walker{}}, Duration: 4 * time.Second, Drain: time.Second})
		if err := r.Encode(); err != nil {
			t.Fatal(err)
		}
		if len(r.Named) != 2 || r.Named[0].Name != "buy" || r.Named[1].Name != "look" {
			t.Fatalf("by name: %+v", r.Named)
		}
		buy, look := r.Named[0], r.Named[1]
		within(t, "time of buy", float64(buy.Service.Sum)/float64(buy.Requests), 3e6, 0.01)
		within(t, "time of look", float64(look.Service.Sum)/float64(look.Requests), 1e6, 0.01)
		within(t, "failures of buy", float64(buy.Failed)/float64(buy.Requests), 0.25, 0.01)
		if look.Failed != 0 || buy.Requests+look.Requests != r.Requests || buy.Completed+look.Completed != r.Completed {
			t.Errorf("the whole has %d requests and %d completed; by name %+v", r.Requests, r.Completed, r.Named)
		}
		if well := float64(buy.CompletedWell); math.Abs(well-0.75*float64(buy.Completed)) > 2 {
			t.Errorf("%v of %d ended well, want three of four", well, buy.Completed)
		}
	})
}

// manyNames gives each call another name.
type manyNames struct{ calls int }

func (m *manyNames) Call(context.Context) error { m.calls++; return nil }

func (m *manyNames) Name() string { return fmt.Sprint(m.calls) }

func TestNamesAreBounded(t *testing.T) {
	r := mustRun(t, Plan{Callers: []Caller{&manyNames{}}, Requests: 10 * maxCallNames})
	if len(r.named) != maxCallNames || r.Requests != 10*maxCallNames {
		t.Errorf("%d names and %d requests, want %d and all", len(r.named), r.Requests, maxCallNames)
	}
}
