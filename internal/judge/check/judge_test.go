package check

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// distributed is count durations of the same length.
func distributed(t *testing.T, count int, each time.Duration) latency.Distribution {
	t.Helper()
	r := latency.NewRecorder()
	defer r.Close()
	for range count {
		r.Record(int64(each))
	}
	d, err := latency.NewHistogram(r).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// sound is a closed loop that nothing can be said against: four clients whose
// requests take 100 µs each, for a second.
func sound(t *testing.T) *record.Record {
	t.Helper()
	return &record.Record{
		Cell:     record.Cell{Place: record.Place{Clients: 4}, Load: record.Load{Model: "closed", RequestsPerClient: 10_000}},
		WindowNS: 1e9,
		Measurement: record.Measurement{
			Requests: 40_000, Completed: 40_000, Straddling: 4, StraddlingNS: 4e5, InFlight: 4, Active: 4,
			Service: distributed(t, 40_000, 100*time.Microsecond),
			WarmUp:  record.WarmUp{Settled: true, Method: "MSER-5"},
		},
		Client:      ended(record.Process{CPUs: []int{0}, Busy: new(0.6), UserNS: new(int64(4e8)), SystemNS: new(int64(2e8))}),
		Server:      ended(record.Process{CPUs: []int{1}, Busy: new(0.9), UserNS: new(int64(6e8)), SystemNS: new(int64(3e8))}),
		Connections: record.Connections{Mode: "per-worker", Want: 4, Opened: 4},
		Host: record.HostState{
			SuspendedNS: new(int64(0)), StolenShare: new(0.0), OthersShare: new(0.0),
		},
	}
}

// ended adds to a process what a worker tells at its end.
func ended(p record.Process) record.Process {
	p.AllowedCPUs, p.StoppedNS = p.CPUs, new(int64(0))
	p.ThrottledNS, p.ThrottledPeriods = new(int64(0)), new(int64(0))
	p.Gaps = &record.Gaps{CPUs: 1, Wakings: 250}
	p.GCCPUNS, p.GCPercent = new(int64(3e7)), new(int64(100))
	return p
}

// soundOpen is an open loop of 10,000 a second, without fault too.
func soundOpen(t *testing.T) *record.Record {
	t.Helper()
	r := sound(t)
	r.Cell.Load = record.Load{Model: "open", DurationNS: 1e9, RatePerSecond: 10_000}
	r.Requests, r.Completed, r.InFlight = 10_000, 10_000, 1
	r.Service = distributed(t, 10_000, 100*time.Microsecond)
	response := distributed(t, 10_000, 101*time.Microsecond)
	r.Response = &response
	r.Pacing = &record.Pacing{Scheduled: 10_000, Late: distributed(t, 10_000, time.Microsecond)}
	return r
}

func TestValidRecordPassesEveryCheck(t *testing.T) {
	for name, r := range map[string]*record.Record{"closed": sound(t), "open": soundOpen(t)} {
		for _, c := range Judge(r, DefaultLimits()) {
			if c.Level != record.OK || c.Detail == "" {
				t.Errorf("%s: %s is %s: %s", name, c.Name, c.Level, c.Detail)
			}
		}
	}
}

// Another program tells less than wirelab's own client: what it leaves out is unknown,
// and what applies is judged.
func TestOtherProgramsClientIsJudgedByWhatItReports(t *testing.T) {
	r := sound(t)
	r.ClientProgram, r.InFlight, r.Active, r.Connections, r.WarmUp = "program 1.0", 0, 0, record.Connections{Mode: "shared", Want: 1}, record.WarmUp{}
	r.Service.Histogram = ""
	busy(r, 0.99, 0.2)
	r.Errors = []record.ErrorCount{{Code: "WrongAnswer", Count: 20_000}}
	for _, c := range Judge(r, DefaultLimits()) {
		want := record.OK
		switch c.Name {
		case "bookkeeping", "evenness", "connections", "settled":
			want = record.Unknown
			if !strings.HasPrefix(c.Detail, "the client, program 1.0, does not report ") {
				t.Errorf("%s: %s", c.Name, c.Detail)
			}
		case "errors":
			want = record.Invalid
		case "generator-bound": // the client is what is measured
			want = record.Warning
		}
		if c.Level != want {
			t.Errorf("%s is %s, want %s: %s", c.Name, c.Level, want, c.Detail)
		}
	}
}

// One fault a row. The check that it is for must see it, and no other may.
func TestEachFaultIsFound(t *testing.T) {
	type fault func(*record.Record)
	for _, c := range []struct {
		name  string
		fault fault
		check string
		level record.Level
		says  string
	}{
		{"half of the time between calls", func(r *record.Record) { r.Engine.BetweenNS = 2e9 }, "generator-bound", record.Invalid, "50 % of their time between calls"},
		{"a tenth of it", func(r *record.Record) { r.Engine.BetweenNS = 4e8 }, "generator-bound", record.Warning, "10 % of their time between calls"},
		{"client full, server idle", func(r *record.Record) { busy(r, 0.99, 0.2) }, "generator-bound", record.Invalid, "the client's limit, not the server's"},
		{"client full, server busy", func(r *record.Record) { busy(r, 0.99, 0.8) }, "generator-bound", record.Warning, "limits of both ends"},
		{"client full, server unknown", func(r *record.Record) { busy(r, 0.99, 0); r.Server.Busy = nil }, "generator-bound", record.Warning, "may show the client's limit"},
		{"client full, server idle, a tenth between", func(r *record.Record) { busy(r, 0.99, 0.2); r.Engine.BetweenNS = 4e8 }, "generator-bound", record.Invalid, "the client's limit, not the server's"},
		{"client unknown", func(r *record.Record) { r.Client.Busy = nil }, "generator-bound", record.Unknown, "unknown"},

		{"law broken", func(r *record.Record) { r.InFlight = 3.9 }, "bookkeeping", record.Invalid, "3.9 calls in flight"},
		{"more ended than can have", func(r *record.Record) { r.Completed = 41_000 }, "bookkeeping", record.Invalid, "gives 4.1"},
		{"fewer service times than requests", func(r *record.Record) { r.Requests++ }, "bookkeeping", record.Invalid, "contradicts itself"},
		{"histogram lost", func(r *record.Record) { r.Service.Histogram = "" }, "bookkeeping", record.Invalid, "cannot be read"},
		{"nothing ended", func(r *record.Record) { r.Completed = 0 }, "bookkeeping", record.Invalid, "no call ended"},
		{"no window", func(r *record.Record) { r.WindowNS = 0 }, "bookkeeping", record.Invalid, "no call ended"},

		{"some done long before others", func(r *record.Record) { r.Active = 3.5 }, "evenness", record.Warning, "long before others"},

		{"connections not made", func(r *record.Record) { r.Connections.Opened = 3 }, "connections", record.Invalid, "asks for 4 connections; 3 were opened"},
		{"a connection replaced in the window", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 5, 1 }, "connections", record.Invalid, "1 of them in the window"},
		{"one replaced before it", func(r *record.Record) { r.Connections.Opened = 5 }, "connections", record.Warning, "5 were opened"},
		{"an attempt failed", func(r *record.Record) { r.Connections.Failed = 1 }, "connections", record.Warning, "1 attempts failed"},
		{"a pool that needed fewer", func(r *record.Record) { r.Connections.Mode, r.Connections.Opened = "pool:4", 3 }, "connections", record.Warning, "pool:4"},
		{"a pool that grew in the window", func(r *record.Record) { r.Connections.Mode, r.Connections.During = "pool", 1 }, "connections", record.Warning, "pool"},
		{"a pool that churns", func(r *record.Record) {
			r.Connections.Mode, r.Connections.Opened, r.Connections.During = "pool", 9, 5
		}, "connections", record.Invalid, "9 were opened, 5 of them"},

		{"no port left", func(r *record.Record) { meets(r, failure.PortExhaustion, 100) }, "limits", record.Invalid, "100 of 40000 requests failed because of a limit of the machine, not of the protocol; the most frequent failure is port-exhaustion"},
		{"one descriptor too few", func(r *record.Record) { meets(r, failure.DescriptorLimit, 1) }, "limits", record.Invalid, "descriptor-limit"},
		{"no room before accept", func(r *record.Record) { meets(r, failure.Backlog, 1) }, "limits", record.Invalid, "backlog"},
		{"refused is nobody's limit", func(r *record.Record) { meets(r, failure.Refused, 1) }, "limits", record.OK, "no request failed because of a limit"},
		{"connections dropped", func(r *record.Record) { r.Host.AcceptDrops, r.Connections.During = drops(1), 2 }, "limits", record.Invalid, "backlog: 1 of 2 connections"},
		{"connections of others dropped", func(r *record.Record) { r.Host.AcceptDrops = drops(1) }, "limits", record.OK, "no request failed because of a limit"},
		{"datagrams dropped", func(r *record.Record) { r.Host.UDPDrops, r.Traffic = drops(401), overQUIC }, "limits", record.Invalid, "udp-buffer: the kernel dropped 401"},
		{"few datagrams dropped", func(r *record.Record) { r.Host.UDPDrops, r.Traffic = drops(400), overQUIC }, "limits", record.Warning, "udp-buffer"},
		{"datagrams of others dropped", func(r *record.Record) { r.Host.UDPDrops = drops(401) }, "limits", record.OK, "no request failed because of a limit"},

		{"a link that is late", func(r *record.Record) { delayed(r, 3_000_000, 0) }, "link", record.Invalid, "3 ms at P99; the wanted delay is 5 ms"},
		{"a link that is late a little", func(r *record.Record) { delayed(r, 600_000, 0) }, "link", record.Warning, "600 µs at P99"},
		{"a link that is in time", func(r *record.Record) { delayed(r, 200_000, 0) }, "link", record.OK, "1000 frames"},
		{"a link whose faster way is late", func(r *record.Record) { delayedApart(r, 600_000, 600_000) }, "link", record.Invalid, "up, frames were late by 300 µs in the median and by 600 µs at P99; the wanted delay is 1 ms; use a delay of at least 1.2 ms"},
		{"a link whose slower way is as late", func(r *record.Record) { delayedApart(r, 10_000, 150_000) }, "link", record.OK, "1000 frames"},
		{"a link that is late where it has no delay", func(r *record.Record) {
			delayedApart(r, 0, 300_000)
			r.Cell.Network.Down.DelayNS = 0
			r.Cell.Network.DelayNS = 5e5
		}, "link", record.Invalid, "down, frames were late by 150 µs in the median and by 300 µs at P99; the wanted delay is 500 µs"},
		{"a link that loses as asked", func(r *record.Record) { lossy(r, 0.01, 0, 110) }, "link", record.OK, "up, 110 of 10000 frames were lost (1.1 %; the scenario asks for 1 %)"},
		{"a link that loses more", func(r *record.Record) { lossy(r, 0.01, 0, 170) }, "link", record.Invalid, "too large for chance"},
		{"a link that loses fewer", func(r *record.Record) { lossy(r, 0.01, 0, 40) }, "link", record.Invalid, "too large for chance"},
		{"a link that loses unasked", func(r *record.Record) { lossy(r, 0, 0, 1) }, "link", record.Invalid, "asks for 0 %"},
		{"a link that loses in runs", func(r *record.Record) { lossy(r, 0.01, 5, 170) }, "link", record.OK, "up, 170 of 10000"},
		{"a link that drops", func(r *record.Record) { delayed(r, 0, 1) }, "link", record.Invalid, "dropped 1 of 1000 frames"},

		{"a few errors", func(r *record.Record) { fails(r, 400) }, "errors", record.Warning, "400 of 40000"},
		{"many errors", func(r *record.Record) { fails(r, 401) }, "errors", record.Invalid, "Unavailable: gone"},
		{"requests never made", func(r *record.Record) {
			r.Cell.Load.RequestsPerClient = 10_001
		}, "errors", record.Invalid, "4 of 40004 requests were never sent"},
		{"requests of a total never made", func(r *record.Record) {
			r.Cell.Load = record.Load{Model: "closed", TotalRequests: 40_003}
		}, "errors", record.Invalid, "3 of 40003 requests were never sent"},

		{"not settled", func(r *record.Record) { r.WarmUp.Settled = false }, "settled", record.Warning, "was not steady"},

		{"stolen where nobody watched", func(r *record.Record) { r.Host.StolenShare, r.Server.Gaps = new(0.2), nil }, "neighbours", record.Invalid, "other programs took 20 % of the CPU time, other virtual machines 20 %"},
		{"stolen in a short window of a service", func(r *record.Record) { // it is trusted no more than a long one
			r.Cell.Stack, r.WindowNS, r.Requests, r.Completed, r.InFlight = record.ServiceStack, 3e8, 12_000, 12_000, 4
			r.Host.StolenShare, r.Server.Gaps = new(0.2), nil
		}, "neighbours", record.Invalid, "other virtual machines 20 %"},
		{"stolen", func(r *record.Record) { r.Host.StolenShare = new(0.25) }, "neighbours", record.Warning, "other virtual machines 25 %"},
		{"a little stolen", func(r *record.Record) { r.Host.StolenShare, r.Server.Gaps = new(0.07), nil }, "neighbours", record.Warning, "7 %"},
		{"nobody knows what others took", func(r *record.Record) { r.Host.StolenShare, r.Host.OthersShare = nil, nil }, "neighbours", record.Unknown, "does not report"},
		{"loud neighbours", func(r *record.Record) { r.Host.OthersShare, r.Server.Gaps = new(0.8), nil }, "neighbours", record.Invalid, "80 %"},
		{"neighbours", func(r *record.Record) { r.Host.OthersShare, r.Server.Gaps = new(0.1), nil }, "neighbours", record.Warning, "10 %"},
		{"loud neighbours that left no gaps", func(r *record.Record) { r.Host.OthersShare = new(0.6) }, "neighbours", record.Warning, "60 %"},
		{"neighbours that left no gaps", func(r *record.Record) { r.Host.OthersShare = new(0.2) }, "neighbours", record.OK, "20 %"},
		{"a foreign server is a neighbour", func(r *record.Record) {
			r.Host.OthersShare, r.Cell.Target, r.Server = new(0.6), "127.0.0.1:9", record.Process{}
		}, "neighbours", record.Unknown, "127.0.0.1:9"},
		{"neighbours of a foreign server whose processes were found", func(r *record.Record) {
			r.Host.OthersShare, r.Cell.Target = new(0.6), "127.0.0.1:9"
		}, "neighbours", record.Warning, "60 %"},
		{"threads that waited for a CPU", func(r *record.Record) {
			wait(r, r.WindowNS/5, 2)
			r.Client.Busy, r.Server.Busy = new(0.5), new(0.5)
		}, "gaps", record.Invalid, "waited for a CPU for 10 µs per call, because other programs ran: the mean may be up to 1.6"},
		{"threads that waited for each other, beside others on other CPUs", func(r *record.Record) {
			wait(r, r.WindowNS, 2)
			r.Client.Busy, r.Server.Busy = new(0.94), new(0.97)
		}, "gaps", record.OK, ""},
		{"threads that waited for each other", func(r *record.Record) {
			wait(r, r.WindowNS, 0.05)
		}, "gaps", record.OK, ""},
	} {
		r := sound(t)
		c.fault(r)
		if slices.Contains([]string{"limits", "neighbours"}, c.check) { // what they rest on is another check's too
			wantCheckSays(t, c.name, r, c.check, c.level, c.says)
			continue
		}
		wantOnly(t, c.name, r, c.check, c.level, c.says)
	}
}

func TestEachFaultOfAScheduleIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*record.Record)
		level record.Level
		says  string
	}{
		{"no request was scheduled", func(r *record.Record) { r.Pacing.Scheduled = 0 }, record.Invalid, "no request was scheduled"},
		{"generator late", func(r *record.Record) { r.Pacing.Late = distributed(t, 10_000, 30*time.Microsecond) }, record.Invalid, "late, by 30 µs in the median"},
		{"late beside a slow server", func(r *record.Record) {
			r.Pacing.Late = distributed(t, 10_000, 30*time.Microsecond)
			r.Service = distributed(t, 10_000, time.Millisecond)
			response := distributed(t, 10_000, time.Millisecond)
			r.Response, r.InFlight = &response, 10
		}, record.OK, "30.0 µs late in the median"},
		{"generator late in the tail", func(r *record.Record) {
			r.Pacing.Late = tailed(t, time.Microsecond, 60*time.Microsecond)
		}, record.Warning, "late, by 60 µs at P99"},
		{"too few for a tail", func(r *record.Record) {
			r.Pacing.Late = tailedBy(t, 999, 20, time.Microsecond, 60*time.Microsecond)
		}, record.OK, "late in the median"},
		{"a search's measurement of another rate", func(r *record.Record) { r.Search = &record.Search{KeptPerSecond: 9900} }, record.Warning, "kept the goal is 9900/s, but latency, CPU time and traffic were measured at 10000/s"},
		{"a search's measurement of its rate", func(r *record.Record) { r.Search = &record.Search{KeptPerSecond: 9990} }, record.OK, "10000 scheduled requests were sent"},
		{"too few clients", func(r *record.Record) { r.Pacing.Queued = 500 }, record.Warning, "5 % of the scheduled requests waited, because no client was free (of 4)"},
	} {
		r := soundOpen(t)
		c.fault(r)
		wantOnly(t, c.name, r, "schedule", c.level, c.says)
	}
}

