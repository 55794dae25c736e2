package load

import (
	"context"
	"errors"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/base/clock"
)

// server is a scripted one: a call takes delay, and one that arrives within
// the first stall of a period waits for the stall's end.
type server struct {
	delay         time.Duration
	stall, period time.Duration
	zero          int64
	calls         atomic.Int64
	failEvery     int64
	hangAfter     int64
}

func (s *server) Call(ctx context.Context) error {
	n := s.calls.Add(1)
	until := clock.Now() + int64(s.delay)
	if s.period > 0 {
		if into := (clock.Now() - s.zero) % int64(s.period); into < int64(s.stall) {
			until = clock.Now() - into + int64(s.stall)
		}
	}
	if s.hangAfter > 0 && n > s.hangAfter {
		<-ctx.Done()
		return ctx.Err()
	}
	if until > clock.Now() {
		select {
		case <-time.After(time.Duration(until - clock.Now())):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if s.failEvery > 0 && n%s.failEvery == 0 {
		return errors.New("scripted fault")
	}
	return nil
}

func callers(n int, c Caller) []Caller {
	all := make([]Caller, n)
	for i := range all {
		all[i] = c
	}
	return all
}

func mustRun(t *testing.T, p Plan) *Result {
	t.Helper()
	r, err := Run(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.Close)
	return r
}

func within(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s: %v, want %v within %v %%", what, got, want, 100*tolerance)
	}
}

func TestClosedLoopRecoversADelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers:  callers(10, &server{delay: 5 * time.Millisecond}),
			Duration: 2 * time.Second,
			WarmUp:   WarmUp{AtLeast: 100 * time.Millisecond, AtMost: 500 * time.Millisecond},
			Drain:    time.Second,
		})
		within(t, "mean", r.service.Mean().Seconds(), 0.005, 0.001)
		within(t, "completed", float64(r.Completed), 4000, 0.01)
		within(t, "in flight", r.InFlight, 10, 0.001)
		if r.Response != nil {
			t.Error("a closed loop without a limit has one latency, and two were kept")
		}
	})
}

func TestRequestsAreCountedByClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(7, &server{delay: time.Millisecond}), Requests: 100,
			WarmUp: WarmUp{AtMost: 50 * time.Millisecond}, KeepSamples: true,
		})
		if r.Requests != 700 {
			t.Errorf("%d requests, want 700", r.Requests)
		}
		for i, s := range r.Samples {
			if kept := len(slices.Collect(s.All())); kept != 100 {
				t.Errorf("client %d kept %d samples, want 100", i, kept)
			}
		}
	})
}

// A server that stalls 100 ms a second hides it from a generator that waits
// for it: coordinated omission. Response time must show it, and service time
// of so few clients must not.
func TestOpenLoopShowsAStall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{stall: 100 * time.Millisecond, period: time.Second, zero: clock.Now()}
		r := mustRun(t, Plan{
			Callers: callers(4, s), Duration: 10 * time.Second, Drain: time.Second,
			Open: &Arrivals{RatePerSecond: 10_000},
		})
		if r.Requests != 100_000 {
			t.Errorf("%d requests, want 100,000", r.Requests)
		}
		// A tenth of the arrivals meet the stall, evenly over its 100 ms, so
		// that a thousandth of all waits longer than 99 ms.
		within(t, "response P99.9", r.response.Quantile(0.999).Seconds(), 0.099, 0.02)
		within(t, "response P95", r.response.Quantile(0.95).Seconds(), 0.050, 0.05)
		if p := r.service.Quantile(0.999); p > time.Millisecond {
			t.Errorf("service P99.9 is %v: only 4 of 10,000 calls per second meet the stall in service", p)
		}
		if r.Pacing.Queued == 0 {
			t.Error("no arrival was counted as having found no free client")
		}
	})
}

// A window lasts until its end also if its last request was due before: the readings of CPU time must
// cover it.
func TestAnOpenLoopLastsUntilTheEndOfItsWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(1, &server{}), Duration: 900 * time.Millisecond,
			Open: &Arrivals{RatePerSecond: 2},
		})
		if early := r.End - clock.Now(); early > 0 {
			t.Errorf("it ended %v before the window", time.Duration(early))
		}
	})
}

