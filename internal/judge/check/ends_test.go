package check

import (
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// What the kernel did to an end is noticed by its effect on the figure. Each falsehood
// stands beside its honest twin.
func TestWhatTheKernelDidToAnEndIsFound(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault func(*record.Record)
		check string
		level record.Level
		says  string
	}{
		{"a client under a quota that is used up", func(r *record.Record) { stopped(t, r, &r.Client, 0.3, 7, 70e6) }, "cpu-quota", record.Invalid, "the client was stopped 7 times, for 70 ms on average, because it had used up the CPU quota of its control groups (0.3 CPUs): the mean may be up to 1.96 times"},
		{"a server, too", func(r *record.Record) { stopped(t, r, &r.Server, 0.3, 7, 70e6) }, "cpu-quota", record.Invalid, "the server was stopped"},
		{"stopped for a tenth of the time", func(r *record.Record) { stopped(t, r, &r.Client, 0.9, 10, 12e6) }, "cpu-quota", record.Warning, "1.14 times"},
		{"stopped for a moment", func(r *record.Record) { stopped(t, r, &r.Client, 0.9, 1, 1e6) }, "cpu-quota", record.Warning, "this changes the mean and P99 by less than 1 %"},
		{"stopped by a quota that is gone", func(r *record.Record) { stopped(t, r, &r.Client, 0, 7, 70e6); r.Client.QuotaCPUs = nil }, "cpu-quota", record.Invalid, "CPU quota of its control groups:"},
		{"a quota that stopped nobody", func(r *record.Record) { r.Server.QuotaCPUs = new(0.9) }, "cpu-quota", record.Warning, "allow 0.9 CPUs, but 1 CPUs were assigned"},
		{"a quota that is enough", func(r *record.Record) { r.Server.QuotaCPUs = new(1.0) }, "cpu-quota", record.OK, "no CPU quota stopped"},
		{"the worse end is told", func(r *record.Record) {
			stopped(t, r, &r.Client, 0.9, 1, 1e6)
			stopped(t, r, &r.Server, 0.3, 7, 70e6)
		}, "cpu-quota", record.Invalid, "the server was stopped"},
		{"an end that does not tell", func(r *record.Record) { r.Server.ThrottledNS = nil }, "cpu-quota", record.OK, "no CPU quota stopped"},
		{"no end tells", func(r *record.Record) { r.Server.ThrottledNS, r.Client.ThrottledNS = nil, nil }, "cpu-quota", record.Unknown, "neither client nor server reported"},

		{"GOGC=2", func(r *record.Record) { collects(r, 2, 0.18) }, "generator-gc", record.Warning, "GOGC=2, and the garbage collector used 18 % of its CPU time: the mean may be up to 1.21 times"},
		{"GOGC=2 for half of the time", func(r *record.Record) { collects(r, 2, 0.5) }, "generator-gc", record.Invalid, "1.96 times"},
		{"the collector as it is, 18 %", func(r *record.Record) { collects(r, 100, 0.18) }, "generator-gc", record.OK, "18 % of the client's CPU time"},
		{"the collector as it is, 40 %", func(r *record.Record) { collects(r, 100, 0.4) }, "generator-gc", record.Warning, "40 % of the client's CPU time"},
		{"the collector is off", func(r *record.Record) { collects(r, -1, 0) }, "generator-gc", record.OK, "0 %"},
		{"nobody knows how it was set", func(r *record.Record) { r.Client.GCPercent = nil }, "generator-gc", record.Unknown, "did not report"},
		{"a client without a collector", func(r *record.Record) { r.Client.GCCPUNS = nil }, "generator-gc", record.Unknown, "did not report"},

		{"the client on the server's CPU", func(r *record.Record) { r.Client.AllowedCPUs = []int{0, 1} }, "affinity", record.Invalid, "the client was assigned to CPU 0 but could run on CPU 0,1; client and server could both run on CPU 1: each request may be up to 2.5 times"},
		{"an idle client on the server's CPU", func(r *record.Record) {
			r.Client.AllowedCPUs, r.Client.UserNS, r.Client.GCCPUNS = []int{0, 1}, new(int64(0)), new(int64(1e7))
		}, "affinity", record.Warning, "client and server could both run on CPU 1"},
		{"both on all CPUs, and busy", func(r *record.Record) {
			r.Client.AllowedCPUs, r.Server.AllowedCPUs = []int{0, 1}, []int{0, 1}
			r.Client.UserNS = new(int64(9e8))
		}, "affinity", record.Invalid, "each request may be up to 1.82 times"},
		{"moved to another CPU", func(r *record.Record) { r.Server.AllowedCPUs = []int{2} }, "affinity", record.Warning, "assigned to CPU 1 but could run on CPU 2"},
		{"a machine with one CPU", func(r *record.Record) {
			r.Server.CPUs, r.Server.AllowedCPUs = []int{0}, []int{0}
		}, "affinity", record.Warning, "client and server could both run on CPU 0"},
		{"nobody knows", func(r *record.Record) { r.Client.AllowedCPUs, r.Server.AllowedCPUs = nil, nil }, "affinity", record.Unknown, "neither client nor server reported"},
		{"a server elsewhere", func(r *record.Record) { r.Server.AllowedCPUs, r.Server.CPUs = nil, nil }, "affinity", record.OK, "the client could run on CPU 0"},

		{"the machine slept", func(r *record.Record) { r.Host.SuspendedNS = new(int64(3e9)) }, "suspended", record.Invalid, "slept for 3 s"},
		{"two clocks read apart", func(r *record.Record) { r.Host.SuspendedNS = new(int64(1e6)) }, "suspended", record.OK, "did not sleep"},
		{"nobody knows whether it slept", func(r *record.Record) { r.Host.SuspendedNS = nil }, "suspended", record.Unknown, "did not report"},
	} {
		r := sound(t)
		c.fault(r)
		wantOnly(t, c.name, r, c.check, c.level, c.says)
	}
}

