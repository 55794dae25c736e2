package insight

import (
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
)

// waitingRecord returns a pass of the probe offcpu with 100 calls of 10 ms to a service, or 20 ms at most. Each stack has a
// number of waits per call, and milliseconds per call.
func waitingRecord(stacks map[string][2]float64) *record.Record {
	r := &record.Record{Probe: record.ProbeOffCPU}
	r.Completed, r.Cell.Clients = 100, 16
	r.Cell.Variant = record.ServiceStack + ":wire=h1"
	r.Service = latency.Distribution{Count: 100, Sum: 100 * 10e6, Max: 20e6}
	all := &record.Stacks{Unit: "ns"}
	for text, w := range stacks {
		stack := record.Stack{Count: int64(100 * w[0]), Weight: int64(100 * w[1] * 1e6)}
		for _, frame := range frames(strings.Split(text, " ")...) {
			stack.Frames = append(stack.Frames, len(all.Frames))
			all.Frames = append(all.Frames, frame)
		}
		all.Stacks = append(all.Stacks, stack)
	}
	r.Server.Seen = &record.Seen{Method: "BPF", Stacks: all}
	return r
}

const (
	served  = "net/http.(*conn).serve main.handle "
	lockEnd = " internal/sync.(*Mutex).lockSlow runtime.semacquire1 runtime.gopark"
	futex   = " k:__x64_sys_futex k:do_futex k:schedule"
)

