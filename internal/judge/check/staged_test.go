package check

import (
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
)

func TestTheWorkersRuntimeIsTheirOwn(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*record.Record)
		level record.Level
		says  string
	}{
		{"as placed", func(r *record.Record) { r.Client.GoMaxProcs, r.Server.GoMaxProcs = 1, 1 }, record.OK, ""},
		{"not known", func(*record.Record) {}, record.OK, ""},
		{"a client held to one CPU", func(r *record.Record) {
			r.Client.CPUs = []int{0, 2, 3}
			r.Client.AllowedCPUs = r.Client.CPUs
			r.Client.GoMaxProcs = 1
		}, record.Warning, "the client used at most 1 of its 3 CPUs"},
		{"too many threads", func(r *record.Record) { r.Client.GoMaxProcs = 64 }, record.Warning, "the client ran up to 64 threads on 1 CPUs"},
		{"too many threads of the server", func(r *record.Record) { r.Server.GoMaxProcs = 2 }, record.Warning, "the server ran up to 2 threads"},
		{"the server's collector", func(r *record.Record) { r.Server.GCPercent = new(int64(2)) }, record.Warning, "GOGC=2, where 100 is the default"},
		{"strace", func(r *record.Record) { r.Server.TracedBy = 77 }, record.Warning, "process 77 traces the server"},
		{"without a collector", func(r *record.Record) { r.Server.GCPercent = new(int64(-1)) }, record.Warning, "GOGC=off"},
		{"logging", func(r *record.Record) {
			r.Settings = []tuning.Setting{{Side: tuning.Server, Name: "GODEBUG", Value: "http2debug=2", Why: tuning.ReasonEnvironment}}
		}, record.Warning, "GODEBUG=http2debug=2 in the environment"},
		{"settings of our own", func(r *record.Record) {
			r.Settings = []tuning.Setting{{Side: tuning.Server, Name: "GOMEMLIMIT", Value: "1", Why: "large calls"}, {Name: "GOGC", Value: "100", Why: tuning.ReasonEnvironment}}
		}, record.OK, ""},
		{"another program", func(r *record.Record) { r.Server.GCPercent = nil }, record.OK, ""},
	} {
		r := sound(t)
		c.spoil(r)
		wantOnly(t, c.name, r, "runtime", c.level, c.says)
	}
	r := soundOpen(t)
	r.Client.GoMaxProcs = 2
	wantOnly(t, "one thread that waits for instants", r, "runtime", record.OK, "")
	r.Client.GoMaxProcs = 3
	wantOnly(t, "two more", r, "runtime", record.Warning, "up to 3 threads")
}

func TestAnswersThatComeBeforeTheWorkIsDone(t *testing.T) {
	// The sound record's calls take 100 µs each.
	for _, c := range []struct {
		name  string
		work  time.Duration
		fails int64
		level record.Level
	}{
		{"done", 100 * time.Microsecond, 0, record.OK},
		{"none asked for", 0, 0, record.OK},
		{"left out", 2 * time.Millisecond, 0, record.Invalid},
	} {
		r := sound(t)
		r.WorkNS = (*int64)(&c.work)
		wantOnly(t, c.name, r, "answers", c.level, "")
	}
	r := sound(t)
	wantOnly(t, "an older record", r, "answers", record.OK, "asks for no simulated work")

	// One call in 50 fails at once; the others take 1 ms, and so does the work.
	r = sound(t)
	r.WorkNS = new(int64(time.Millisecond))
	r.Service = tailed(t, time.Millisecond, time.Microsecond)
	fails(r, 10_000/50)
	wantCheckSays(t, "failed calls do no work", r, "answers", record.OK, "no answer came before")
	r.WorkNS = new(int64(2 * time.Millisecond))
	wantCheckSays(t, "the others left it out", r, "answers", record.Invalid, "the server skips the work")
}

func TestFailedCallsOfAnotherPaceAreTold(t *testing.T) {
	r := sound(t)
	fails(r, 200)
	r.FailedNS = new(int64(200 * 1000)) // 1 µs each
	wantOnly(t, "fast", r, "errors", record.Warning, "failed calls took 1 µs on average, and other calls 100 µs")
	r.FailedNS = new(int64(200 * 100_000))
	wantOnly(t, "as long", r, "errors", record.Warning, "gone")
	r.FailedNS = nil
	wantOnly(t, "an older record", r, "errors", record.Warning, "gone")
}