// A record that does not tell how long its straddling calls took gets the
// benefit of the doubt, up to the longest call.
func TestBookkeepingAllowsForStraddlingCalls(t *testing.T) {
	r := sound(t)
	r.InFlight, r.Straddling, r.StraddlingNS = 3.5, 4000, 4e8
	wantOnly(t, "straddling", r, "bookkeeping", record.OK, "4000 of 40000 calls began or ended outside")
	r.StraddlingNS = 0
	wantOnly(t, "straddling, time unknown", r, "bookkeeping", record.OK, "4000")
	r.Straddling = 0
	wantOnly(t, "no straddling", r, "bookkeeping", record.Invalid, "3.5 calls")
}

// In an open loop a stall at the window's end makes calls go out after it, which are
// measured and were not in flight within.
func TestBookkeepingAllowsForABacklog(t *testing.T) {
	r := soundOpen(t)
	r.Completed, r.BacklogNS = r.Requests/2, r.Service.Sum/2
	r.InFlight /= 2
	wantCheckSays(t, "a backlog", r, "bookkeeping", record.OK, "")
	r.BacklogNS = 0
	r.Completed, r.InFlight = r.Requests, r.InFlight/4
	wantCheckSays(t, "lost time", r, "bookkeeping", record.Invalid, "")
}

