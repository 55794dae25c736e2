package load

import (
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
)

// Every call that ends is in one interval, and intervals are as long as was asked for, whatever
// the load is.
func TestCallsAreInOneInterval(t *testing.T) {
	const every = 200 * time.Millisecond
	for name, plan := range map[string]Plan{
		"closed":     {Duration: time.Second, WarmUp: WarmUp{AtMost: 500 * time.Millisecond}},
		"requests":   {Requests: 100},
		"open":       {Duration: time.Second, Open: &Arrivals{RatePerSecond: 300}, WarmUp: WarmUp{AtMost: 300 * time.Millisecond}},
		"burst":      {Duration: time.Minute, Open: &Arrivals{Burst: 200}},
		"with drain": {Duration: time.Second, Drain: 300 * time.Millisecond},
	} {
		synctest.Test(t, func(t *testing.T) {
			answers := &server{delay: 7 * time.Millisecond, failEvery: 5}
			if name == "with drain" {
				answers.hangAfter = 50
			}
			var all []Interval
			var ended, failed int64
			plan.Callers, plan.Drain = callers(4, answers), max(plan.Drain, 100*time.Millisecond)
			plan.Intervals = &Intervals{Every: every, Report: func(i Interval) {
				all = append(all, i)
				ended += i.Responses.Count()
				failed += i.Failed
				if i.Failed > i.Responses.Count() {
					t.Errorf("%s: %d calls failed of %d that ended", name, i.Failed, i.Responses.Count())
				}
			}}
			began := clock.Now()
			mustRun(t, plan)
			over := clock.Now()
			if want := answers.calls.Load(); ended != want {
				t.Errorf("%s: %d calls ended in intervals, and %d were made", name, ended, want)
			}
			if want := answers.calls.Load() / 5; name != "with drain" && failed != want {
				t.Errorf("%s: %d calls failed in intervals, and %d did", name, failed, want)
			}
			at := began
			for n, i := range all {
				if i.StartNS != at {
					t.Errorf("%s: interval %d begins %v after the one before ended", name, n, time.Duration(i.StartNS-at))
				}
				at = i.StartNS + i.TookNS
				if off := at - began - int64(n+1)*int64(every); n < len(all)-1 && (off < 0 || off > int64(courseInterval)) {
					t.Errorf("%s: interval %d ends %v beside its edge", name, n, time.Duration(off))
				}
			}
			if at != over {
				t.Errorf("%s: the last interval ends %v before the load", name, time.Duration(over-at))
			}
		})
	}
}

// Plans that share intervals have the same edges, whenever they begin.
func TestPlansShareTheEdgesOfIntervals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := clock.Now()
		var ends []time.Duration
		shared := &Intervals{Every: time.Second, Report: func(i Interval) {
			ends = append(ends, time.Duration(i.StartNS+i.TookNS-began))
		}}
		plan := Plan{Callers: callers(1, &server{delay: time.Millisecond}), Duration: 1500 * time.Millisecond, Intervals: shared}
		mustRun(t, plan)
		time.Sleep(200 * time.Millisecond)
		mustRun(t, plan)
		const second = time.Second
		for i, want := range []time.Duration{second, 0, 2 * second, 3 * second} {
			if i >= len(ends) || want > 0 && (ends[i] < want || ends[i] > want+courseInterval) {
				t.Fatalf("intervals end after %v, want whole seconds but for the last of each load", ends)
			}
		}
	})
}

func TestResponsesOfAnInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var all []Interval
		mustRun(t, Plan{
			Callers: callers(1, &server{delay: 3 * time.Millisecond}), Duration: 90 * time.Millisecond,
			Open:      &Arrivals{Burst: 2},
			Intervals: &Intervals{Every: time.Second, Report: func(i Interval) { all = append(all, i) }},
		})
		if len(all) != 1 {
			t.Fatalf("%d intervals, want 1", len(all))
		}
		for q, want := range map[float64]float64{0.5: 0.003, 1: 0.006} { // the second waits for the first
			within(t, "response time", all[0].Responses.Quantile(q).Seconds(), want, 0.01)
		}
	})
}