// TestOnlyWaitsInsideCallsCount: goroutines and threads without work are no cause.
func TestOnlyWaitsInsideCallsCount(t *testing.T) {
	for _, c := range []struct {
		name   string
		stacks map[string][2]float64
		want   []string
	}{
		{"a convoy in a handler", map[string][2]float64{
			served + "main.(*Store).Get" + lockEnd:                                      {1, 8},
			"net/http.(*conn).serve internal/poll.(*FD).Read runtime.gopark":            {1, 3},
			"net/http.(*connReader).backgroundRead internal/poll.(*FD).Read":            {1, 9},
			"main.worker runtime.chanrecv runtime.gopark":                               {1, 9},
			"runtime.sysmon runtime.usleep k:__x64_sys_nanosleep k:do_nanosleep":        {2, 9},
			"runtime.gcBgMarkWorker runtime.gopark":                                     {1, 9},
			served + "main.rare runtime.chanrecv runtime.gopark":                        {0.01, 9},
			"main.loop main.poll time.Sleep runtime.gopark":                             {1, 9},
			"runtime.schedule runtime.stopm runtime.futex k:__x64_sys_futex k:do_futex": {4, 9},
		}, []string{"a lock in main.(*Store).Get"}},
		{"several functions", map[string][2]float64{
			served + "time.Sleep runtime.gopark":                               {1, 1},
			served + "shop.example/db.Query internal/poll.(*FD).Read":          {2, 5},
			served + "main.list runtime.chanrecv runtime.gopark":               {1, 2},
			served + "main.list runtime.chanrecv1 main.x time.Now main.y a.b.": {1, 2},
		}, []string{"data from the network in db.Query", "a channel in main.list", "a sleep in main.handle"}},
		{"a rare wait", map[string][2]float64{served + "main.rare" + lockEnd: {0.01, 0.15}}, []string{"a lock in main.rare"}},
		{"a server without a known library", map[string][2]float64{
			"main.serve main.get" + lockEnd:                {1, 8},
			"main.idle runtime.selectgo runtime.gopark":    {1, 9},
			"main.accept internal/poll.(*FD).Accept":       {1, 9},
			"start_thread serve Cache::get pthread_mutex_": {0, 0},
		}, []string{"a lock in main.get"}},
		{"threads with names", map[string][2]float64{
			"serve answer Cache::get pthread_mutex_lock" + futex: {1, 8},
			"worker pthread_cond_wait" + futex:                   {1, 9},
			"[libc.so.6]" + futex:                                {1, 9},
		}, []string{"a lock in Cache::get"}},
		{
			"threads without names",
			map[string][2]float64{"[libc.so.6]" + futex: {1, 8}, "[libc.so.6] k:tcp_recvmsg": {1, 9}},
			[]string{unclearLock + " in threads without names of functions"},
		},
		{"threads that rarely wait", map[string][2]float64{"[libc.so.6]" + futex: {0.1, 8}}, nil},
		{"few threads of a runtime", map[string][2]float64{"[libc.so.6]" + futex: {1, 2}}, nil},
		{"a pool with idle threads", map[string][2]float64{"[libc.so.6]" + futex: {1, 18}}, nil},
	} {
		r := waitingRecord(c.stacks)
		r.Client.Seen = &record.Seen{Method: "BPF, but less"}
		i := newInsight(probedCell{passes: []*record.Record{r}}, BuiltInCategories())
		if i.Passes[0].Method != "BPF" {
			t.Errorf("%s: the method is %q, want the server's", c.name, i.Passes[0].Method)
		}
		var got []string
		for _, w := range i.Server.Waits {
			got = append(got, w.name())
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestWaitsNameTheCause in place of a handler that waits for no known reason, and of a queue that is estimated.
func TestWaitsNameTheCause(t *testing.T) {
	bare := func(handler float64, busy float64) *Insight {
		return reading{
			mean: 10_000, client: usualTimes(nil), server: usualTimes(nil), handler: handler, busy: busy,
			place: record.Place{Clients: 16}, facts: Facts{InFlight: new(16.0)},
		}.insight("tcp")
	}
	lock := Wait{For: "a lock", Function: "example.com/shop.(*Store).Get", Goroutines: true, Share: 0.8, Times: 1, Time: 8000}
	for _, c := range []struct {
		name    string
		of      *Insight
		waits   []Wait
		kind    CauseKind
		time    float64
		because string
	}{
		{"no probe", bare(9000, 0), nil, ByHandlerWait, 9000, ""},
		{"a lock", bare(9000, 0), []Wait{lock}, ByLock, 8000, "goroutines wait for a lock in shop.(*Store).Get (80 % of a call's time, 1 times 8 ms)"},
		{"a sleep", bare(9000, 0), []Wait{{For: "a sleep", Function: "main.handle", Goroutines: true, Share: 0.9, Times: 2, Time: 9000}}, ByHandlerWait, 9000, "goroutines sleep in main.handle (90 % of a call's time, 2 times 4.5 ms)"},
		{"a sleep that is the smaller part", bare(9000, 0), []Wait{{For: "a sleep", Function: "main.handle", Share: 0.2, Times: 1, Time: 2000}}, ByHandlerWait, 9000, ""},
		{"threads without names", bare(0, 0), []Wait{{For: unclearLock, Share: 0.5, Times: 2, Time: 5000}}, ByLock, 5000, "threads wait for a lock or for another thread (futex) (50 % of a call's time, 2 times 2.5 ms)"},
		{"a busy CPU", bare(0, 1), []Wait{lock}, ByLock, 8000, "goroutines wait for a lock in shop.(*Store).Get (80 % of a call's time, 1 times 8 ms)"},
		{"several goroutines wait at once", bare(0, 0), []Wait{{For: "a channel", Function: "f", Share: 3, Times: 3, Time: 30_000}}, ByHandlerWait, 10_000, "threads wait for a channel in f (300 % of a call's time, 3 times 10 ms)"},
	} {
		c.of.Server.Waits = c.waits
		causes := causesOf(nil, c.of, false)
		if len(causes) == 0 || causes[0].Kind != c.kind || causes[0].Time < 0.99*c.time || causes[0].Time > 1.01*c.time || causes[0].Because != c.because {
			t.Errorf("%s: %+v", c.name, causes)
		}
	}
}

// TestWaitsExplainADifference between two cells, if the probe saw both.
func TestWaitsExplainADifference(t *testing.T) {
	cell := func(mean, locked float64) *Insight {
		i := reading{mean: mean, client: usualTimes(nil), server: usualTimes(nil), handler: mean - 100, place: record.Place{Clients: 16}}.insight("tcp")
		i.Server.OffCPU = &Breakdown{PerCall: locked}
		i.Server.Waits = []Wait{{For: "a lock", Function: "main.get", Goroutines: true, Share: locked / mean, Times: 1, Time: locked}}
		return i
	}
	a, b := cell(1000, 600), cell(9000, 8500)
	causes := causesOf(a, b, true)
	if len(causes) == 0 || causes[0].Kind != ByLock || causes[0].End != ServerEnd || causes[0].Time != 7900 || !strings.HasPrefix(causes[0].Because, "goroutines wait for a lock in main.get (") {
		t.Errorf("both seen: %+v", causes)
	}
	a.Server.OffCPU, a.Server.Waits = nil, nil
	if causes := causesOf(a, b, true); len(causes) == 0 || causes[0].Kind != ByHandlerWait || causes[0].Because != "" {
		t.Errorf("one seen: %+v", causes)
	}
}