func TestWaitsBetweenTheEndsAreSeen(t *testing.T) {
	tcp := func(r *record.Record) *record.Traffic {
		r.Traffic = &record.Traffic{Transport: "tcp", MinRTTNS: new(int64(20_000)), SentPureAcks: new(int64(0)), BusyNS: new(int64(1e9)), BlockedNS: new(int64(0))}
		return r.Traffic
	}
	acked := func(share time.Duration, acks int64) func(*record.Record) {
		return func(r *record.Record) {
			r.Service = tailed(t, 100*time.Microsecond, share)
			r.Requests, r.Completed, r.InFlight = r.Service.Count, r.Service.Count, float64(r.Service.Sum)/1e9
			tcp(r).SentPureAcks = &acks
		}
	}
	waiting := func(each time.Duration, work *int64) func(*record.Record) {
		return func(r *record.Record) {
			r.Service, r.WorkNS = distributed(t, 2000, each), work
			r.Requests, r.Completed = 2000, 2000
			for _, end := range []*record.Process{&r.Client, &r.Server} {
				end.UserNS, end.SystemNS, end.Busy = new(int64(1e7)), new(int64(1e7)), new(0.02)
			}
		}
	}
	for _, c := range []struct {
		name  string
		spoil func(*record.Record)
		level record.Level
		says  string
	}{
		{"nothing", func(r *record.Record) { tcp(r) }, record.OK, "no wait between the ends"},
		{"delayed acknowledgements", acked(41*time.Millisecond, 200), record.Warning, "2 % of the calls took 40 to 52 ms"},
		{"a server that takes as long", acked(41*time.Millisecond, 0), record.OK, ""},
		{"a server that takes another time", acked(60*time.Millisecond, 200), record.OK, ""},
		{"calls of many lengths", func(r *record.Record) {
			lengths := make([]time.Duration, 10_000)
			for i := range lengths {
				lengths[i] = 20*time.Millisecond + time.Duration(i)*6*time.Microsecond
			}
			acked(time.Millisecond, 10_000)(r)
			r.Service = distribution(t, lengths)
			r.InFlight = float64(r.Service.Sum) / 1e9
		}, record.OK, ""},
		{"a full window", func(r *record.Record) { tcp(r).BlockedNS = new(int64(8e8)) }, record.Warning, "for 80 % of the time"},
		{"an unexplained wait", waiting(2*time.Millisecond, nil), record.Warning, "a call took 2 ms on average, but both ends together used only 20 µs"},
		{"work that was asked for", waiting(2*time.Millisecond, new(int64(1.9e6))), record.OK, ""},
		{"what wakes both ends", waiting(400*time.Microsecond, nil), record.OK, ""},
		{"no CPUs to spare", func(r *record.Record) {
			waiting(2*time.Millisecond, nil)(r)
			r.Server.Busy = new(0.6)
		}, record.OK, ""},
		{"neighbours that take them", func(r *record.Record) {
			waiting(2*time.Millisecond, nil)(r)
			r.Host.OthersShare = new(0.5)
		}, record.OK, ""},
		{"a far network", func(r *record.Record) {
			waiting(2*time.Millisecond, nil)(r)
			r.Cell.Network.DelayNS = 1e6
		}, record.OK, ""},
		{"a schedule", func(r *record.Record) {
			waiting(2*time.Millisecond, nil)(r)
			r.Cell.Load.Model = "open"
		}, record.OK, ""},
		{"large transfers", func(r *record.Record) { tcp(r).BlockedNS = new(int64(2e8)) }, record.OK, ""},
	} {
		r := sound(t)
		c.spoil(r)
		wantCheckSays(t, c.name, r, "path", c.level, c.says)
	}
}

func TestSlowConnectionsAreSeen(t *testing.T) {
	for _, c := range []struct {
		name          string
		clients       int
		connect, trip time.Duration
		service       time.Duration
		level         record.Level
	}{
		{"slow names", 4, 20 * time.Millisecond, 20 * time.Microsecond, 21 * time.Millisecond, record.Invalid},
		{"half of the time", 4, 2 * time.Millisecond, 20 * time.Microsecond, 10 * time.Millisecond, record.Warning},
		{"a far server", 4, 20 * time.Millisecond, 19 * time.Millisecond, 41 * time.Millisecond, record.OK},
		{"a busy server", 4, 300 * time.Microsecond, 20 * time.Microsecond, 500 * time.Microsecond, record.OK},
		{"its turn on a busy CPU", 800, 20 * time.Millisecond, 20 * time.Microsecond, 30 * time.Millisecond, record.OK},
		{"no part of the time", 4, 2 * time.Millisecond, 20 * time.Microsecond, 100 * time.Millisecond, record.OK},
	} {
		r := sound(t)
		r.Service = distributed(t, 40_000, c.service)
		connect := distributed(t, 40_000, c.connect)
		r.Cell.Clients = c.clients
		r.Connections = record.Connections{Mode: "new", During: 40_000, Connect: &connect}
		r.Traffic = &record.Traffic{Transport: "tcp", MinRTTNS: (*int64)(&c.trip)}
		wantCheckSays(t, c.name, r, "path", c.level, "")
	}
}

func TestPagesFromDiskAreJudgedByTheirEffect(t *testing.T) {
	few, many := sound(t), sound(t)
	few.Client.MajorFaults, many.Server.MajorFaults = new(int64(1)), new(int64(500))
	many.Service = tailed(t, 100*time.Microsecond, time.Millisecond)
	wantOnly(t, "one of 40,000", few, "faults", record.OK, "waited 1 times")
	wantCheckSays(t, "many", many, "faults", record.Warning, "waited 500 times")
	none := sound(t)
	none.Client.MajorFaults = new(int64(0))
	none.Service = latency.Distribution{}
	wantCheckSays(t, "none", none, "faults", record.OK, "neither client nor server waited")
}

// The record's clients take 100 µs a call, and a few of them stand in a queue.
func TestAnEndThatIsStoppedIsJudgedByItsEffect(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(*record.Record)
		level record.Level
		says  string
	}{
		{"not stopped", func(*record.Record) {}, record.OK, "stood still for at most 0 µs"},
		{"a server for a tenth of the window", func(r *record.Record) { r.Server.StoppedNS = new(int64(100e6)) }, record.Invalid, "the server stood still for at most 100 ms"},
		{"a client for a tenth of the window", func(r *record.Record) { r.Client.StoppedNS = new(int64(100e6)) }, record.Invalid, "the client stood still for at most 100 ms"},
		{"for less than its tail has", func(r *record.Record) { r.Server.StoppedNS = new(int64(1e6)) }, record.OK, "the server stood still for at most 1 ms"},
		{"an older record", func(r *record.Record) { r.Client.StoppedNS, r.Server.StoppedNS = nil, nil }, record.Unknown, "neither client nor server reported"},
	} {
		r := soundOpen(t)
		response := tailed(t, 100*time.Microsecond, 90*time.Millisecond)
		r.Response = &response
		c.spoil(r)
		wantCheckSays(t, c.name, r, "stopped", c.level, c.says)
	}
}
