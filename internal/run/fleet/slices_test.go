package fleet_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

// asBlock puts the trials of each repeat into one block.
func asBlock(plan []scenario.PlannedCell) []scenario.PlannedCell {
	for i := range plan {
		plan[i].Block = 1
	}
	return plan
}

// watchedFleet is a fleet that notes what the lab orders and gets.
type watchedFleet struct {
	*fleet.Controller
	apart   time.Duration // the least distance of the clients' clocks
	guard   sync.Mutex
	slices  map[string][]load.Slice  // by the client's variant, on the controller's clock
	results map[string]worker.Result // likewise
}

func (f *watchedFleet) Stage(ctx context.Context, callers int) (lab.Stage, error) {
	s, err := f.Controller.Stage(ctx, callers)
	return watchedStage{s, f}, err
}

type watchedStage struct {
	lab.Stage
	of *watchedFleet
}

func (s watchedStage) Another() lab.Stage { return watchedStage{s.Stage.Another(), s.of} }

func (s watchedStage) ClocksApart(ctx context.Context, span time.Duration) time.Duration {
	return max(s.of.apart, s.Stage.ClocksApart(ctx, span))
}

func (s watchedStage) Start(ctx context.Context, l worker.Launch) (worker.TrialEnd, error) {
	end, err := s.Stage.Start(ctx, l)
	if err != nil || l.Spec.Role != worker.ClientRole {
		return end, err
	}
	return watchedClient{end, l.Spec.Stack, s.of}, nil
}

type watchedClient struct {
	worker.TrialEnd
	variant string
	of      *watchedFleet
}

func (c watchedClient) SendControl(o worker.ControlOrder) error {
	if o.Control == worker.SlicesControl {
		c.of.guard.Lock()
		c.of.slices[c.variant] = o.Slices
		c.of.guard.Unlock()
	}
	return c.TrialEnd.SendControl(o)
}

func (c watchedClient) Result(ctx context.Context) (worker.Result, error) {
	r, err := c.TrialEnd.Result(ctx)
	c.of.guard.Lock()
	defer c.of.guard.Unlock()
	c.of.results[c.variant] = r
	return r, err
}

// countedService is a service that answers after a delay, and counts the calls of each client.
type countedService struct {
	calls [4]atomic.Int64
}

func startService(t *testing.T, delay time.Duration) (s *countedService, address, definition string) {
	t.Helper()
	s = &countedService{}
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.calls[r.URL.Path[1]-'0'].Add(1)
		time.Sleep(delay)
	}))
	t.Cleanup(server.Close)
	address = strings.TrimPrefix(server.URL, "http://")
	made := []service.Request{{Method: http.MethodGet, Path: "/{{.Client}}"}}
	definition, err := (&service.Definition{
		Wire: service.HTTP1, Network: "tcp", Address: address, Authority: address, Requests: made, Feed: &service.Feed{Requests: made},
	}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	return s, address, definition
}

// Two services are measured by turns from two agents: the slices are those of the order on every agent,
// no two trials send at the same time, every call is counted once, and a delay of one service is found. With
// clocks that are too far apart, each has its window in one piece, and the records say so.
func TestABlockOfAFleetTakesTurns(t *testing.T) {
	if testing.Short() {
		t.Skip("measures for seconds with real processes")
	}
	hub := startHub(t, hub.HubOptions{})
	for _, name := range []string{"c0", "c1"} {
		runAgent(t, hub, name, "role=client")
	}
	const delay = 20 * time.Millisecond
	fast, slow := "service:version=fast,wire=h1", "service:version=slow,wire=h1"
	services, targets, definitions := map[string]*countedService{}, map[string]string{}, map[string]string{}
	for name, delay := range map[string]time.Duration{fast: 0, slow: delay} {
		services[name], targets[name], definitions[name] = startService(t, delay)
	}
	for name, c := range map[string]struct {
		rate  float64
		apart time.Duration
	}{"closed": {}, "open": {rate: 100}, "clocks far apart": {apart: 20 * time.Millisecond}} {
		t.Run(name, func(t *testing.T) {
			for _, one := range services {
				for i := range one.calls {
					one.calls[i].Store(0)
				}
			}
			on := &watchedFleet{Controller: control(t, hub, "", "role=client*2"), apart: c.apart, slices: map[string][]load.Slice{}, results: map[string]worker.Result{}}
			defer on.Close()
			s := scene(t, "tcp", 4, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Second)})
			if c.rate > 0 {
				s.Parts[0].Load.Model, s.Parts[0].Load.Rate, s.Parts[0].Load.Arrivals = scenario.Open, c.rate, scenario.Constant
			}
			s.Parts[0].Connection = scenario.Connection{Mode: scenario.PerWorker}
			s.Parts[0].Stacks = []scenario.Variant{variant(fast), variant(slow)}
			records := measurePlan(t, s, asBlock(s.Plan()), func(l *lab.Lab) { l.Fleet, l.Targets, l.Definitions = on, targets, definitions })
			expectNoTwoSend(t, on.slices[fast], on.slices[slow])
			means := map[string]time.Duration{}
			for i := range records {
				r := &records[i]
				if r.Failure != "" || r.Block == 0 {
					t.Fatalf("%s, in block %d: %s", r.Cell.Variant, r.Block, r.Failure)
				}
				said := slices.ContainsFunc(r.Warnings, func(w string) bool {
					return strings.Contains(w, "each variant had its window in one piece, without slices: the clocks of the clients' machines may be ")
				})
				if c.apart > 0 && (len(r.Slices) != 1 || !said) {
					t.Errorf("%s: %d slices, warnings %q", r.Cell.Variant, len(r.Slices), r.Warnings)
				}
				expectSumOfClients(t, r)
				expectSlices(t, r, on.slices[r.Cell.Variant], on.results[r.Cell.Variant])
				expectAllCalls(t, r, services[r.Cell.Variant])
				means[r.Cell.Variant] = time.Duration(r.Service.Sum / r.Service.Count)
			}
			if means[slow] < delay || means[fast] >= means[slow] {
				t.Errorf("mean times are %v and, of the service with a delay of %v, %v", means[fast], delay, means[slow])
			}
		})
	}
}

