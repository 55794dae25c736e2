package conform

import (
	"slices"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/run/worker"
)

// answerDelay is the time that the check holds back each answer. A call cannot take less.
const answerDelay = 20 * time.Millisecond

// checkTimes compares the client's times with the time that answers were held back, and with the
// check's own clock. All bounds hold on a machine of any speed: a busy machine only makes calls take
// longer, and a caller's calls follow one another.
func (p Peer) checkTimes(t T) {
	loads := []worker.Load{
		{Model: "closed", RequestsPerClient: requestsPerCaller / 2},
		{Model: "closed", DurationNS: int64(300 * time.Millisecond), WarmUpAtLeastNS: int64(50 * time.Millisecond), WarmUpAtMostNS: int64(100 * time.Millisecond)},
	}
	if p.Able == nil || slices.Contains(p.Able.Loads, "open") {
		loads = append(loads, worker.Load{Model: "open", RatePerSecond: 100, Arrivals: "constant", DurationNS: int64(300 * time.Millisecond)})
	}
	for _, load := range loads {
		server := p.startReferenceServer(t)
		between := startRelay(t, p.networkName(), server.Address, answerDelay)
		server.Address = between.address
		load.DrainNS = int64(waitTimeout)
		seen := sighting{callers: callersPerClient, floor: int64(answerDelay), began: clock.Now()}
		result := p.measureUntilRequest(t, p.clientSpec(server), load)
		seen.ended = clock.Now()
		if len(result.Failures) > 0 {
			t.Fatalf("calls through a relay failed: %+v", result.Failures)
		}
		if between.answered.Load() == 0 {
			p.expectCallsWithoutServer(t, server)
			return
		}
		seen.expectTimes(t, result)
		if least := int64(load.RequestsPerClient) * seen.floor; result.EndNS-result.BeginNS < least {
			t.Errorf("the client's window lasts %v, but each caller made %d calls, whose answers were held back for %v each: want at least %v",
				time.Duration(result.EndNS-result.BeginNS), load.RequestsPerClient, answerDelay, time.Duration(least))
		}
	}
}

// expectCallsWithoutServer expects that calls of the stack reach no server by design, as those of a
// stack without a wire: then the reference worker's calls do not reach one either.
func (p Peer) expectCallsWithoutServer(t T, server worker.Ready) {
	t.Helper()
	_, behind := p.startServer(t, p.Reference, p.referenceSpec(p.newSpec(worker.ServerRole, anyPortAddress)))
	between := startRelay(t, p.networkName(), behind.Address, 0)
	server.Address, server.RootPEM = between.address, behind.RootPEM
	p.measureWith(t, p.Reference, p.referenceSpec(p.clientSpec(server)))
	if between.answered.Load() > 0 {
		t.Error("the client reports answers, but the server sent nothing")
	}
}

// A sighting holds what the check itself knows of a client's calls.
type sighting struct {
	callers      int64
	floor        int64 // least time of a call, ns
	began, ended int64 // instants before the client started and after it ended, on the check's clock
}

// expectTimes expects times, a window and calls in flight that agree with the sighting.
func (s sighting) expectTimes(t T, r *worker.ClientResult) {
	t.Helper()
	if r.BeginNS < s.began || r.EndNS > s.ended {
		t.Errorf("the client's window lasts from %d to %d ns, but the client ran from %d to %d ns of CLOCK_MONOTONIC", r.BeginNS, r.EndNS, s.began, s.ended)
	}
	window := float64(r.EndNS - r.BeginNS)
	s.expectFloor(t, "service", r.Service)
	if r.Response != nil {
		s.expectFloor(t, "response", *r.Response)
		if r.Response.Sum < r.Service.Sum {
			t.Errorf("the response times sum up to %v, and the service times to %v: a response time includes its service time", time.Duration(r.Response.Sum), time.Duration(r.Service.Sum))
		}
		if most := s.ended - s.began; r.Response.Max > most {
			t.Errorf("the longest response time is %v, but the client ran for %v", time.Duration(r.Response.Max), time.Duration(most))
		}
	}
	// A caller has one call in flight. Its last call may end after the window. With a schedule, calls
	// that were due in the window may also begin after it.
	most := float64(s.callers) * (window + float64(r.Service.Max))
	if r.Pacing != nil {
		most = float64(s.callers * (s.ended - s.began))
	}
	if float64(r.Service.Sum) > most {
		t.Errorf("the service times sum up to %v, but %d callers, each with one call in flight, cannot spend more than %v in a window of %v: the times are too long",
			time.Duration(r.Service.Sum), s.callers, time.Duration(most), time.Duration(window))
	}
	if r.StraddlingNS < r.Straddling*s.floor {
		t.Errorf("%d straddling calls took %v in all, but each answer was held back for %v", r.Straddling, time.Duration(r.StraddlingNS), time.Duration(s.floor))
	}
	const rounding = 1e-6
	least := float64((r.Completed-r.Straddling)*s.floor) / window
	if r.InFlight < least*(1-rounding) || r.InFlight > float64(s.callers)*(1+rounding) {
		t.Errorf("the result reports %.3f calls in flight: with %d calls of at least %v in a window of %v, and %d callers, want %.3f to %d",
			r.InFlight, r.Completed, time.Duration(s.floor), time.Duration(window), s.callers, least, s.callers)
	}
}

// expectFloor expects that no call took less time than its answer was held back.
func (s sighting) expectFloor(t T, name string, d latency.Distribution) {
	t.Helper()
	if d.Count == 0 {
		return
	}
	h, err := d.Decode()
	if err != nil {
		t.Fatalf("read the %s times in the result: %v", name, err)
	}
	if shortest := min(d.Min, int64(h.Min()), d.Sum/d.Count); shortest < s.floor {
		t.Errorf("the shortest %s time is %v, but each answer was held back for %v on its way: the times are too short", name, time.Duration(shortest), time.Duration(s.floor))
	}
}
