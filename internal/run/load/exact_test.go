package load

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Exactly the requests of a number are sent, and all are measured: no request before the window or
// after it keeps up the load.
func TestANumberOfRequestsIsExact(t *testing.T) {
	const number, clients = 403, 10
	slow := 130 * time.Millisecond // longer than the gap of all clients: requests queue
	for name, p := range map[string]Plan{
		"closed":   {Requests: number / clients, Extra: number % clients},
		"constant": {Open: &Arrivals{RatePerSecond: 400, Total: number}},
		"poisson":  {Open: &Arrivals{RatePerSecond: 400, Total: number, Poisson: true, Seed: 7}},
		"lanes":    {Open: &Arrivals{RatePerSecond: 400, Total: number, Own: true}},
		"one":      {Open: &Arrivals{RatePerSecond: 0.001, Total: 1}},
	} {
		for _, takes := range []time.Duration{time.Millisecond, slow} {
			t.Run(fmt.Sprint(name, takes), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := &server{delay: takes}
					p.Callers, p.Drain = callers(clients, s), time.Minute
					want := int64(number)
					if p.Open != nil {
						want = int64(p.Open.Total)
						p.Duration = time.Duration(float64(want) / p.Open.RatePerSecond * float64(time.Second))
					}
					r := mustRun(t, p)
					if s.calls.Load() != want || r.Requests != want {
						t.Errorf("the server saw %d requests; %d are measured, want %d", s.calls.Load(), r.Requests, want)
					}
				})
			})
		}
	}
}

// The parts of a group send the number together, whatever their schedules draw.
func TestAGroupSendsTheNumber(t *testing.T) {
	const number, of = 1001, 7
	for seed := range uint64(20) {
		for _, poisson := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				s := &server{delay: time.Millisecond}
				var all sync.WaitGroup
				for _, first := range []int{0, 3, 5} {
					own := map[int]int{0: 3, 3: 2, 5: 2}[first]
					all.Go(func() {
						r, err := Run(context.Background(), Plan{
							Callers: callers(own, s), Group: &Group{First: first, Of: of}, Drain: time.Minute, Duration: 2002 * time.Millisecond,
							Open: &Arrivals{RatePerSecond: 500, Total: number, Poisson: poisson, Seed: seed},
						})
						if err != nil {
							t.Error(err)
							return
						}
						r.Close()
					})
				}
				all.Wait()
				if s.calls.Load() != number {
					t.Errorf("poisson %v, seed %d: the server saw %d requests, want %d", poisson, seed, s.calls.Load(), number)
				}
			})
		}
	}
}

func TestANumberNeedsItsTime(t *testing.T) {
	_, err := Run(t.Context(), Plan{Callers: callers(1, emptyCaller{}), Duration: time.Second, Open: &Arrivals{RatePerSecond: 10, Total: 11}})
	if err == nil || err.Error() != "load: 11 requests at 10 per second take longer than 1s: set a longer duration" {
		t.Errorf("found %v", err)
	}
}
