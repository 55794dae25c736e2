package load

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// after does something when the load has run for so long, and ends with it.
func after(t *testing.T, wait time.Duration, do func()) {
	t.Helper()
	timer := time.AfterFunc(wait, do)
	t.Cleanup(func() { timer.Stop() })
}

// A load that is told to end measures a shorter window, by the usual rules.
func TestALoadEndsEarly(t *testing.T) {
	const delay = 10 * time.Millisecond
	for name, plan := range map[string]Plan{
		"bounded by time":     {Duration: time.Hour},
		"bounded by requests": {Requests: 1e6},
		"open loop":           {Duration: time.Hour, Open: &Arrivals{RatePerSecond: 500}},
		"with a limit":        {Duration: time.Hour, InFlight: 5},
		"ramp":                {Duration: 4 * time.Second, Open: &Arrivals{Stages: []record.Stage{{Length: 4 * time.Second, From: 500, To: 501}}}},
	} {
		synctest.Test(t, func(t *testing.T) {
			plan.Callers, plan.Drain, plan.Controls = callers(5, &server{delay: delay}), time.Second, &Controls{}
			if plan.Open != nil {
				plan.Callers = callers(20, &server{delay: delay})
			}
			closed := 0
			plan.OnClose = func() { closed++ }
			after(t, 2*time.Second, plan.Controls.End)
			began := time.Now()
			r := mustRun(t, plan)
			if took := time.Since(began); took > 2100*time.Millisecond {
				t.Errorf("%s: told to end after 2 s, it ended after %v", name, took)
			}
			if !r.EndedEarly || closed != 1 {
				t.Errorf("%s: ended early: %v, its window closed %d times", name, r.EndedEarly, closed)
			}
			within(t, name+": window", time.Duration(r.End-r.Begin).Seconds(), 2, 0.005)
			within(t, name+": requests", float64(r.Requests), 1000, 0.02)
			within(t, name+": completed", float64(r.Completed), 1000, 0.02)
			within(t, name+": in flight", r.InFlight, 5, 0.02)
			if r.service.Max() != delay {
				t.Errorf("%s: the slowest call took %v, want %v", name, r.service.Max(), delay)
			}
			if r.Pacing != nil && r.Pacing.Unsent != 0 {
				t.Errorf("%s: %d arrivals were not sent, and all before its end were due", name, r.Pacing.Unsent)
			}
		})
	}
}

// Calls that began before the end are waited for, and those that never end are cancelled
// after the drain.
func TestAnEarlyEndWaitsForItsCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, time.Second, controls.End)
		r := mustRun(t, Plan{
			Callers: callers(3, &server{delay: 700 * time.Millisecond}), Duration: time.Hour, Drain: 10 * time.Second, Controls: controls,
		})
		if r.Requests != 6 || r.Completed != 3 || r.Straddling != 3 || len(r.Failures) != 0 {
			t.Errorf("%d requests, %d completed, %d straddling, %d kinds of failures; want 6, 3, 3, none", r.Requests, r.Completed, r.Straddling, len(r.Failures))
		}
	})
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, time.Second, controls.End)
		began := time.Now()
		r := mustRun(t, Plan{Callers: callers(3, &server{delay: time.Hour}), Requests: 1, Drain: 2 * time.Second, Controls: controls})
		if took := time.Since(began); took < 3*time.Second || took > 3100*time.Millisecond {
			t.Errorf("a drain of 2 s after 1 s ended after %v", took)
		}
		if len(r.Failures) != 1 || r.Failures[0].Count != 3 {
			t.Errorf("failures %+v, want 3 cancelled calls", r.Failures)
		}
	})
}

func TestAnEndBeforeTheWindowMeasuresNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, 100*time.Millisecond, controls.End)
		_, err := Run(t.Context(), Plan{
			Callers: callers(3, &server{delay: time.Millisecond}), Duration: time.Second, Controls: controls,
			WarmUp: WarmUp{AtLeast: time.Second, AtMost: time.Second},
		})
		if !errors.Is(err, ErrNothingMeasured) {
			t.Errorf("got %v, want %v", err, ErrNothingMeasured)
		}
	})
}

// An end that comes with the window's own is none.
func TestALateEndChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, time.Second+time.Millisecond, controls.End)
		r := mustRun(t, Plan{Callers: callers(3, &server{delay: 10 * time.Millisecond}), Duration: time.Second, Controls: controls})
		if r.EndedEarly || r.End-r.Begin != int64(time.Second) {
			t.Errorf("ended early: %v, after %v", r.EndedEarly, time.Duration(r.End-r.Begin))
		}
	})
}

