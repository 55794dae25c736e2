package worker_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
)

// member is a client of a group that runs.
type member struct {
	*worker.Process
	group     worker.Group
	clients   int
	settled   chan struct{}
	intervals chan worker.Interval
	steps     chan worker.StepResult
}

// startGroup starts a server, and a client process for each number of clients. All are ready
// when it returns.
func startGroup(t *testing.T, client worker.ClientSpec, split ...int) []*member {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	spec := worker.Spec{
		Contract: worker.Contract, Role: worker.ServerRole, Stack: "tcp", Address: "127.0.0.1:0",
		Workload: worker.Workload{Name: "echo", RequestBytes: 64, ResponseBytes: 64},
	}
	server, err := worker.Start(worker.Launch{Name: "server", Command: self(t, "worker"), Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	ready, err := server.Ready(ctx)
	if err != nil {
		t.Fatal(err)
	}
	spec.Role, spec.Address = worker.ClientRole, ready.Address
	client.Connection, client.Load.DrainNS = "per-worker", int64(patience)
	of := 0
	for _, n := range split {
		of += n
	}
	var all []*member
	for first := 0; len(all) < len(split); {
		m := &member{
			group: worker.Group{First: first, Of: of}, clients: split[len(all)],
			settled: make(chan struct{}, 1), intervals: make(chan worker.Interval, 1000), // more than there are
			steps: make(chan worker.StepResult, 10),
		}
		own := client
		own.Clients, own.Group = m.clients, &m.group
		spec.Client = &own
		m.Process, err = worker.Start(worker.Launch{
			Name: "client", Command: self(t, "worker"), Spec: spec,
			OnProgress: func(p live.Progress) {
				if p.Settled {
					select {
					case m.settled <- struct{}{}:
					default:
					}
				}
			},
			OnInterval: func(i worker.Interval) { m.intervals <- i },
			OnStep:     func(s worker.StepResult) { m.steps <- s },
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(m.Kill)
		if _, err := m.Ready(ctx); err != nil {
			t.Fatal(err)
		}
		all, first = append(all, m), first+m.clients
	}
	return all
}

func tellAll(t *testing.T, all []*member, control worker.Control, ahead time.Duration) (at int64) {
	t.Helper()
	at = clock.Now() + int64(ahead)
	for _, m := range all {
		if err := m.SendControl(worker.ControlOrder{Control: control, AtNS: at}); err != nil {
			t.Fatal(err)
		}
	}
	return at
}

// conduct takes a group through its cues, and returns the instant of go and the results. Cues
// are as far ahead as no machine is late.
func conduct(t *testing.T, all []*member, warms bool) (began int64, results []*worker.ClientResult) {
	t.Helper()
	began = tellAll(t, all, worker.GoControl, 500*time.Millisecond)
	opens := began
	if warms {
		for _, m := range all {
			select {
			case <-m.settled:
			case <-time.After(patience):
				t.Fatal("a client did not say that it is settled")
			}
		}
		opens = tellAll(t, all, worker.OpenControl, 200*time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, m := range all {
		result, err := m.Result(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if result.Client.BeginNS < opens {
			t.Errorf("a window opened %v before it was to", time.Duration(opens-result.Client.BeginNS))
		}
		for _, f := range result.Client.Failures {
			t.Errorf("%d calls failed: %s", f.Count, f.Example)
		}
		results = append(results, result.Client)
	}
	return began, results
}

// A group measures just the requests that one worker would.
func TestAGroupSharesAClosedLoop(t *testing.T) {
	all := startGroup(t, worker.ClientSpec{Seed: 1, Load: worker.Load{
		Model: "closed", RequestsPerClient: 10, ExtraRequests: 4,
		WarmUpAtLeastNS: int64(20 * time.Millisecond), WarmUpAtMostNS: int64(50 * time.Millisecond),
	}}, 2, 3)
	_, results := conduct(t, all, true)
	for i, want := range []int64{2*10 + 2, 3*10 + 2} {
		if results[i].Requests != want {
			t.Errorf("client %d of the group measured %d requests, want %d", i, results[i].Requests, want)
		}
	}
}

// Intervals of a client's whole life have all of its calls, on the grid that begins with go.
func TestIntervalsOfAGroup(t *testing.T) {
	const every = 100 * time.Millisecond
	all := startGroup(t, worker.ClientSpec{Seed: 1, IntervalNS: int64(every), Load: worker.Load{
		Model: "open", RatePerSecond: 1000, Arrivals: "constant", DurationNS: int64(300 * time.Millisecond),
		WarmUpAtMostNS: int64(50 * time.Millisecond),
	}}, 1, 2)
	began, results := conduct(t, all, true)
	for n, m := range all {
		if err := m.Stop(); err != nil { // then all events were read
			t.Fatal(err)
		}
		close(m.intervals)
		ended, at := int64(0), began
		for i := range m.intervals {
			if i.StartNS != at {
				t.Errorf("client %d: an interval begins %v after the one before", n, time.Duration(i.StartNS-at))
			}
			at = i.StartNS + i.TookNS
			held := int64(0)
			if i.Histogram != "" {
				histogram, err := latency.DecodeCoarse(i.Histogram)
				if err != nil {
					t.Fatal(err)
				}
				held = histogram.Count()
			}
			if held != i.Ended || i.Failed != 0 {
				t.Errorf("client %d: %d calls ended, %d failed, and the histogram has %d", n, i.Ended, i.Failed, held)
			}
			ended += i.Ended
		}
		r := results[n]
		if measured := r.Requests + r.WarmUp.Requests; ended < measured || at < r.EndNS {
			t.Errorf("client %d: %d calls ended in its intervals, and %d in its warm-up and window", n, ended, measured)
		}
	}
}

// The arrivals of a group are those of one worker: drawn here as the contract says.
func TestAGroupSharesASchedule(t *testing.T) {
	const rate, seed = 500, 9
	all := startGroup(t, worker.ClientSpec{Seed: seed, Load: worker.Load{
		Model: "open", RatePerSecond: rate, Arrivals: "poisson", DurationNS: int64(300 * time.Millisecond),
		WarmUpAtLeastNS: int64(20 * time.Millisecond), WarmUpAtMostNS: int64(50 * time.Millisecond),
	}}, 2, 3)
	began, results := conduct(t, all, true)
	random, owners := rand.New(rand.NewPCG(seed, 0x6f70656e)), rand.New(rand.NewPCG(seed, 0x67726f7570))
	want := make([]int64, len(all))
	for arrived := random.ExpFloat64(); ; arrived += random.ExpFloat64() {
		at := began + int64(arrived*1e9/rate)
		owner := owners.Int64N(5)
		if at >= max(results[0].EndNS, results[1].EndNS) {
			break
		}
		for i, r := range results {
			own := int64(all[i].group.First) <= owner && owner < int64(all[i].group.First+all[i].clients)
			if own && r.BeginNS <= at && at < r.EndNS {
				want[i]++
			}
		}
	}
	for i, r := range results {
		if r.Pacing.Scheduled != want[i] || want[i] == 0 {
			t.Errorf("client %d of the group had %d arrivals in its window, and its share of the schedule is %d", i, r.Pacing.Scheduled, want[i])
		}
	}
}

// A burst and a ramp begin with the window, whole.
func TestAGroupSharesABurstAndARamp(t *testing.T) {
	for _, warmUp := range []time.Duration{0, 50 * time.Millisecond} {
		for _, load := range []worker.Load{
			{Model: "burst", Burst: 103},
			{Model: "ramp", Stages: []record.Stage{{Length: 200 * time.Millisecond, From: 100, To: 900}}, Arrivals: "constant", DurationNS: int64(200 * time.Millisecond)},
		} {
			load.WarmUpAtMostNS = int64(warmUp)
			all := startGroup(t, worker.ClientSpec{Seed: 1, Load: load}, 2, 3)
			_, results := conduct(t, all, warmUp > 0)
			want := map[scenario.LoadModel]int64{"burst": 103, "ramp": 100}[load.Model]
			if sum := results[0].Pacing.Scheduled + results[1].Pacing.Scheduled; sum != want {
				t.Errorf("%s with a warm-up of %v: %d arrivals, want %d", load.Model, warmUp, sum, want)
			}
			if results[0].BeginNS != results[1].BeginNS {
				t.Errorf("%s with a warm-up of %v: windows open %v apart", load.Model, warmUp, time.Duration(results[1].BeginNS-results[0].BeginNS))
			}
			for i, r := range results {
				if took := r.WarmUp.TookNS; (took > 0) != (warmUp > 0) {
					t.Errorf("%s: client %d has a warm-up of %v of %v", load.Model, i, time.Duration(took), warmUp)
				}
			}
		}
	}
}

func TestGroupsThatAreRefused(t *testing.T) {
	for name, c := range map[string]struct{ client, want string }{
		"beyond it":       {`"clients":2,"group":{"first":3,"of":4}`, "group"},
		"from below":      {`"clients":2,"group":{"first":-1,"of":4}`, "group"},
		"of nobody":       {`"clients":2,"group":{}`, "group"},
		"overflow":        {`"clients":2,"group":{"first":9223372036854775807,"of":9223372036854775807}`, "group"},
		"short intervals": {`"clients":2,"interval_ns":1000`, "interval"},
		"no interval":     {`"clients":2,"interval_ns":-1`, "interval"},
	} {
		_, err := worker.ParseSpec([]byte(`{"contract":1,"role":"client","stack":"tcp","address":"127.0.0.1:1","client":{` + c.client + `}}`))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want an error about %s", name, err, c.want)
		}
	}
}

// A group measures the steps that it is given. Its clients together have the arrivals of each rate.
// Their last results are those of the best step.
func TestAGroupMeasuresSteps(t *testing.T) {
	all := startGroup(t, worker.ClientSpec{Seed: 1, Load: worker.Load{Model: scenario.Search, GoalQuantile: 0.5, GoalNS: 1, DurationNS: 1e8}}, 2, 3)
	give := func(step load.Step) (results []worker.StepResult) {
		t.Helper()
		for _, m := range all {
			order := worker.ControlOrder{Control: worker.StepControl, AtNS: clock.Now() + int64(200*time.Millisecond), Step: &step}
			if err := m.SendControl(order); err != nil {
				t.Fatal(err)
			}
		}
		for _, m := range all {
			if step.DurationNS == 0 {
				break
			}
			select {
			case r := <-m.steps:
				if r.Number != step.Number {
					t.Fatalf("the result is that of step %d, want %d", r.Number, step.Number)
				}
				results = append(results, r)
			case <-time.After(patience):
				t.Fatal("a client has not measured its step")
			}
		}
		return results
	}
	const window = int64(100 * time.Millisecond)
	var best []worker.StepResult
	for i, rate := range []float64{0, 100, 1000, 200} {
		step := load.Step{Number: i + 1, RatePerSecond: rate, DurationNS: window, WarmUpAtLeastNS: window / 4, WarmUpAtMostNS: window / 4}
		if i == 3 { // the one before is the best, and stays so
			step.Best = 3
		}
		results := give(step)
		var requests int64
		for _, r := range results {
			requests += r.Client.Requests
			if r.Client.LengthNS() != window || rate > 0 && (r.Client.Response == nil || r.Client.Response.Count != r.Client.Requests) {
				t.Errorf("step %d: a window of %d ns, response times %+v", i+1, r.Client.LengthNS(), r.Client.Response)
			}
		}
		if due := rate / 10; rate > 0 && (float64(requests) < due-4 || float64(requests) > due+4) {
			t.Errorf("step %d: %d requests, want %.0f", i+1, requests, due)
		}
		if i == 2 {
			best = results
		}
	}
	tellAll(t, all, worker.EndControl, 0)
	for _, r := range give(load.Step{Number: 5, Best: 3, DurationNS: window}) {
		if r.Client != nil {
			t.Errorf("a step after the end was measured: %+v", r.Client)
		}
	}
	give(load.Step{Number: 6, Best: 3})
	for i, m := range all {
		result, err := m.Result(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c, want := result.Client, best[i].Client
		if c.BeginNS != want.BeginNS || c.EndNS != want.EndNS || c.Requests != want.Requests || c.Connections.Total.Opened != int64(m.clients) {
			t.Errorf("client %d: the result is from %d to %d, %d requests over %d connections; the best step from %d to %d, %d requests",
				i, c.BeginNS, c.EndNS, c.Requests, c.Connections.Total.Opened, want.BeginNS, want.EndNS, want.Requests)
		}
	}
}