func TestTrialsSpoiledByTheMachineAlone(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(*record.Record)
		want  bool
	}{
		"sound":      {func(*record.Record) {}, false},
		"neighbours": {func(r *record.Record) { r.Host.OthersShare, r.Server.Gaps = new(0.8), nil }, true},
		"gaps": {func(r *record.Record) {
			r.Server.Gaps.Lengths, r.Server.Gaps.LongestNS = []record.GapLength{{Count: 1, SumNS: 5e8}}, 5e8
			stopped(t, r, &r.Client, 1, 1, 500e6)
			r.Client = sound(t).Client
		}, true},
		"a warning":              {func(r *record.Record) { r.Host.OthersShare = new(0.2) }, false},
		"errors":                 {func(r *record.Record) { fails(r, 500) }, false},
		"a throughput that fell": {func(r *record.Record) { r.Host.OthersShare = new(0.15); fell(r) }, true},
		"that fell by itself":    {func(r *record.Record) { r.Host.OthersShare = new(0.03); fell(r) }, false},
		"neighbours, errors":     {func(r *record.Record) { r.Host.OthersShare, r.Server.Gaps = new(0.8), nil; fails(r, 500) }, false},
		"no measurement":         {func(r *record.Record) { r.Failure = "it died" }, false},
	} {
		r := sound(t)
		c.spoil(r)
		r.Checks = Judge(r, DefaultLimits())
		if why, got := SpoiledByMachine(r.Checks); got != c.want || got && why.Name == "settled" {
			t.Errorf("%s: spoiled by the machine: %v (%+v), want %v", name, got, why, c.want)
		}
	}
}