// stopped lets a quota stop an end a number of times. Each time four requests of 100 µs wait.
func stopped(t *testing.T, r *record.Record, p *record.Process, quotaCPUs float64, times, eachNS int64) {
	t.Helper()
	usual := (r.WindowNS - times*eachNS) / 100_000
	r.Requests = 4 * (usual + times)
	r.Completed, r.Cell.Load.RequestsPerClient = r.Requests, int(r.Requests/4)
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for range 4 * usual {
		recorder.Record(100_000)
	}
	for range 4 * times {
		recorder.Record(eachNS)
	}
	var err error
	if r.Service, err = latency.NewHistogram(recorder).Distribution(); err != nil {
		t.Fatal(err)
	}
	p.QuotaCPUs, p.ThrottledPeriods, p.ThrottledNS = &quotaCPUs, &times, new(times*eachNS)
}

// collects sets how the client's collector ran.
func collects(r *record.Record, gcPercent int64, share float64) {
	cpu, _ := r.Client.CPUNS()
	r.Client.GCPercent, r.Client.GCCPUNS = &gcPercent, new(int64(share*float64(cpu)))
}

func TestNeighboursAreNamed(t *testing.T) {
	r := sound(t)
	r.Host.OthersShare = new(0.31)
	r.Host.Neighbours = []record.Neighbour{
		{PID: 7, Name: "stress-ng", Share: 0.16}, {PID: 8, Name: "stress-ng", Share: 0.12}, {PID: 9, Name: "cron", Share: 0.01},
	}
	wantOnly(t, "named", r, "neighbours", record.Warning, "other programs took 31 % of the CPU time, stress-ng 28 %")
	for _, c := range Judge(r, DefaultLimits()) {
		if c.Name == "neighbours" && c.Detail != "other programs took 31 % of the CPU time, stress-ng 28 %" {
			t.Errorf("%q", c.Detail)
		}
	}
	r.Host.OthersShare = nil
	wantOnly(t, "not known", r, "neighbours", record.Unknown, "does not report")
}

