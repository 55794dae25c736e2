package check

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
)

// soundFleet is a closed loop of eight clients on two machines, with the server on a third,
// that nothing can be said against. Of what has one machine only the whole knows nothing.
func soundFleet(t *testing.T) *record.Record {
	t.Helper()
	r := sound(t)
	agent := func(name string) record.Agent {
		return record.Agent{Name: name, Machine: "linux", Boot: name, Clock: record.Clock{OffsetNS: 3e9, ErrorNS: 20_000}}
	}
	r.Fleet = &record.Fleet{Server: agent("server-1"), OpenedApartNS: 50_000}
	for i := range 2 {
		r.Fleet.Clients = append(r.Fleet.Clients, record.FleetClient{
			Agent: agent(fmt.Sprint("client-", i+1)), Clients: 4, WindowNS: r.WindowNS,
			Requests: 40_000, Completed: 40_000, Straddling: 4, StraddlingNS: 4e5,
			InFlight: 4, Active: 4, ServiceNS: 4e9, P50NS: 1e5, P99NS: 1e5, MaxNS: 1e5,
			WarmUp: r.WarmUp, Process: r.Client, Connections: r.Connections, Host: r.Host,
		})
	}
	r.Cell.Clients, r.Cell.Agents = 8, 2
	r.Requests, r.Completed, r.Straddling, r.InFlight, r.Active = 80_000, 80_000, 8, 8, 8
	r.Service = distributed(t, 80_000, 100_000)
	r.Client = record.Process{}
	r.Connections.Want, r.Connections.Opened = 8, 8
	return r
}

func TestSoundFleetPassesEveryCheck(t *testing.T) {
	for _, c := range Judge(soundFleet(t), DefaultLimits()) {
		if c.Level != record.OK || c.Detail == "" {
			t.Errorf("%s is %s: %s", c.Name, c.Level, c.Detail)
		}
	}
}

func TestOnlyFleetsHaveClocksToCompare(t *testing.T) {
	named := func(c record.Check) bool { return c.Name == clocksCheck }
	if slices.ContainsFunc(Judge(sound(t), DefaultLimits()), named) || !slices.ContainsFunc(Judge(soundFleet(t), DefaultLimits()), named) {
		t.Error("want the check clock of fleets, and of no other trial")
	}
}