// What a pause leaves is what the load without one measures.
func TestAPauseIsNoPartOfTheWindow(t *testing.T) {
	const delay = 10 * time.Millisecond
	for name, plan := range map[string]Plan{
		"bounded by time":     {Duration: 2 * time.Second},
		"bounded by requests": {Requests: 200},
		"open loop":           {Duration: 2 * time.Second, Open: &Arrivals{RatePerSecond: 500}},
		"poisson":             {Duration: 2 * time.Second, Open: &Arrivals{RatePerSecond: 500, Poisson: true, Seed: 3}},
		"paused in warm-up":   {Duration: 2 * time.Second, WarmUp: WarmUp{AtLeast: 1500 * time.Millisecond, AtMost: 1500 * time.Millisecond}},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{delay: delay}
			plan.Callers, plan.Drain, plan.Controls, plan.KeepSamples = callers(5, s), time.Second, &Controls{}, true
			if plan.Open != nil {
				plan.Callers = callers(30, s)
			}
			after(t, time.Second, plan.Controls.Pause)
			var still, resumed atomic.Int64
			after(t, 1200*time.Millisecond, func() { still.Store(s.calls.Load()) })
			after(t, 11*time.Second, func() { resumed.Store(s.calls.Load()); plan.Controls.Resume() })
			began := time.Now()
			r := mustRun(t, plan)
			if still.Load() != resumed.Load() || still.Load() == 0 {
				t.Errorf("%s: %d calls were made before the pause, and %d until its end", name, still.Load(), resumed.Load())
			}
			length := 2 * time.Second
			within(t, name+": it took", time.Since(began).Seconds(), (10*time.Second + length + r.warmedUpFor()).Seconds(), 0.01)
			within(t, name+": window", time.Duration(r.End-r.Begin-r.PausedNS).Seconds(), length.Seconds(), 0.01)
			if want := 10 * time.Second; r.Pauses != 1 || plan.WarmUp.AtMost == 0 && time.Duration(r.PausedNS).Round(100*time.Millisecond) != want {
				t.Errorf("%s: %d pauses of %v, want 1 of %v", name, r.Pauses, time.Duration(r.PausedNS), want)
			}
			within(t, name+": requests", float64(r.Requests), 1000, 0.02)
			within(t, name+": completed", float64(r.Completed), 1000, 0.02)
			within(t, name+": in flight", r.InFlight, 5, 0.03)
			if r.service.Max() > delay || r.response != nil && r.response.Max() > delay+100*time.Microsecond {
				t.Errorf("%s: the slowest call took %v: a pause is in it", name, r.service.Max())
			}
			holdsTogether(t, name, r)
		})
	}
}

func (r *Result) warmedUpFor() time.Duration { return time.Duration(r.WarmUp.TookNS) }

// holdsTogether wants the course and the samples to have no hole.
func holdsTogether(t *testing.T, name string, r *Result) {
	t.Helper()
	end := r.Intervals[0].StartNS
	for _, i := range r.Intervals {
		if i.StartNS != end {
			t.Errorf("%s: an interval begins at %v, and the last one ended at %v", name, time.Duration(i.StartNS), time.Duration(end))
		}
		end = i.StartNS + i.TookNS
	}
	within(t, name+": the course ends", time.Duration(end).Seconds(), 2, 0.02)
	// By Little's law.
	within(t, name+": time in calls", r.service.Mean().Seconds()*float64(r.Requests), r.InFlight*time.Duration(r.End-r.Begin-r.PausedNS).Seconds(), 0.03)
}

// A pause that nobody ends does not keep a load that is told to end, nor one that is cancelled.
func TestAPausedLoadEnds(t *testing.T) {
	for name, open := range map[string]*Arrivals{"closed loop": nil, "open loop": {RatePerSecond: 500}} {
		synctest.Test(t, func(t *testing.T) {
			s, controls := &server{delay: 10 * time.Millisecond}, &Controls{}
			after(t, time.Second, controls.Pause)
			var paused atomic.Int64
			after(t, 4*time.Second, func() { paused.Store(s.calls.Load()); controls.End() })
			began := time.Now()
			r := mustRun(t, Plan{Callers: callers(5, s), Duration: time.Hour, Open: open, Controls: controls})
			if took := time.Since(began); took > 4100*time.Millisecond {
				t.Errorf("%s: told to end after 4 s, it ended after %v", name, took)
			}
			if !r.EndedEarly || r.PausedNS != 0 {
				t.Errorf("%s: ended early: %v, paused for %v", name, r.EndedEarly, time.Duration(r.PausedNS))
			}
			within(t, name+": window", time.Duration(r.End-r.Begin).Seconds(), 1, 0.07)
			if made := s.calls.Load(); made != paused.Load() {
				t.Errorf("%s: %d calls more were made after an end in a pause", name, made-paused.Load())
			}
		})
		synctest.Test(t, func(t *testing.T) {
			controls := &Controls{}
			controls.Pause()
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			_, err := Run(ctx, Plan{Callers: callers(5, &server{delay: time.Millisecond}), Duration: time.Hour, Open: open, Controls: controls})
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the context's end", name, err)
			}
		})
	}
}