// Only the user of a service on this machine can say that a neighbour belongs to it.
func TestNeighboursHintAtAlso(t *testing.T) {
	const hint = "; if zoo2 belongs to your service, add --also with its PID or port"
	for _, c := range []struct {
		name   string
		change func(*record.Record)
		hinted bool
	}{
		{"a service", func(*record.Record) {}, true},
		{"whose processes are hidden", func(r *record.Record) { r.Server.UserNS, r.Cell.Target = nil, "127.0.0.1:80" }, true},
		{"on another machine", func(r *record.Record) { r.Server.UserNS, r.Cell.Target = nil, "192.0.2.1:80" }, false},
		{"beside which little ran", func(r *record.Record) { r.Host.OthersShare = new(0.01) }, false},
		{"a stack", func(r *record.Record) { r.Cell.Stack = "tcp" }, false},
	} {
		r := sound(t)
		r.Cell.Stack, r.Host.OthersShare = record.ServiceStack, new(0.6)
		r.Host.Neighbours = []record.Neighbour{{PID: 7, Name: "zoo2", Share: 0.5}}
		c.change(r)
		for _, found := range Judge(r, DefaultLimits()) {
			if found.Name == neighboursCheck && strings.HasSuffix(found.Detail, hint) != c.hinted {
				t.Errorf("%s: %s: %q", c.name, found.Level, found.Detail)
			}
		}
	}
}

// P99 moves by what the touched requests may have been, and by no more than a stop took.
func TestMovedIsBoundedByTheTrialsOwnLatencies(t *testing.T) {
	for _, c := range []struct {
		name   string
		open   bool
		stops  [2]float64 // number and length
		figure string
		by     float64
	}{
		// 10,000 requests of 100 µs, a fiftieth of them of 20 ms: the mean is 498 µs.
		{"no stops", true, [2]float64{}, "the mean", 0},
		{"stops that touch 4 %", true, [2]float64{2, 20e6}, "P99", 199},
		{"short stops that touch as many", true, [2]float64{4000, 10e3}, "the mean", 0.0205},
		{"a closed loop is touched once a client", false, [2]float64{2, 20e6}, "the mean", 0.033},
	} {
		r := sound(t)
		if c.open {
			r = soundOpen(t)
		}
		r.Requests, r.InFlight, r.Client.Busy, r.Server.Busy = 10_000, 4, new(0.1), new(0.1)
		r.Service = tailed(t, 100e3, 20e6)
		if c.open {
			r.Response = &r.Service
		}
		judged := trial{Record: r, limits: DefaultLimits()}
		got := judged.boundShift(judged.newStop(c.stops[0], c.stops[1]))
		if got.figure != c.figure || got.by < 0.9*c.by || got.by > 1.1*c.by+0.001 {
			t.Errorf("%s: %s by %.4f, want %s by %.4f", c.name, got.figure, got.by, c.figure, c.by)
		}
	}
}

// A service may run on the client's CPU as long as neither takes much of it.
func TestAServiceOnTheClientsCPU(t *testing.T) {
	for busyNS, want := range map[int64]struct {
		level  record.Level
		detail string
	}{
		2e7: {record.OK, "client and server could both run on CPU 0, but used too little CPU time to be in each other's way"},
		5e8: {record.Warning, "client and server could both run on CPU 0: start the service on other CPUs than 0, as in `taskset -c CPU ./service`"},
	} {
		r := sound(t)
		r.Cell.Stack = record.ServiceStack
		r.Client.CPUs, r.Client.AllowedCPUs, r.Server.CPUs, r.Server.AllowedCPUs = []int{0}, []int{0}, nil, []int{0, 1}
		for _, end := range []*record.Process{&r.Client, &r.Server} {
			end.UserNS, end.SystemNS = new(busyNS), new(int64(0))
		}
		for _, c := range Judge(r, DefaultLimits()) {
			if c.Name == "affinity" && (c.Level != want.level || c.Detail != want.detail) {
				t.Errorf("%d ns: %s: %s", busyNS, c.Level, c.Detail)
			}
		}
	}
}