// One fault a row, of one machine. The check that it is for must see it and name the agent, and
// no other may see it.
func TestEachFaultOfAFleetIsFound(t *testing.T) {
	besides := map[string]string{"neighbours": "gaps", "limits": "connections"} // what the fault is, too
	second := func(change func(*record.FleetClient)) func(*record.Record) {
		return func(r *record.Record) { change(&r.Fleet.Clients[1]) }
	}
	for _, c := range []struct {
		name  string
		fault func(*record.Record)
		check string
		level record.Level
		says  string
	}{
		{"a client full before an idle server", func(r *record.Record) { r.Server.Busy = new(0.2); r.Fleet.Clients[1].Process.Busy = new(0.99) }, "generator-bound", record.Invalid, "client-2: the client used 99 %"},
		{"a fifth between calls", second(func(c *record.FleetClient) { c.Engine.BetweenNS = 1e9 }), "generator-bound", record.Invalid, "client-2: the clients spent 25 %"},
		{"law broken in one", second(func(c *record.FleetClient) { c.ServiceNS = 3e9 }), "bookkeeping", record.Invalid, "client-2: the client counted 4 calls"},
		{"law broken in all", func(r *record.Record) { r.InFlight = 7 }, "bookkeeping", record.Invalid, "the client counted 7 calls"},
		{"one done long before the other", func(r *record.Record) { r.Active = 6 }, "evenness", record.Warning, "6 of 8 clients"},
		{"some of one done before", second(func(c *record.FleetClient) { c.Active = 3 }), "evenness", record.Warning, "client-2: on average, 3 of 4 clients"},
		{"a connection too few", second(func(c *record.FleetClient) { c.Connections.Opened = 3 }), "connections", record.Invalid, "client-2: per-worker: the mode asks for 4 connections; 3 were opened"},
		{"placed on one, run on another", second(func(c *record.FleetClient) { c.Process.AllowedCPUs = []int{3} }), "affinity", record.Warning, "client-2: the client was assigned to CPU 0 but could run on CPU 3"},
		{"a server placed on one, run on another", func(r *record.Record) { r.Server.AllowedCPUs = []int{3} }, "affinity", record.Warning, "server-1: the server was assigned to CPU 1 but could run on CPU 3"},
		{"a client with the server's CPU of one machine", func(r *record.Record) {
			r.Fleet.Clients[0].Boot = "server-1"
			r.Fleet.Clients[0].Process.CPUs, r.Fleet.Clients[0].Process.AllowedCPUs = []int{1}, []int{1}
		}, "affinity", record.Warning, "client-1: client and server could both run on CPU 1"},
		{"a quota", second(func(c *record.FleetClient) {
			c.Process.ThrottledNS, c.Process.ThrottledPeriods = new(int64(9e8)), new(int64(900))
		}), "cpu-quota", record.Warning, "client-2: the client was stopped 900 times"},
		{"GOGC=10", second(func(c *record.FleetClient) { c.Process.GCPercent, c.Process.GCCPUNS = new(int64(10)), new(int64(4e8)) }), "generator-gc", record.Invalid, "client-2: the client ran with GOGC=10"},
		{"the server's GOGC", func(r *record.Record) { r.Server.GCPercent = new(int64(50)) }, "runtime", record.Warning, "server-1: the server's garbage collector"},
		{"a tracer", second(func(c *record.FleetClient) { c.Process.TracedBy = 7 }), "runtime", record.Warning, "client-2: process 7 traces the client"},
		{"one slept", second(func(c *record.FleetClient) { c.Host.SuspendedNS = new(int64(1e9)) }), "suspended", record.Invalid, "client-2: the machine slept"},
		{"the server's machine slept", func(r *record.Record) {
			for i := range r.Fleet.Clients {
				r.Fleet.Clients[i].Host.SuspendedNS = new(int64(0))
			}
			r.Host.SuspendedNS = new(int64(1e9))
		}, "suspended", record.Invalid, "server-1: the machine slept"},
		{"stolen", second(func(c *record.FleetClient) { c.Host.StolenShare, c.Process.Gaps = new(0.2), nil }), "neighbours", record.Invalid, "client-2: other programs took 20 % of the CPU time, other virtual machines 20 %"},
		{"stolen of all", func(r *record.Record) {
			r.Fleet.Clients[0].Host.StolenShare, r.Fleet.Clients[1].Host.StolenShare = new(0.22), new(0.3)
		}, "neighbours", record.Warning, "client-2: other programs took 30 % of the CPU time, other virtual machines 30 %; another agent reports a similar result"},
		{"loud neighbours", second(func(c *record.FleetClient) { c.Host.OthersShare, c.Process.Gaps = new(0.8), nil }), "neighbours", record.Invalid, "client-2: other programs took 80 %"},
		{"a listen queue was full", second(func(c *record.FleetClient) { c.Host.AcceptDrops, c.Connections.During = new(int64(5)), 1 }), "limits", record.Invalid, "client-2: backlog: 5 of 1"},

		{"clocks off by a fiftieth", func(r *record.Record) { r.Fleet.Clients[1].Clock.ErrorNS = 2e7 }, clocksCheck, record.Warning, "the error of the clock of client-2 is at most 20 ms"},
		{"clocks off by a tenth of a slice", func(r *record.Record) { r.Fleet.Clients[1].Clock.ErrorNS, r.Slices = 1e7, make([]record.Slice, 10) }, clocksCheck, record.Invalid, "this is at most 10 % of the mean slice"},
		{"a server's clock off by a tenth", func(r *record.Record) { r.Fleet.Server.Clock.ErrorNS = 1e8 }, clocksCheck, record.Invalid, "the error of the clock of server-1 is at most 100 ms"},
		{"windows apart by a tenth", func(r *record.Record) { r.Fleet.OpenedApartNS = 1e8 }, clocksCheck, record.Invalid, "the windows opened within 100 ms of each other; this is at most 10 % of the window"},
	} {
		r := soundFleet(t)
		c.fault(r)
		for _, made := range Judge(r, DefaultLimits()) {
			switch {
			case made.Name == c.check:
				if made.Level != c.level || !strings.Contains(made.Detail, c.says) {
					t.Errorf("%s: %s is %s: %s; want %s, %q", c.name, made.Name, made.Level, made.Detail, c.level, c.says)
				}
			case made.Level != record.OK && besides[c.check] != made.Name:
				t.Errorf("%s: %s is %s: %s", c.name, made.Name, made.Level, made.Detail)
			}
		}
	}
}