// Clients that made their requests are not kept by a pause, and its end changes nothing.
func TestAPauseInTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, 500*time.Millisecond, controls.Pause)
		r := mustRun(t, Plan{Callers: callers(3, &server{delay: time.Second}), Requests: 1, Controls: controls})
		if r.Requests != 3 || r.PausedNS != 0 {
			t.Errorf("%d requests, paused for %v; want 3 in a window that ended as the pause began", r.Requests, time.Duration(r.PausedNS))
		}
		within(t, "window", time.Duration(r.End-r.Begin).Seconds(), 0.5, 0.02)
	})
}

// Many pauses, at any instant, lose and invent nothing.
func TestManyPauses(t *testing.T) {
	for name, open := range map[string]*Arrivals{"closed loop": nil, "open loop": {RatePerSecond: 1000}} {
		synctest.Test(t, func(t *testing.T) {
			s, controls := &server{delay: 7 * time.Millisecond}, &Controls{}
			random := rand.New(rand.NewPCG(1, 2))
			ended := make(chan struct{})
			go func() { // ends with the load
				for n := 0; ; n++ {
					select {
					case <-ended:
						return
					case <-time.After(time.Duration(random.Int64N(int64(300 * time.Millisecond)))):
					}
					if n%2 == 0 {
						controls.Pause()
					} else {
						controls.Resume()
					}
				}
			}()
			r := mustRun(t, Plan{Callers: callers(20, s), Duration: 3 * time.Second, Drain: time.Second, Open: open, Controls: controls})
			close(ended)
			within(t, name+": window", time.Duration(r.End-r.Begin-r.PausedNS).Seconds(), 3, 1e-9)
			if r.Pauses < 10 {
				t.Errorf("%s: %d pauses", name, r.Pauses)
			}
			if r.Pacing != nil {
				within(t, name+": arrivals", float64(r.Requests), 3000, 0.001)
			}
			busy := r.InFlight * float64(r.End-r.Begin-r.PausedNS)
			product := float64(r.service.Mean()) * float64(r.Requests)
			if off := busy - product; off > float64(r.StraddlingNS+r.BacklogNS) || -off > float64(r.StraddlingNS+r.BacklogNS) {
				t.Errorf("%s: Little's law: off by %v, more than the %d straddling calls", name, time.Duration(off), r.Straddling)
			}
		})
	}
}

// Calls in flight at the edges of a pause straddle them, and are of it as far as they are
// outside.
func TestCallsAcrossAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		controls := &Controls{}
		after(t, 500*time.Millisecond, controls.Pause)
		after(t, 2*time.Second, controls.Resume)
		r := mustRun(t, Plan{
			Callers: callers(3, &server{delay: 700 * time.Millisecond}), Duration: time.Second, Drain: time.Second, Controls: controls,
		})
		// Each client begins a call before the pause, which ends in it, and one after it,
		// which outlasts the window.
		if r.Requests != 6 || r.Completed != 0 || r.Straddling != 6 {
			t.Errorf("%d requests, %d completed, %d straddling; want 6, 0, 6", r.Requests, r.Completed, r.Straddling)
		}
		within(t, "in flight", r.InFlight, 3, 0.001)
	})
}

// Every place that a call can have beside a pause, from 200 to 400 of a window from 100 to 500.
func TestPlacesOfACall(t *testing.T) {
	for name, c := range map[string]struct {
		due, sent, ended int64
		want             callTotals
	}{
		"before the window":       {10, 10, 100, callTotals{warmedUp: 1}},
		"into the window":         {10, 10, 150, callTotals{straddling: 1, straddled: 140, busy: 50, completed: 1}},
		"before the pause":        {110, 110, 200, callTotals{recorded: 1, completed: 1, busy: 90}},
		"into the pause":          {110, 110, 300, callTotals{recorded: 1, straddling: 1, straddled: 190, busy: 90, endedBetween: 1}},
		"over the pause":          {110, 110, 450, callTotals{recorded: 1, completed: 1, straddling: 1, straddled: 340, busy: 140}},
		"due before, sent in it":  {110, 250, 300, callTotals{recorded: 1, backlog: 50, endedBetween: 1}},
		"due before, sent behind": {110, 410, 450, callTotals{recorded: 1, completed: 1, backlog: 40, busy: 40}},
		"due in it":               {250, 250, 450, callTotals{completed: 1, straddling: 1, straddled: 200, busy: 50}},
		"within it":               {250, 250, 300, callTotals{endedBetween: 1}},
		"behind it":               {400, 400, 500, callTotals{recorded: 1, completed: 1, busy: 100}},
		"over all":                {10, 10, 600, callTotals{straddling: 1, straddled: 590, busy: 200}},
		"after the window":        {500, 500, 600, callTotals{}},
	} {
		w := &window{}
		w.bounds.Store(&windowBounds{begin: 100, end: 500, pauses: []pause{{from: 200, to: 400, send: 400}}})
		one := &client{window: w, service: latency.NewRecorder()}
		one.countCall(&call{intended: c.due, freed: c.due, ready: c.sent, sent: c.sent, ended: c.ended}, nil)
		one.service.Close()
		one.occupied, one.finish = 0, 0
		if one.callTotals != c.want {
			t.Errorf("%s: %+v, want %+v", name, one.callTotals, c.want)
		}
	}
}
