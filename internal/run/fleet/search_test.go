package fleet_test

import (
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/lab"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

const (
	// bucketRate is the rate of a turnstile's tokens.
	bucketRate = 300.0
	// goalShare of the requests must be answered in time, so the highest rate is that of the
	// tokens divided by it, on any machine.
	goalShare   = 0.75
	plantedRate = bucketRate / goalShare
	// lateness is the time that a request without a token takes. The goal is half of it.
	lateness = 400 * time.Millisecond
)

// A turnstile is a service that lets a number of requests pass per second. All others are late.
type turnstile struct {
	guard  sync.Mutex
	tokens float64
	filled time.Time
	came   []int64 // the instant of each request
}

func (u *turnstile) ServeHTTP(http.ResponseWriter, *http.Request) {
	if !u.pass() {
		time.Sleep(lateness)
	}
}

func (u *turnstile) pass() bool {
	const most = bucketRate / 20 // a machine that stalls sends some requests at once
	u.guard.Lock()
	defer u.guard.Unlock()
	u.came = append(u.came, clock.Now())
	now := time.Now()
	u.tokens = min(most, u.tokens+now.Sub(u.filled).Seconds()*bucketRate)
	u.filled = now
	if u.tokens < 1 {
		return false
	}
	u.tokens--
	return true
}

// count returns the number of requests between two instants.
func (u *turnstile) count(from, to int64) (n int) {
	u.guard.Lock()
	defer u.guard.Unlock()
	for _, at := range u.came {
		if from <= at && at < to {
			n++
		}
	}
	return n
}

// A searched is a fleet whose clients search the rate of a turnstile.
type searched struct {
	t      *testing.T
	hub    *hub.Hub
	gate   *turnstile
	target func(*lab.Lab)

	guard sync.Mutex
	steps map[string]map[int]seenStep // by agent and number
}

// A seenStep is what an agent measured in a step, and when it had done so.
type seenStep struct {
	worker.StepResult
	at int64
}

func newSearched(t *testing.T) *searched {
	t.Helper()
	s := &searched{t: t, hub: startHub(t, hub.HubOptions{}), gate: &turnstile{filled: time.Now()}, steps: map[string]map[int]seenStep{}}
	server := httptest.NewServer(s.gate)
	t.Cleanup(server.Close)
	address := server.Listener.Addr().String()
	definition, err := (&service.Definition{Wire: service.HTTP1, Network: "tcp", Address: address, Requests: []service.Request{{Method: "GET", Path: "/"}}}).Encode()
	if err != nil {
		t.Fatal(err)
	}
	s.target = func(l *lab.Lab) {
		l.Targets = map[string]string{service.StackName: address}
		l.Definitions = map[string]string{service.StackName: definition}
	}
	return s
}

// join adds an agent. It calls see for each step that the agent measures.
func (s *searched) join(name string, see func(*worker.StepResult)) (stop func()) {
	s.t.Helper()
	s.steps[name] = map[int]seenStep{}
	_, stop = runAgentBy(s.t, must(s.hub.Agent(s.t.Context(), name)), name, "role=client", func(o *fleet.AgentOptions) {
		o.ShowSteps(func(step *worker.StepResult) {
			s.guard.Lock()
			s.steps[name][step.Number] = seenStep{*step, clock.Now()}
			s.guard.Unlock()
			if see != nil {
				see(step)
			}
		})
	})
	return stop
}

// search searches with all agents that the selector chooses.
func (s *searched) search(clients string, change ...func(*lab.Lab)) record.Record {
	s.t.Helper()
	on := control(s.t, s.hub, "", clients)
	defer on.Close()
	plan := scene(s.t, service.StackName, 150, scenario.Load{
		Model: scenario.Search, Goal: scenario.Goal{Percentile: 100 * goalShare, Limit: scenario.Duration(lateness / 2)},
		Duration: scenario.Duration(400 * time.Millisecond),
	})
	plan.Parts[0].Workload, plan.Parts[0].Connection = "GET", scenario.Connection{Mode: scenario.PerWorker}
	return measure(s.t, plan, on, append(change, s.target)...)[0]
}

// The highest rate is that of the service, however many clients search it. In each step the
// clients together send the requests of the step's rate.
func TestASearchOnSeveralClients(t *testing.T) {
	if testing.Short() {
		t.Skip("short: two searches take a minute")
	}
	s := newSearched(t)
	for _, name := range []string{"c1", "c2", "c3"} {
		s.join(name, nil)
	}
	for _, clients := range []string{"role=client", "role=client*3"} {
		r := s.search(clients)
		if r.Failure != "" || r.Search == nil {
			t.Fatalf("%s: failure %q, search %+v", clients, r.Failure, r.Search)
		}
		found := r.Search
		t.Logf("%s: kept %.0f, missed %.0f in %d steps: planted are %.0f", clients, found.KeptPerSecond, found.MissedPerSecond, len(found.Steps), plantedRate)
		// Stalls of the machine make requests late, and never early.
		if found.KeptPerSecond > 1.2*plantedRate || found.KeptPerSecond < 0.4*plantedRate {
			t.Errorf("%s: kept %.0f, want %.0f", clients, found.KeptPerSecond, plantedRate)
		}
		for _, step := range found.Steps {
			if due := step.RatePerSecond * 0.4; math.Abs(float64(step.Requests)-due) > 6 {
				t.Errorf("%s: %d requests at %.1f per second, want %.1f", clients, step.Requests, step.RatePerSecond, due)
			}
		}
		var requests, scheduled int64
		for _, c := range r.Fleet.Clients {
			requests, scheduled = requests+c.Requests, scheduled+c.Pacing.Scheduled
		}
		if due := found.KeptPerSecond * 0.4; requests != r.Requests || scheduled != r.Pacing.Scheduled || math.Abs(float64(r.Requests)-due) > 6 || r.Response.Count != r.Requests {
			t.Errorf("%s: the clients have %d requests, all together %d and %d times, want %.0f", clients, requests, r.Requests, r.Response.Count, due)
		}
		if len(r.Fleet.Clients) == 3 {
			s.compareWithServer(found)
		}
	}
}

// compareWithServer compares each step with what came to the server, by its own count: all requests of the
// window, and no more than the rate allows since the step before. Both hold if the machine stalls.
func (s *searched) compareWithServer(found *record.Search) {
	s.t.Helper()
	end := func(number int) (last, sent int64) {
		for name, of := range s.steps {
			step, measured := of[number]
			if !measured {
				s.t.Fatalf("%s has not measured step %d", name, number)
			}
			last, sent = max(last, step.at), sent+step.Client.Requests
		}
		return last, sent
	}
	for i, step := range found.Steps {
		from, _ := end(i + 1) // the first step is a closed loop
		to, sent := end(i + 2)
		came, most := int64(s.gate.count(from, to)), step.RatePerSecond*time.Duration(to-from).Seconds()
		if came < sent || float64(came) > most+6 || sent != step.Requests {
			s.t.Errorf("step %d at %.0f per second: %d requests came; the clients sent %d in the window, and the search counted %d; at most %.0f fit the rate", i+2, step.RatePerSecond, came, sent, step.Requests, most)
		}
	}
}

// A search fails if one of its clients is lost, and names the client.
func TestAClientOfASearchIsLost(t *testing.T) {
	s := newSearched(t)
	s.join("c1", nil)
	var stop func()
	var once sync.Once
	left := make(chan struct{})
	stop = s.join("c2", func(step *worker.StepResult) {
		if step.Number == 3 {
			once.Do(func() { go func() { stop(); close(left) }() })
		}
	})
	r := s.search("role=client*2")
	if !strings.Contains(r.Failure, "c2") || r.Search != nil {
		t.Fatalf("failure %q, search %+v: want a failure that names c2", r.Failure, r.Search)
	}
	<-left
}

// A search that is told to end keeps the best step so far, of all clients.
func TestASearchOfSeveralClientsEndsEarly(t *testing.T) {
	if testing.Short() {
		t.Skip("short: half a search takes twenty seconds")
	}
	s := newSearched(t)
	controls := &lab.RunControls{}
	s.join("c1", func(step *worker.StepResult) {
		if step.Number == 14 {
			go controls.End()
		}
	})
	s.join("c2", nil)
	r := s.search("role=client*2", func(l *lab.Lab) { l.Remote = controls })
	if r.Failure != "" || r.Search == nil || !r.EndedEarly || r.Search.Why != "the search was told to end" || r.Search.KeptPerSecond <= 0 || r.Search.MissedPerSecond <= 0 {
		t.Fatalf("failure %q, ended early %v, search %+v", r.Failure, r.EndedEarly, r.Search)
	}
	if n := len(r.Search.Steps); n < 13 || n > 16 || len(r.Fleet.Clients) != 2 {
		t.Errorf("%d steps of %d clients", n, len(r.Fleet.Clients))
	}
}

// A client that makes up a step's result is named, and the trial fails.
func TestForgedStepsAreRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("short: begins eight searches")
	}
	s := newSearched(t)
	s.join("honest", nil)
	forge := make(chan func(*worker.StepResult), 1)
	s.join("liar", func(step *worker.StepResult) {
		if step.Number == 2 {
			(<-forge)(step)
		}
	})
	for name, c := range map[string]struct {
		forge func(*worker.StepResult)
		says  string
	}{
		"of another step":   {func(s *worker.StepResult) { s.Number = 7 }, "liar: the result is that of step 7 of the search: the order was step 2"},
		"of another window": {func(s *worker.StepResult) { s.Client.BeginNS -= 1e11; s.Client.EndNS -= 1e11 }, "liar: the result is not that of step 2"},
		"of a long window":  {func(s *worker.StepResult) { s.Client.BeginNS -= 5e7 }, "liar: step 2 of the search has a window of 4"},
		"of fewer requests": {func(s *worker.StepResult) {
			half := s.Client.Requests / 2
			s.Client.Requests, s.Client.Pacing.Scheduled, s.Client.Response.Count, s.Client.Pacing.Late.Count, s.Client.Service.Count = half, half, half, half, half
		}, "arrivals: the order was"},
		"of other times":  {func(s *worker.StepResult) { s.Client.Response.Count++ }, "liar: step 2 of the search contradicts itself"},
		"of no histogram": {func(s *worker.StepResult) { s.Client.Response.Histogram = "" }, "liar"},
		"of no arrivals":  {func(s *worker.StepResult) { s.Client.Pacing = nil }, "liar: step 2 of the search contradicts itself"},
		"of failures":     {func(s *worker.StepResult) { s.Client.Failures = []record.ErrorCount{{Class: "x", Count: -5}} }, "liar reported -5 failures"},
	} {
		forge <- c.forge
		if r := s.search("role=client*2"); !strings.Contains(r.Failure, c.says) {
			t.Errorf("a result %s: failure %q, want %q", name, r.Failure, c.says)
		}
	}
}
