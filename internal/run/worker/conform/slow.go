package conform

import (
	"fmt"
	"slices"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/run/worker"
)

const (
	// The server holds every heldEvery-th answer for answerDelay. The held calls are then the slowest 2 %, so
	// a client that leaves out or replaces its slowest 1 % lacks some of them.
	heldEvery = 50
	// heldRequests is the number of calls of each caller, where a number bounds the window.
	heldRequests = 400
)

// checkSlowCalls compares the client's calls with the times of the server's handlers. Some handlers hold their
// answers. Each call takes at least as long as its handler, on a machine of any speed.
func (p Peer) checkSlowCalls(t T) {
	for _, load := range []worker.Load{
		{Model: "closed", RequestsPerClient: heldRequests},
		{Model: "closed", DurationNS: int64(600 * time.Millisecond), WarmUpAtLeastNS: int64(50 * time.Millisecond), WarmUpAtMostNS: int64(100 * time.Millisecond)},
	} {
		spec := p.referenceSpec(p.newSpec(worker.ServerRole, anyPortAddress))
		spec.Workload.Name, spec.Probe = fmt.Sprintf("%s:stall=%v,every=%d", defaultWorkload, answerDelay, heldEvery), record.ProbeLife
		server, ready := p.startServer(t, p.Reference, spec)
		load.DrainNS = int64(waitTimeout)
		result := p.measureUntilRequest(t, p.clientSpec(ready), load)
		if err := server.Stop(); err != nil {
			t.Fatal(err)
		}
		served, err := server.Result(p.waitContext(t))
		if err != nil {
			t.Fatal(err)
		}
		if len(served.Server.Handled) == 0 {
			p.expectCallsWithoutServer(t, ready)
			return
		}
		handling{times: served.Server.Handled, callers: callersPerClient, counted: load.RequestsPerClient > 0}.expectCalls(t, result)
	}
}

// A handling holds what the server knows of a client's calls.
type handling struct {
	times   worker.CallInstants // when each handler began, and how long it took
	callers int
	counted bool // a number of requests bounds the window, so no call lies at an edge
}

// expectCalls expects that the client's calls are as many as the server handled, and no shorter, and that it
// had at least as many in flight.
func (h handling) expectCalls(t T, r *worker.ClientResult) {
	t.Helper()
	var inside []int64 // times of the handlers that ran in the window, all of the time
	began, busy := int64(0), int64(0)
	for _, one := range h.times {
		from, to := one[0], one[0]+one[1]
		if from >= r.BeginNS && from <= r.EndNS {
			began++
		}
		if from >= r.BeginNS && to <= r.EndNS {
			inside = append(inside, one[1])
		}
		busy += max(0, min(to, r.EndNS)-max(from, r.BeginNS))
	}
	// At each edge of the window, one call per caller may begin on one side and be handled on the other.
	edge := int64(h.callers)
	if r.Requests < began-edge || r.Requests > began+edge {
		t.Errorf("the server handled %d calls in the client's window, but the result has %d: want at most %d more or less, as each caller may have a call at an edge of the window", began, r.Requests, edge)
	}
	const rounding = 1e-3
	if least := float64(busy) / float64(r.EndNS-r.BeginNS); r.InFlight < least*(1-rounding) {
		t.Errorf("the result reports %.3f calls in flight, but the server's handlers alone had %.3f: want at least this number", r.InFlight, least)
	}
	h.expectSlowest(t, r, inside)
}

// expectSlowest expects that the client's slowest call took at least as long as the server's slowest handler,
// and so on.
func (h handling) expectSlowest(t T, r *worker.ClientResult, handlers []int64) {
	t.Helper()
	service, err := r.Service.Decode()
	if err != nil {
		t.Fatalf("read the service times in the result: %v", err)
	}
	slices.SortFunc(handlers, func(a, b int64) int { return int(b - a) })
	if !h.counted { // the client may count the calls of the slowest ones outside its window
		handlers = handlers[min(len(handlers), h.callers):]
	}
	var calls []time.Duration // each is the upper edge of its bin, so never too short
	for took, count := range service.Counts() {
		for range min(count, int64(len(handlers))) {
			calls = append(calls, took)
		}
	}
	slices.Reverse(calls)
	for i, least := range handlers {
		if i < len(calls) && int64(calls[i]) >= least {
			continue
		}
		j := 0
		for j < len(calls) && int64(calls[j]) >= least {
			j++
		}
		t.Errorf("the server's handlers took %v or longer in %d calls of the window, but only %d of the client's calls took so long: slow calls are missing, or their times are too short", time.Duration(least), i+1, j)
		return
	}
}