func TestAFailureIsInvalid(t *testing.T) {
	r := &record.Record{Failure: "server tcp: ended with signal: killed"}
	r.Checks = Judge(r, DefaultLimits())
	if r.Valid() || len(r.Checks) != 1 || !strings.Contains(r.Checks[0].Detail, "signal: killed") {
		t.Errorf("checks %+v", r.Checks)
	}
}

// fell gives a trial a throughput that falls in its window.
func fell(r *record.Record) {
	r.Intervals = course(false, func(seconds float64) float64 { return 1 + 4*math.Exp(-(seconds+0.25)/0.3) })
	r.WarmUp.TookNS = 250e6
}

func busy(r *record.Record, client, server float64) {
	r.Client.Busy, r.Server.Busy = &client, &server
}

// fails lets count requests fail, most of them as Unavailable.
func fails(r *record.Record, count int64) {
	r.Errors = []record.ErrorCount{{Code: "Aborted", Count: 1, Example: "once"}, {Code: "Unavailable", Count: count - 1, Example: "gone"}}
}

// meets lets count requests fail with the class. Another check gives the warning about
// errors that goes with it.
func meets(r *record.Record, class failure.Class, count int64) {
	r.Errors = []record.ErrorCount{{Class: string(class), Code: "Unavailable", Count: count, Example: "no more"}}
}