func variant(text string) scenario.Variant { return must(scenario.ParseVariant(text)) }

// expectNoTwoSend fails the test unless the slices of both trials alternate, with time between them.
func expectNoTwoSend(t *testing.T, a, b []load.Slice) {
	t.Helper()
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b load.Slice) int { return int(a.Send - b.Send) })
	for i, s := range all {
		if i > 0 && s.Send <= all[i-1].To {
			t.Errorf("slice %d begins at %d, the one before ends at %d", i, s.Send, all[i-1].To)
		}
	}
	if len(a) == 0 || len(a) != len(b) {
		t.Errorf("%d and %d slices", len(a), len(b))
	}
}

// expectSlices fails the test unless every client measured in the slices of the order, and the merged
// slices have the calls of all clients.
func expectSlices(t *testing.T, r *record.Record, ordered []load.Slice, result worker.Result) {
	t.Helper()
	if len(result.Parts) != 2 || len(r.Slices) != len(ordered) {
		t.Fatalf("%s: %d clients, %d slices; want 2, %d", r.Cell.Variant, len(result.Parts), len(r.Slices), len(ordered))
	}
	var requests int64
	for i, s := range ordered {
		var sum record.Slice
		for _, p := range result.Parts {
			c := p.Result.Client
			if begin := c.BeginNS + c.Slices[i].AtNS; begin != s.From || begin+c.Slices[i].TookNS != s.To {
				t.Errorf("%s, %s: slice %d is from %d to %d, want %d to %d", r.Cell.Variant, p.Agent, i, begin, begin+c.Slices[i].TookNS, s.From, s.To)
			}
			sum = sum.Plus(c.Slices[i])
		}
		got := r.Slices[i]
		if got.Requests != sum.Requests || got.Completed != sum.Completed || got.SumNS != sum.SumNS || got.Failed != 0 {
			t.Errorf("%s: slice %d has %+v, its clients %+v", r.Cell.Variant, i, got, sum)
		}
		if got.AtNS != s.From-ordered[0].From || got.TookNS != s.To-s.From {
			t.Errorf("%s: slice %d is at %d for %d", r.Cell.Variant, i, got.AtNS, got.TookNS)
		}
		requests += got.Requests
	}
	if requests != r.Requests || requests == 0 {
		t.Errorf("%s: %d requests in slices, %d in all", r.Cell.Variant, requests, r.Requests)
	}
}

// expectAllCalls fails the test unless the service has counted the calls of the record, of all clients.
func expectAllCalls(t *testing.T, r *record.Record, of *countedService) {
	t.Helper()
	var counted int64
	for i := range of.calls {
		n := of.calls[i].Load()
		if n == 0 {
			t.Errorf("%s: client %d has made no call", r.Cell.Variant, i)
		}
		counted += n
	}
	if r.Outside == nil || counted != r.Requests+*r.Outside {
		t.Errorf("%s: the service has counted %d calls, the clients %d and %v", r.Cell.Variant, counted, r.Requests, r.Outside)
	}
}

// Servers with one port cannot be alive together: their trials are measured one after another, and the
// run and the records say why.
func TestServersWithOnePortAreMeasuredAlone(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	runAgentBy(t, must(hub.Agent(t.Context(), "s")), "s", "role=server", func(o *fleet.AgentOptions) { o.Port = int(netip.MustParseAddrPort(freePort(t)).Port()) })
	runAgent(t, hub, "c", "role=client")
	on := control(t, hub, "role=server", "role=client")
	s := scene(t, "tcp,grpc", 2, scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(100 * time.Millisecond)})
	records := measurePlan(t, s, asBlock(s.Plan()), func(l *lab.Lab) { l.Fleet = on })
	for _, r := range records {
		said := slices.ContainsFunc(r.Warnings, func(w string) bool {
			return strings.Contains(w, "measured without slices: the servers of the agent s have one port")
		})
		if r.Failure != "" || r.Block != 0 || len(r.Slices) != 0 || !said {
			t.Errorf("%s: failure %q, block %d, %d slices, warnings %q", r.Cell.Variant, r.Failure, r.Block, len(r.Slices), r.Warnings)
		}
	}
	if why := on.WhyAlone(100); len(records) != 2 || !strings.Contains(why, "at most 16 trials") {
		t.Errorf("%d records; 100 trials are alone because of %q", len(records), why)
	}
}