// What a machine does not tell takes nothing from what the others tell.
func TestWhatNoMachineTellsIsUnknown(t *testing.T) {
	r := soundFleet(t)
	r.Fleet.Clients[0].Host = record.HostState{}
	if c := checkNamed(Judge(r, DefaultLimits()), "neighbours"); c.Level != record.OK || strings.HasPrefix(c.Detail, "client-1") {
		t.Errorf("%+v: want what the others tell", c)
	}
	r.Fleet.Clients[1].Host, r.Host = record.HostState{}, record.HostState{}
	if c := checkNamed(Judge(r, DefaultLimits()), "neighbours"); c.Level != record.Unknown {
		t.Errorf("%+v: want it unknown", c)
	}
}

func checkNamed(checks []record.Check, name string) record.Check {
	return checks[slices.IndexFunc(checks, func(c record.Check) bool { return c.Name == name })]
}

// An open loop's schedule is each client's own, and is judged by its lateness alone.
func TestScheduleOfAFleet(t *testing.T) {
	r := soundFleet(t)
	open := soundOpen(t)
	r.Cell.Load, r.Pacing, r.Response = open.Cell.Load, open.Pacing, open.Response
	for i := range r.Fleet.Clients {
		r.Fleet.Clients[i].Pacing = new(*open.Pacing)
	}
	if c := checkNamed(Judge(r, DefaultLimits()), "schedule"); c.Level != record.OK {
		t.Errorf("%+v: want nothing found", c)
	}
	r.Fleet.Clients[1].Pacing.Late = distributed(t, 10_000, 50_000)
	if c := checkNamed(Judge(r, DefaultLimits()), "schedule"); c.Level != record.Invalid || !strings.HasPrefix(c.Detail, "client-2: the load generator sent requests late, by 50 µs") {
		t.Errorf("%+v: want the second client's lateness", c)
	}
	for i := range r.Fleet.Clients {
		r.Fleet.Clients[i].Pacing.Late.Histogram = ""
	}
	if c := checkNamed(Judge(r, DefaultLimits()), "schedule"); c.Level != record.Unknown {
		t.Errorf("%+v: want it unknown without a distribution", c)
	}
}

// A fleet whose server was given is judged by its clients.
func TestFleetWithoutAServerOfItsOwn(t *testing.T) {
	r := soundFleet(t)
	r.Fleet.Server, r.Server, r.Host, r.Cell.Target = record.Agent{}, record.Process{}, record.HostState{}, "server:1"
	for _, c := range Judge(r, DefaultLimits()) {
		if c.Name != "neighbours" && c.Level != record.OK {
			t.Errorf("%s is %s: %s", c.Name, c.Level, c.Detail)
		}
	}
}

// Judged from its file, a trial comes to the same.
func TestFleetIsJudgedAgainFromItsFile(t *testing.T) {
	r := soundFleet(t)
	r.Fleet.Clients[1].Host.StolenShare, r.Fleet.Clients[1].Process.Gaps = new(0.2), nil
	r.Checks = Judge(r, DefaultLimits())
	line, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	var read record.Record
	if err := json.Unmarshal(line, &read); err != nil {
		t.Fatal(err)
	}
	again := JudgeAgain(&read, DefaultLimits())
	if len(again.Kept) > 0 || len(again.Checks) != len(r.Checks) {
		t.Errorf("kept %v of %d checks", again.Kept, len(again.Checks))
	}
	for i, c := range again.Checks {
		if c.Name != r.Checks[i].Name || c.Level != r.Checks[i].Level || c.Detail != r.Checks[i].Detail {
			t.Errorf("%+v, and when it was measured %+v", c, r.Checks[i])
		}
	}
	if why, spoiled := SpoiledByMachine(again.Checks); !spoiled || why.Name != "neighbours" {
		t.Errorf("%+v, %v: want it spoiled by stolen time", why, spoiled)
	}
}
