package report

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
	"wirelab.dev/internal/judge/check"
)

// fleetTrials is the number of trials of each cell of fixtureFleet, and fleetCalls the number of
// calls of each client in a trial.
const (
	fleetTrials = 3
	fleetCalls  = 20_000
)

// slowAgent is the agent of fixtureFleet that was its own bottleneck.
const slowAgent = "client-4"

// fixtureFleet is a run of two stacks that four agents loaded against a server on a fifth, of
// which each has a machine of its own: written to a directory, and read from it as a command
// does. In the trials of grpc an agent was busy all the time, before a server that was not.
func fixtureFleet(t *testing.T) *Run {
	t.Helper()
	m := fleetManifest()
	var records []record.Record
	for repeat := range fleetTrials {
		for _, stack := range []string{"tcp", "grpc"} {
			r := fleetTrial(t, stack, repeat)
			r.Trial = len(records)
			records = append(records, r)
			m.Order = append(m.Order, record.PlannedTrial{Trial: r.Trial, Repeat: r.Repeat, Cell: r.Cell.Key()})
		}
	}
	dir := filepath.Join(t.TempDir(), "run")
	written, err := record.Create(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	for i := range records {
		records[i].Checks = check.Judge(&records[i], check.DefaultLimits())
		if err := written.Append(records[i]); err != nil {
			t.Fatal(err)
		}
	}
	if err := written.Finish(record.Done); err != nil {
		t.Fatal(err)
	}
	return readRun(t, dir, "results/fleet")
}

func fleetManifest() record.Manifest {
	return record.Manifest{
		Name: "fleet", Title: "Four machines against one", Command: []string{"wirelab", "compare", "tcp", "grpc", "--fleet", "tls://hub:4222"},
		Started: time.Date(2026, 11, 24, 5, 0, 0, 0, time.UTC), Status: record.Done, Seed: 1, Trials: 2 * fleetTrials,
		Scenario: json.RawMessage(`{"name":"fleet","parts":[{"name":"matrix","stacks":["tcp","grpc"]}]}`), Host: json.RawMessage(`{"os":"linux"}`),
	}
}

// readRun reads and judges a run as a command does; its pages show another directory.
func readRun(t *testing.T, dir, shown string) *Run {
	t.Helper()
	kept, err := record.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var records []*record.Record
	for r, err := range kept.Records() {
		if err != nil {
			t.Fatal(err)
		}
		records = append(records, &r)
	}
	judged := analysis.Judge(records, check.DefaultLimits())
	summary, err := analysis.Summarize(&kept.Manifest, judged, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return &Run{Summary: summary, Records: judged.Records, Answer: advice.Answer(summary), Advice: advice.Advise(summary), Directory: shown}
}

// fleetCall returns the mean time of a client's calls.
func fleetCall(stack string, client int) time.Duration {
	base := map[string]time.Duration{"tcp": 100 * time.Microsecond, "grpc": 180 * time.Microsecond}[stack]
	return base + time.Duration(client)*time.Microsecond
}

func fleetAgent(name string, number int64) record.Agent {
	return record.Agent{
		Name: name, Labels: map[string]string{"role": name[:6], "zone": "a"}, Machine: "linux 6.18 amd64, AMD EPYC", Boot: name,
		Clock: record.Clock{OffsetNS: (number - 2) * 1_250_000, ErrorNS: 30_000 + 2_000*number},
	}
}

// fleetTrial returns a trial of four clients with 25 callers each. Every caller is always in a call.
func fleetTrial(t *testing.T, stack string, repeat int) record.Record {
	t.Helper()
	const callers, clients, window = 25, 4, int64(time.Second)
	idle := record.HostState{
		SuspendedNS: new(int64(0)), StolenShare: new(0.0), OthersShare: new(0.01),
	}
	process := func(busy float64) record.Process {
		cpu := int64(busy * float64(window))
		return record.Process{
			CPUs: []int{0, 1}, AllowedCPUs: []int{0, 1}, GoMaxProcs: 2, Busy: &busy, UserNS: &cpu, SystemNS: &cpu,
			StoppedNS: new(int64(0)), ThrottledNS: new(int64(0)), ThrottledPeriods: new(int64(0)), GCCPUNS: new(int64(0)), GCPercent: new(int64(100)),
			Gaps: &record.Gaps{CPUs: 2, Wakings: 500},
		}
	}
	r := record.Record{
		Repeat: repeat + 1, WindowNS: window, Started: time.Date(2026, 11, 24, 5, 0, repeat, 0, time.UTC),
		Cell: record.Cell{
			Part: "matrix", Stack: stack, Variant: stack, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: callers * clients}, Connection: "per-worker", Load: record.Load{Model: "closed", RequestsPerClient: 800}, Agents: clients,
		},
		Server: process(0.3), Host: idle, Measurement: record.Measurement{WarmUp: record.WarmUp{Settled: true, Method: "MSER-5"}},
		Fleet:       &record.Fleet{Server: fleetAgent("server-1", 0), OpenedApartNS: int64(50_000 + 1_000*repeat)},
		Connections: record.Connections{Mode: "per-worker", Want: callers * clients, Opened: callers * clients},
	}
	var times []latency.Distribution
	for i := range clients {
		name, busy := fmt.Sprint("client-", i+1), 0.5
		if stack == "grpc" && name == slowAgent {
			busy = 0.99
		}
		recorder := latency.NewRecorder()
		for n := range fleetCalls {
			recorder.Record(int64(fleetCall(stack, i)) * int64(500+n%1000) / 1000)
		}
		h := latency.NewHistogram(recorder)
		recorder.Close()
		own, err := h.Distribution()
		if err != nil {
			t.Fatal(err)
		}
		times = append(times, own)
		inFlight := float64(own.Sum) / float64(window)
		r.Fleet.Clients = append(r.Fleet.Clients, record.FleetClient{
			Agent: fleetAgent(name, int64(i+1)), Clients: callers, WindowNS: window, Requests: fleetCalls, Completed: fleetCalls,
			InFlight: inFlight, Active: callers, ServiceNS: own.Sum,
			P50NS: int64(h.Quantile(0.5)), P99NS: int64(h.Quantile(0.99)), MaxNS: own.Max,
			WarmUp: r.WarmUp, Process: process(busy), Host: idle,
			Connections: record.Connections{Mode: "per-worker", Want: callers, Opened: callers},
		})
		r.Requests += fleetCalls
		r.Completed += fleetCalls
		r.InFlight += inFlight
		r.Active += callers
	}
	var err error
	if r.Service, err = latency.MergeDistributions(times...); err != nil {
		t.Fatal(err)
	}
	return r
}