func TestPoissonArrivals(t *testing.T) {
	s, err := newSchedule(Arrivals{RatePerSecond: 1000, Poisson: true, Seed: 7}, 100*time.Second, whole)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "arrivals", float64(s.count), 100_000, 0.02)
	var sum, squares float64
	for i := int64(1); i < s.count; i++ {
		gap := float64(s.instantOf(i, &windowBounds{}) - s.instantOf(i-1, &windowBounds{}))
		sum += gap
		squares += gap * gap
	}
	mean := sum / float64(s.count-1)
	deviation := math.Sqrt(squares/float64(s.count-1) - mean*mean)
	within(t, "mean gap", mean, 1e6, 0.02)
	within(t, "deviation of an exponential gap", deviation, mean, 0.02)
	again, _ := newSchedule(Arrivals{RatePerSecond: 1000, Poisson: true, Seed: 7}, 100*time.Second, whole)
	if again.instantOf(500, &windowBounds{}) != s.instantOf(500, &windowBounds{}) {
		t.Error("the same seed gave another schedule")
	}
}

func TestTheWaitForAPermitIsInResponseTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(10, &server{delay: 10 * time.Millisecond}), InFlight: 2,
			Duration: 2 * time.Second, Drain: time.Second,
			WarmUp: WarmUp{AtLeast: 200 * time.Millisecond, AtMost: 200 * time.Millisecond},
		})
		within(t, "service", r.service.Mean().Seconds(), 0.010, 0.01)
		within(t, "wait", r.wait.Mean().Seconds(), 0.040, 0.03)
		within(t, "response", r.response.Mean().Seconds(), 0.050, 0.03)
		within(t, "in flight", r.InFlight, 2, 0.01)
	})
}

func TestCallsThatOutlastTheWindowAreMeasured(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(5, &server{delay: 700 * time.Millisecond}), Duration: time.Second, Drain: 2 * time.Second,
		})
		// Each client begins two calls in the window and ends one.
		if r.Requests != 10 || r.Completed != 5 || r.Straddling != 5 {
			t.Errorf("%d requests, %d completed, %d straddling; want 10, 5, 5", r.Requests, r.Completed, r.Straddling)
		}
		within(t, "in flight", r.InFlight, 5, 0.001)
	})
}

func TestFailuresAreCountedByClass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{Callers: callers(1, &server{delay: time.Millisecond, failEvery: 10}), Requests: 1000})
		if len(r.Failures) != 1 || r.Failures[0].Count != 100 || r.Failures[0].Example != "scripted fault" {
			t.Errorf("failures %+v, want 100 scripted faults", r.Failures)
		}
	})
}

func TestAnOverloadIsUnsent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(1, &server{delay: 10 * time.Millisecond}), Duration: time.Second, Drain: time.Second,
			Open: &Arrivals{RatePerSecond: 1000},
		})
		if sent := r.Requests + r.Pacing.Unsent; sent < 999 || sent > 1001 {
			t.Errorf("%d sent and %d unsent, of 1000", r.Requests, r.Pacing.Unsent)
		}
		within(t, "unsent", float64(r.Pacing.Unsent), 800, 0.02)
	})
}

func TestInterruption(t *testing.T) {
	for name, p := range map[string]Plan{
		"a call that hangs":        {Callers: callers(2, &server{delay: time.Hour}), Requests: 1},
		"an arrival far in future": {Callers: callers(2, &server{}), Duration: time.Hour, Open: &Arrivals{RatePerSecond: 0.01}},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			began := time.Now()
			if _, err := Run(ctx, p); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s: got %v, want the context's end", name, err)
			}
			if took := time.Since(began); took > 1100*time.Millisecond {
				t.Errorf("%s: interrupted after 1 s, it ended after %v", name, took)
			}
		})
	}
}

func TestBadPlans(t *testing.T) {
	one := callers(1, &server{})
	for name, p := range map[string]Plan{
		"no clients":            {Requests: 1},
		"no bound":              {Callers: one},
		"two bounds":            {Callers: one, Requests: 1, Duration: 1},
		"open without duration": {Callers: one, Requests: 1, Open: &Arrivals{RatePerSecond: 1}},
		"rate of nothing":       {Callers: one, Duration: 1, Open: &Arrivals{}},
		"rate of NaN":           {Callers: one, Duration: 1, Open: &Arrivals{RatePerSecond: math.NaN()}},
		"endless schedule":      {Callers: one, Duration: time.Hour, Open: &Arrivals{RatePerSecond: 1e6}},
	} {
		if _, err := Run(t.Context(), p); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
