package load

import (
	"math"
	"testing"
	"testing/synctest"
	"time"

	"wirelab.dev/internal/data/record"
)

// A burst is due at once, and loses none: a server that takes 1 ms answers 4
// clients' 1,000 requests in 250 ms.
func TestBurst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(4, &server{delay: time.Millisecond}), Duration: time.Minute, Drain: time.Second,
			Open: &Arrivals{Burst: 1000},
		})
		if r.Requests != 1000 || r.Completed != 1000 || r.Pacing.Unsent != 0 {
			t.Errorf("of 1,000 at once, %d were made and %d answered, %d unsent", r.Requests, r.Completed, r.Pacing.Unsent)
		}
		within(t, "time to drain", time.Duration(r.End-r.Begin).Seconds(), 0.250, 0.01)
		within(t, "response of the one in the middle", r.response.Quantile(0.5).Seconds(), 0.125, 0.02)
		within(t, "service time", r.service.Quantile(0.5).Seconds(), 0.001, 0.01)
		within(t, "calls in flight", r.InFlight, 4, 0.01)
	})
}

func TestRamp(t *testing.T) {
	for name, poisson := range map[string]bool{"constant": false, "poisson": true} {
		t.Run(name, func(t *testing.T) {
			s, err := newSchedule(Arrivals{Stages: []record.Stage{{Length: 10 * time.Second, From: 1000, To: 9000}}, Poisson: poisson}, 10*time.Second, whole)
			if err != nil {
				t.Fatal(err)
			}
			tolerance := 4 / math.Sqrt(float64(s.count))
			within(t, "arrivals", float64(s.count), 50_000, tolerance)
			first := s.countDueBefore(int64(5*time.Second), &windowBounds{})
			within(t, "arrivals of the first half", float64(first), 15_000, tolerance*2)
		})
	}
	falling, err := newSchedule(Arrivals{Stages: []record.Stage{{Length: 10 * time.Second, From: 1000, To: 100}}}, 10*time.Second, whole)
	if err != nil {
		t.Fatal(err)
	}
	within(t, "arrivals of a falling ramp", float64(falling.count), 5500, 0.001)
}

func TestRampRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := mustRun(t, Plan{
			Callers: callers(50, &server{delay: time.Millisecond}), Duration: 2 * time.Second, Drain: time.Second,
			Open: &Arrivals{Stages: []record.Stage{{Length: 2 * time.Second, From: 100, To: 1900}}},
		})
		within(t, "requests", float64(r.Requests), 2000, 0.002)
	})
}

// Ten requests of four clients: three for the first two, two for the others.
func TestExtraRequestsAreTheFirstClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var clients []Caller
		var servers []*server
		for range 4 {
			s := &server{delay: time.Millisecond}
			servers = append(servers, s)
			clients = append(clients, s)
		}
		r := mustRun(t, Plan{Callers: clients, Requests: 2, Extra: 2, Drain: time.Second})
		if r.Requests != 10 {
			t.Errorf("%d requests, want 10", r.Requests)
		}
		for i, s := range servers {
			if got, want := s.calls.Load(), int64(2); got != want && (i >= 2 || got != want+1) {
				t.Errorf("client %d made %d calls", i, got)
			}
		}
	})
	for _, wrong := range []Plan{{Requests: 2, Extra: 1}, {Requests: 2, Extra: -1}, {Duration: time.Second, Extra: 1}} {
		wrong.Callers = callers(1, &server{})
		if _, err := Run(t.Context(), wrong); err == nil {
			t.Errorf("%d requests and %d extra were taken", wrong.Requests, wrong.Extra)
		}
	}
}