// delayed puts an emulated link of 5 ms between the ends.
func delayed(r *record.Record, lateNS, dropped int64) {
	r.Cell.Network.DelayNS = 5e6
	r.Link = &record.Link{Frames: 1000, Dropped: dropped, LateP50NS: lateNS / 2, LateP99NS: lateNS}
}

// delayedApart puts one between the ends that delays by 1 ms up and by 9 ms down.
func delayedApart(r *record.Record, upLateNS, downLateNS int64) {
	n := &r.Cell.Network
	n.DelayNS, n.Up.DelayNS, n.Down.DelayNS = 5e6, 1e6, 9e6
	way := func(late int64) *record.LinkWay {
		half := late / 2
		return &record.LinkWay{Frames: 500, Sent: 500, LateP50NS: &half, LateP99NS: &late}
	}
	r.Link = &record.Link{Engine: "frames", Frames: 1000, LateP99NS: max(upLateNS, downLateNS), Up: way(upLateNS), Down: way(downLateNS)}
}

// lossy lets a link lose frames on its way up. share is the share that was
// asked for, in runs of length run or frame by frame if run is 0; lost is the number lost.
func lossy(r *record.Record, share, run float64, lost int64) {
	r.Cell.Network.Link = "asked"
	r.Cell.Network.Up = record.Way{Loss: share}
	if run > 0 {
		r.Cell.Network.Up = record.Way{BurstLoss: share, BurstPackets: run}
	}
	r.Link = &record.Link{Engine: "frames", Frames: 20_000, Up: &record.LinkWay{Frames: 10_000, Lost: lost}, Down: &record.LinkWay{Frames: 10_000}}
}

func drops(count int64) *int64 { return &count }

var overQUIC = &record.Traffic{Transport: "udp"}

// tailed returns the distribution of 10,000 durations. One in fifty is longer.
func tailed(t *testing.T, most, some time.Duration) latency.Distribution {
	t.Helper()
	r := latency.NewRecorder()
	defer r.Close()
	for i := range 10_000 {
		if i%50 == 0 {
			r.Record(int64(some))
		} else {
			r.Record(int64(most))
		}
	}
	d, err := latency.NewHistogram(r).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// wantOnly wants the check at that level, with those words, and all others OK.
func wantOnly(t *testing.T, name string, r *record.Record, check string, level record.Level, says string) {
	t.Helper()
	checks := Judge(r, DefaultLimits())
	if !slices.ContainsFunc(checks, func(c record.Check) bool { return c.Name == check }) {
		t.Fatalf("there is no check %q", check)
	}
	for _, c := range checks {
		switch {
		case c.Name != check && c.Level != record.OK:
			t.Errorf("%s: %s is %s too: %s", name, c.Name, c.Level, c.Detail)
		case c.Name == check && (c.Level != level || !strings.Contains(c.Detail, says)):
			t.Errorf("%s: %s is %s: %s\nwant %s: …%s…", name, c.Name, c.Level, c.Detail, level, says)
		}
	}
}

// A check that has another name today replaces the stored one, which is not kept beside it.
func TestARenamedCheckIsJudgedAgain(t *testing.T) {
	r := sound(t)
	r.Checks = []record.Check{{Name: "littles-law", Level: record.Invalid, Detail: "old"}}
	again := JudgeAgain(r, DefaultLimits())
	if len(again.Kept) != 0 || slices.ContainsFunc(again.Checks, func(c record.Check) bool { return c.Name == "littles-law" || c.Level == record.Invalid }) {
		t.Errorf("kept %v, checks %+v", again.Kept, again.Checks)
	}
}

// wait lets the threads of both ends wait for a CPU, while other programs use the given number of CPUs.
func wait(r *record.Record, waitedNS int64, others float64) {
	r.Client.WaitedNS, r.Server.WaitedNS, r.Host.OthersCPUs = &waitedNS, &waitedNS, &others
}
