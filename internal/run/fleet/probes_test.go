package fleet_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/run/fleet"
	"wirelab.dev/internal/run/fleet/hub"
	"wirelab.dev/internal/run/fleet/protocol"
)

// probedScene has trials of a number of requests for each caller. One of them has the probe.
func probedScene(t *testing.T, clients, requests int, probe scenario.Probe) *scenario.Scenario {
	t.Helper()
	s := scene(t, "tcp", clients, scenario.Load{Model: scenario.Closed, Requests: requests})
	s.Parts[0].WarmUp = scenario.WarmUp{}
	s.Parts[0].Probes = []scenario.Probe{probe}
	return s
}

func probedRecord(t *testing.T, records []record.Record) record.Record {
	t.Helper()
	i := slices.IndexFunc(records, func(r record.Record) bool { return r.Probe != "" })
	if i < 0 {
		t.Fatal("no trial has a probe")
	}
	return records[i]
}

// writes returns how often a process called write.
func writes(t *testing.T, of string, seen *record.Seen) int64 {
	t.Helper()
	if seen == nil {
		t.Fatalf("nothing was observed of the %s", of)
	}
	if !strings.HasPrefix(seen.Method, "BPF") || len(seen.Missing) > 0 {
		t.Skip("this machine does not count all system calls: ", seen.Method, seen.Missing)
	}
	for _, call := range seen.Syscalls {
		if call.Name == "write" {
			return call.Count
		}
	}
	return 0
}

// A caller that waits for each answer has one write per request at each end. Two clients on two agents have
// one per request together, as on one machine, and so has their server. The bounds leave room for the edges of
// the window, which lie between two readings, and for the events that a worker writes; half as many, or twice
// as many, are wrong.
func TestProbesOfAgentsCountAsOnOneMachine(t *testing.T) {
	const requests = 20_000
	hub := startHub(t, hub.HubOptions{})
	for _, name := range []string{"s", "c1", "c2"} {
		runAgentBy(t, must(hub.Agent(t.Context(), name)), name, "role="+name[:1], allowing(record.ProbeSyscalls))
	}
	s := probedScene(t, 2, requests/2, record.ProbeSyscalls)
	s.Parts[0].Connection = scenario.Connection{Mode: scenario.PerWorker}
	for where, on := range map[string]*fleet.Controller{"a fleet": control(t, hub, "role=s", "role=c*2"), "one machine": nil} {
		r := probedRecord(t, measure(t, s, on))
		if r.Failure != "" || r.Requests != requests {
			t.Fatalf("%s: %d requests, %s", where, r.Requests, r.Failure)
		}
		for end, seen := range map[string]*record.Seen{"server": r.Server.Seen, "client": r.Client.Seen} {
			if found := writes(t, end, seen); found < requests*3/4 || found > requests*5/4 {
				t.Errorf("%s: the %s has %d writes, want about %d", where, end, found, requests)
			}
		}
	}
}

// Allocations are counted by the workers themselves, and CPU time by the agents: both are in the record of
// both ends.
func TestProbesOfAgentsHaveStacks(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	for _, name := range []string{"s", "c1", "c2"} {
		runAgentBy(t, must(hub.Agent(t.Context(), name)), name, "role="+name[:1], allowing(record.ProbeCPU, record.ProbeAllocations))
	}
	on := control(t, hub, "role=s", "role=c*2")
	r := probedRecord(t, measure(t, probedScene(t, 4, 5000, record.ProbeCPU), on))
	for end, seen := range map[string]*record.Seen{"server": r.Server.Seen, "client": r.Client.Seen} {
		if seen == nil || seen.Stacks == nil || seen.Stacks.Samples == 0 {
			t.Errorf("the %s was observed as %+v: %s", end, seen, r.Failure)
			continue
		}
		weight := int64(0)
		for _, stack := range seen.Stacks.Stacks {
			weight += stack.Weight
			if slices.Contains(seen.Stacks.Functions(stack), record.Frame{Function: "wirelab.dev/internal/run/fleet_test.control"}) {
				t.Error("a stack of the agent's own process was reported")
			}
		}
		if weight <= 0 {
			t.Errorf("the stacks of the %s weigh %d ns", end, weight)
		}
	}
	r = probedRecord(t, measure(t, probedScene(t, 4, 500, record.ProbeAllocations), on))
	if r.Client.Allocations == nil || r.Server.Allocations == nil || r.Client.Allocations.Objects < r.Requests {
		t.Errorf("the allocations are %+v and %+v: %s", r.Client.Allocations, r.Server.Allocations, r.Failure)
	}
}

// An agent whose owner allows no probe refuses the order, and a controller that asks first says so before the
// run.
func TestProbesNeedTheOwnersLeave(t *testing.T) {
	hub := startHub(t, hub.HubOptions{})
	said, _ := runAgent(t, hub, "s", "role=server")
	runAgentBy(t, must(hub.Agent(t.Context(), "c")), "c", "role=client", allowing(record.ProbeSyscalls))
	unaware := control(t, hub, "role=server", "role=client")
	records := measure(t, probedScene(t, 1, 10, record.ProbeSyscalls), unaware)
	for _, r := range records {
		if want := `the probe "syscalls", which this agent does not allow: start the agent with --allow-probes`; r.Probe == "" && r.Failure != "" || r.Probe != "" && !strings.Contains(r.Failure, want) {
			t.Errorf("the trial with the probe %q: %q, want %q", r.Probe, r.Failure, want)
		}
	}
	if !strings.Contains(said.String(), `the probe "syscalls", which this agent does not allow`) {
		t.Errorf("the agent's log does not say what it refused:\n%s", said)
	}
	unaware.Close()
	for probe, want := range map[string]string{
		record.ProbeSyscalls: "the agent s does not allow the probe syscalls: start it with --allow-probes syscalls, or leave out the probe",
		record.ProbeCPU:      "the agent c does not allow the probe cpu: start it with --allow-probes cpu",
	} {
		if err := takeFirst(t, hub, probe); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", probe, err, want)
		}
	}
}

// takeFirst leases the agents for a run with a probe.
func takeFirst(t *testing.T, hub *hub.Hub, probe string) error {
	t.Helper()
	server, client := must(protocol.ParseSelector("role=server")), must(protocol.ParseSelector("role=client"))
	c, err := fleet.NewController(within(t), must(hub.Controller()), fleet.Plan{Server: &server, Client: client, Worker: must(os.Executable()), Lease: patience, Probes: []string{probe}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return c.TakeFirst(within(t))
}

// allowing lets an agent run these probes.
func allowing(probes ...string) func(*fleet.AgentOptions) {
	return func(o *fleet.AgentOptions) { o.Probes = probes }
}
