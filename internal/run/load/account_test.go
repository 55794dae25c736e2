package load

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/record"

	"wirelab.dev/internal/base/clock"
)

// Every call is one of three: it ended before the window, it was in flight when
// the window opened, or it is measured.
func TestEveryCallIsAccountedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{delay: 1500 * time.Microsecond}
		r := mustRun(t, Plan{Callers: callers(5, s), Requests: 100, WarmUp: WarmUp{AtMost: 60 * time.Millisecond}})
		if made := r.WarmUp.Requests + r.Straddling + r.Requests; made != s.calls.Load() {
			t.Errorf("%d warm-up, %d straddling and %d measured make %d calls; the server saw %d",
				r.WarmUp.Requests, r.Straddling, r.Requests, made, s.calls.Load())
		}
		if r.Straddling != 5 || r.StraddlingNS != int64(5*s.delay) {
			t.Errorf("%d straddling calls took %v; want 5, 7.5 ms", r.Straddling, time.Duration(r.StraddlingNS))
		}
		within(t, "warm-up", float64(r.WarmUp.Requests), 5*41, 0.001)
	})
}

// What was sent after the window crosses none of its edges, though it was
// meant to go out in it.
func TestABacklogDoesNotStraddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(1, &server{delay: 10 * time.Millisecond}), Duration: 100 * time.Millisecond, Drain: 10 * time.Second,
			Open: &Arrivals{RatePerSecond: 1000},
		})
		if r.Requests != 100 || r.Completed != 10 || r.Straddling > 1 {
			t.Errorf("%d requests, %d completed, %d straddling; want 100, 10, at most 1", r.Requests, r.Completed, r.Straddling)
		}
		if late := time.Duration(r.BacklogNS); late != 900*time.Millisecond {
			t.Errorf("what was sent after the window took %v, want 900ms", late)
		}
	})
}

// A server that stops answering ends the trial, however its window is bounded.
func TestHangEndsWithTheDrain(t *testing.T) {
	hangs := func() []Caller { return callers(3, &server{delay: time.Millisecond, hangAfter: 30}) }
	for name, c := range map[string]struct {
		plan     Plan
		requests int64
	}{
		"bounded by time":     {Plan{Callers: hangs(), Duration: time.Second, Drain: time.Second}, 33},
		"bounded by requests": {Plan{Callers: hangs(), Requests: 100, Drain: time.Second}, 33},
		"one client of three": {Plan{Callers: append(callers(2, &server{delay: time.Millisecond}), hangs()[0]), Requests: 100, Drain: time.Second}, 231},
	} {
		synctest.Test(t, func(t *testing.T) {
			c.plan.Classify = func(err error) record.ErrorCount { return record.ErrorCount{Class: err.Error()} }
			began := time.Now()
			r := mustRun(t, c.plan)
			if took := time.Since(began); took > 2100*time.Millisecond {
				t.Errorf("%s: it ended after %v", name, took)
			}
			if r.Requests != c.requests {
				t.Errorf("%s: %d requests, want %d", name, r.Requests, c.requests)
			}
			hanging := r.Requests - 30
			if c.requests == 231 {
				hanging = 1
			}
			if len(r.Failures) != 1 || r.Failures[0].Count != hanging || r.Failures[0].Class != context.Canceled.Error() {
				t.Errorf("%s: failures %+v, want %d cancelled calls", name, r.Failures, hanging)
			}
		})
	}
}

// Clients that wait for a permit when the drain is over are cancelled too, and
// none waits for a permit for ever.
func TestAHangBehindAnInFlightLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(5, &server{delay: time.Millisecond, hangAfter: 20}),
			Requests: 100, InFlight: 2, Drain: time.Second,
		})
		if r.Requests != 25 || len(r.Failures) != 1 || r.Failures[0].Count != 5 {
			t.Errorf("%d requests, failures %+v; want 20 that ended and 5 that were cancelled", r.Requests, r.Failures)
		}
		within(t, "the longest wait for a permit", r.wait.Max().Seconds(), 1, 0.03)
	})
}

// A client that hangs from the warm-up on measures nothing, and must not be
// taken for one that has finished.
func TestAHangFromTheWarmUpOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(2, &server{delay: time.Hour}),
			Requests: 10, Drain: time.Second, WarmUp: WarmUp{AtMost: 100 * time.Millisecond},
		})
		within(t, "active", r.Active, 2, 0.001)
		within(t, "in flight", r.InFlight, 2, 0.001)
		if r.Requests != 0 || r.Between != 0 {
			t.Errorf("%d requests, %v between them; want none", r.Requests, r.Between)
		}
	})
}

// The window's edges are told when they come, not when the drain is over.
func TestOnOpenAndOnCloseAreCalled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var opened, closed []int64
		r := mustRun(t, Plan{
			Callers: callers(2, &server{delay: 700 * time.Millisecond}), Duration: time.Second, Drain: 5 * time.Second,
			WarmUp:  WarmUp{AtMost: 50 * time.Millisecond},
			OnOpen:  func() { opened = append(opened, clock.Now()) },
			OnClose: func() { closed = append(closed, clock.Now()) },
		})
		if len(opened) != 1 || opened[0] > r.Begin || r.Begin-opened[0] > int64(2*courseInterval) {
			t.Errorf("opening told at %d, begin %d", opened, r.Begin)
		}
		if len(closed) != 1 || closed[0] < r.End || closed[0]-r.End > int64(2*courseInterval) {
			t.Errorf("closing told at %d, end %d", closed, r.End)
		}
	})
}

// What clients do after the window, when they stop one by one, is no part of
// the steady state.
func TestEnoughLooksAtTheWindowOnly(t *testing.T) {
	var course []record.Interval
	for i := range int64(200) {
		requests := int64(50)
		if i >= 120 {
			requests = 1 // the window is over
		}
		course = append(course, record.Interval{StartNS: i * int64(courseInterval), TookNS: int64(courseInterval), Requests: requests})
	}
	var whole, window record.WarmUp
	if setSteadyBegin(&whole, course, throughputs); whole.EnoughNS != nil {
		t.Error("the whole course counts as steady: the test proves nothing")
	}
	if setSteadyBegin(&window, intervalsUntil(course, 120*int64(courseInterval)), throughputs); window.EnoughNS == nil || *window.EnoughNS != 0 {
		t.Errorf("steady from %v on, want from the start", window.EnoughNS)
	}
}

// slowChecker answers at once and takes its time over the answer.
type slowChecker struct {
	emptyCaller
	takes time.Duration
}

func (s slowChecker) Check() error {
	time.Sleep(s.takes)
	return nil
}

// Time that clients spend outside of calls is the generator's, and seen.
func TestTimeBetweenCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Callers: callers(2, slowChecker{takes: time.Millisecond}), Requests: 100})
		within(t, "between", r.Between.Seconds(), 2*99*0.001, 0.001)
	})
}
