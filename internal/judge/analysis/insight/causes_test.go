package insight

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// reading describes a cell's readings. CPU times by category are in microseconds per call.
type reading struct {
	mean           float64
	client, server map[string]float64
	collector      float64 // at each end, by the runtime's count; 0 if it has none
	handler        float64 // length of the stage; 0 if no probe traced calls
	settings       string  // as in gogc=10,conn=new
	place          record.Place
	facts          Facts
	busy           float64 // of the server's CPU
	cpus           [2][]int
	network        record.Network
}

func (r reading) insight(variant string) *Insight {
	i := &Insight{Part: "p", Variant: variant, Place: r.place, Mean: &matrix.Figure{Value: r.mean}, Facts: r.facts, network: r.network}
	i.Clients = max(1, i.Clients)
	for option := range strings.SplitSeq(r.settings, ",") {
		if key, value, is := strings.Cut(option, "="); is {
			i.Settings = append(i.Settings, CellOption{key, value})
		}
	}
	end := func(times map[string]float64, facts *EndFacts) *Breakdown {
		b := &Breakdown{Samples: 1000}
		for name, us := range times {
			b.PerCall += us
			b.Categories = append(b.Categories, Category{Name: name, PerCall: us, Error: 0.03 * us})
		}
		facts.CPU = &b.PerCall
		if r.collector > 0 {
			facts.Collector, facts.collectorError = new(r.collector), 0.03*r.collector
		}
		return b
	}
	i.Facts.Trials, i.Facts.Valid = 3, 3
	i.Client.CPU, i.Server.CPU = end(r.client, &i.Facts.Client), end(r.server, &i.Facts.Server)
	i.Facts.Client.CPUs, i.Facts.Server.CPUs = r.cpus[0], r.cpus[1]
	if r.busy > 0 {
		i.Facts.Server.Busy = &r.busy
	}
	if r.handler > 0 {
		i.Life = &Life{Mean: r.mean, Stages: []Stage{{Name: "handler", Mean: r.handler}}}
	}
	return i
}

// causesOf explains two readings. The measured trials prove the difference, if proven is true.
func causesOf(a, b *Insight, proven bool) []Cause {
	e := Explain(b, a)
	if proven {
		e.Measured.Verdict = compare.Slower
		if b.Mean.Value < a.Mean.Value {
			e.Measured.Verdict = compare.Faster
		}
	}
	return findCauses(e)
}

type categoryTimes = map[string]float64

// usualTimes returns the CPU time of an end by category, with changes.
func usualTimes(changes categoryTimes) categoryTimes {
	times := categoryTimes{"network stack in the kernel": 10, "wake-ups and locks in the kernel": 12, "protocol layer": 5, "memory copy": 2, "TLS": 0}
	for name, us := range changes {
		times[name] += us
	}
	return times
}

func TestPlantedCauses(t *testing.T) {
	small, large := record.Place{Payload: record.Payload{RequestBytes: 64}}, record.Place{Payload: record.Payload{RequestBytes: 1 << 20}}
	many := record.Place{Clients: 50}
	one := func(us float64) *float64 { return &us }
	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil), collector: 2, place: small}
	change := func(of reading, by func(*reading)) reading { by(&of); return of }
	type row struct {
		name    string
		a, b    reading
		kind    CauseKind // empty if there is no cause
		end     string
		time    float64
		because string
	}
	for _, c := range []row{
		{"both halves of a symmetric cause are added", usual, change(usual, func(r *reading) { r.mean, r.collector, r.settings = 107, 15, "gogc=10" }), ByCollector, "", 26, "the heap may grow by only 10 % (gogc=10)"},
		{"one end", usual, change(usual, func(r *reading) { r.mean, r.server = 107, usualTimes(categoryTimes{"memory copy": 25}) }), ByCopying, ServerEnd, 25, ""},
		{"a setting without evidence is no reason", usual, change(usual, func(r *reading) {
			r.mean, r.settings, r.server = 107, "gogc=10", usualTimes(categoryTimes{"memory copy": 25})
		}), ByCopying, ServerEnd, 25, ""},
		{"signatures", change(usual, func(r *reading) { r.facts.Opened = one(1) }), change(usual, func(r *reading) {
			r.facts.Opened, r.mean, r.server, r.settings = one(1), 780, usualTimes(categoryTimes{"TLS": 690}), "cert=rsa"
		}), ByHandshake, ServerEnd, 700, "the server signs with RSA, which takes 690 µs in TLS (cert=rsa)"},
		{"connections", usual, change(usual, func(r *reading) { r.facts.Opened, r.mean, r.settings = one(1), 150, "conn=new" }), ByHandshake, "", 70, "each call opens a connection (conn=new)"},
		{"packets", change(usual, func(r *reading) { r.facts.Packets = one(4) }), change(usual, func(r *reading) {
			r.mean, r.facts.Packets, r.settings = 230, one(46), "mtu=576"
			r.client, r.server = usualTimes(categoryTimes{"network stack in the kernel": 60, "wake-ups and locks in the kernel": 10}), usualTimes(categoryTimes{"network stack in the kernel": 70})
		}), ByPackets, "", 150, "a packet holds at most 576 B, so a call takes 46 packets, against 4 (mtu=576)"},
		{"a window", change(usual, func(r *reading) { r.place = large }), change(usual, func(r *reading) { r.mean, r.place, r.settings = 480, large, "window=64KiB" }), ByWindow, "", 400, "a sender may have only 64 KiB under way (window=64KiB)"},
		{"a window larger than the message is no reason", usual, change(usual, func(r *reading) { r.mean, r.settings = 480, "window=64KiB" }), "", "", 0, ""},
		{"computing", change(usual, func(r *reading) { r.handler = 0.2 }), change(usual, func(r *reading) {
			r.mean, r.handler, r.server, r.settings = 131, 50.2, usualTimes(categoryTimes{"the application": 45}), "compute=50us"
		}), ByHandler, ServerEnd, 50, "it computes for 50 µs (compute=50us)"},
		{"a handler that waits", change(usual, func(r *reading) { r.handler = 0.2 }), change(usual, func(r *reading) { r.mean, r.handler, r.settings = 130, 50.2, "every=100,stall=5ms" }), ByHandlerWait, ServerEnd, 50, "it sleeps 5 ms in one of 100 calls (stall=5ms)"},
		{"a handler that waits for no known reason", change(usual, func(r *reading) { r.handler = 0.2 }), change(usual, func(r *reading) { r.mean, r.handler = 130, 50.2 }), ByHandlerWait, ServerEnd, 50, ""},
		{"a queue", usual, change(usual, func(r *reading) { r.mean, r.place, r.facts.InFlight, r.busy = 1600, many, one(50), 0.98 }), ByRunQueue, ServerEnd, 1520, "50 clients call at once, so 48 of 50 calls wait for a CPU: the server's CPU is 98 % busy"},
		{"CPU time delays all calls in flight", change(usual, func(r *reading) { r.mean, r.place, r.facts.InFlight, r.busy = 1600, many, one(50), 0.98 }), change(usual, func(r *reading) {
			r.mean, r.place, r.facts.InFlight, r.busy, r.server, r.settings = 4100, many, one(50), 0.98, usualTimes(categoryTimes{"the application": 50}), "compute=50us"
		}), ByHandler, ServerEnd, 2500, "it computes for 50 µs (compute=50us)"},
		{"calls queue at both ends", change(usual, func(r *reading) {
			r.mean, r.place, r.facts.InFlight, r.busy, r.facts.Client.Busy = 1500, many, one(50), 0.8, one(0.78)
		}), change(usual, func(r *reading) {
			r.mean, r.place, r.facts.InFlight, r.busy, r.facts.Client.Busy = 4700, many, one(50), 0.82, one(0.81)
			r.client, r.server = usualTimes(categoryTimes{"allocation": 60}), usualTimes(categoryTimes{"allocation": 60})
		}), ByAllocation, "", 3000, ""},
		{"head of line", change(usual, func(r *reading) { r.place, r.facts.Connections = many, one(1) }), change(usual, func(r *reading) { r.mean, r.place, r.facts.Connections, r.settings = 1370, many, one(1), "beside=1MiB" }), ByHeadOfLine, "", 1290, "a call of 1 MiB is always under way on the same connection (beside=1MiB)"},
		{"a limit that is not reached", usual, change(usual, func(r *reading) { r.mean, r.settings = 900, "inflight=2" }), "", "", 0, ""},
		{"a limit", change(usual, func(r *reading) { r.place = many }), change(usual, func(r *reading) { r.mean, r.settings, r.place = 900, "inflight=2", many }), ByLimit, "", 820, "the limit of calls in progress is 2 (inflight=2)"},
		{"a link's delay", usual, change(usual, func(r *reading) { r.mean, r.settings, r.network = 4080, "delay=2ms", record.Network{DelayNS: 2e6} }), ByLink, "", 4000, "the link delays packets by 2 ms each way (delay=2ms)"},
		{"a link's rate", change(usual, func(r *reading) { r.place = large }), change(usual, func(r *reading) {
			r.mean, r.place, r.settings, r.network = 83_966, large, "rate=100Mbit/s", record.Network{Up: record.Way{Rate: 100e6}, Down: record.Way{Rate: 100e6}}
		}), ByLink, "", 83_886, "the link carries only 100 Mbit/s (rate=100Mbit/s)"},
		{"nothing", usual, usual, "", "", 0, ""},
	} {
		for _, backwards := range []bool{false, true} {
			a, b, factor := c.a.insight("grpc"), c.b.insight("grpc"), 1.0
			if backwards {
				a, b, factor = b, a, -1
			}
			causes := causesOf(a, b, true)
			if c.kind == "" {
				if len(causes) > 0 {
					t.Errorf("%s: %+v", c.name, causes)
				}
				continue
			}
			if len(causes) == 0 {
				t.Errorf("%s: no cause, want %s", c.name, c.kind)
				continue
			}
			if got := causes[0]; got.Kind != c.kind || got.End != c.end || !near(got.Time, factor*c.time) || got.Because != c.because {
				t.Errorf("%s, backwards %v: %+v\nwant %s at %q, %v µs, because %q", c.name, backwards, got, c.kind, c.end, factor*c.time, c.because)
			}
		}
	}
}

// TestCausesHaveTheSignOfTheTrials: a cause against the proven difference is none.
func TestCausesHaveTheSignOfTheTrials(t *testing.T) {
	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil)}
	slower := usual
	slower.mean, slower.server = 107, usualTimes(categoryTimes{"memory copy": 25, "network stack in the kernel": -9})
	for _, c := range causesOf(usual.insight("grpc"), slower.insight("grpc"), true) {
		if c.Time < 0 {
			t.Errorf("a cause of %v µs, but calls take longer", c.Time)
		}
	}
	slower.mean = 80.5
	if causes := causesOf(usual.insight("grpc"), slower.insight("grpc"), false); len(causes) != 2 || causes[1].Time >= 0 {
		t.Errorf("without a proof: %+v", causes)
	}
}

// TestOptionsOfAnotherStackAreNoReason: buffers of tcp say nothing about grpc.
func TestOptionsOfAnotherStackAreNoReason(t *testing.T) {
	tcp := reading{mean: 50, client: usualTimes(nil), server: usualTimes(nil), settings: "buffers=pooled"}
	grpc := reading{mean: 90, client: usualTimes(categoryTimes{"allocation": 20}), server: usualTimes(categoryTimes{"allocation": 20})}
	if causes := causesOf(tcp.insight("tcp:buffers=pooled"), grpc.insight("grpc"), true); len(causes) == 0 || causes[0].Kind != ByAllocation || causes[0].Because != "" {
		t.Errorf("%+v", causes)
	}
}

// TestUnknownConnectionsAreNoReason: a cell whose trials are all spoiled does not know their number.
func TestUnknownConnectionsAreNoReason(t *testing.T) {
	one := 1.0
	known := reading{mean: 50, client: usualTimes(nil), server: usualTimes(nil), facts: Facts{Connections: &one}}
	unknown := reading{mean: 90, client: usualTimes(nil), server: usualTimes(nil)}
	if causes := causesOf(known.insight("grpc"), unknown.insight("grpc"), true); len(causes) != 0 {
		t.Errorf("%+v", causes)
	}
}

// TestOneCellHasCauses: its whole time, and the queue apart from what the ends do.
func TestOneCellHasCauses(t *testing.T) {
	inFlight := 16.0
	shared := reading{mean: 930, client: usualTimes(nil), server: usualTimes(nil), place: record.Place{Clients: 16}, facts: Facts{InFlight: &inFlight}, busy: 0.99, cpus: [2][]int{{0}, {0}}}
	causes := findCauses(Explain(shared.insight("grpc"), nil))
	if len(causes) == 0 || causes[0].Kind != BySharedCPU || !near(causes[0].Time, 15*58) || causes[0].Because != "15 of 16 calls wait for a CPU: both ends run on the same CPU" {
		t.Errorf("%+v", causes)
	}
}

// TestNeighboursDelayEveryCallInTheQueue: a thread without a CPU keeps 15 other calls waiting, too.
func TestNeighboursDelayEveryCallInTheQueue(t *testing.T) {
	inFlight, others, waited := 16.0, 0.8, 10.0
	disturbed := reading{mean: 770, client: usualTimes(nil), server: usualTimes(nil), place: record.Place{Clients: 16}, facts: Facts{InFlight: &inFlight, Others: &others}, busy: 0.99, cpus: [2][]int{{0}, {1}}}
	cell := disturbed.insight("grpc")
	cell.Facts.Server.Waited = &waited
	for _, c := range findCauses(Explain(cell, nil)) {
		if c.Kind == ByNeighbour {
			if want := 16 * waited; !near(c.Time, want) {
				t.Errorf("other programs delay a call by %v µs, want %v", c.Time, want)
			}
			return
		}
	}
	t.Error("other programs are no cause")
}

// TestTracedWaitsAreSharesOfMeasuredCalls: other programs may disturb traced calls more than measured calls.
func TestTracedWaitsAreSharesOfMeasuredCalls(t *testing.T) {
	others := 1.5
	cell := reading{mean: 100, client: usualTimes(nil), server: usualTimes(nil), facts: Facts{Others: &others}}.insight("grpc")
	cell.Life = &Life{Mean: 400, Stages: []Stage{{Name: "server: wait for lock", Mean: 80}, {Name: "server: no CPU", Mean: 160}}}
	for kind, want := range map[CauseKind]float64{ByLock: 20, ByNeighbour: 40} {
		found := 0.0
		for _, c := range findCauses(Explain(cell, nil)) {
			if c.Kind == kind {
				found = c.Time
			}
		}
		if !near(found, want) {
			t.Errorf("%s: %v µs, want %v", kind, found, want)
		}
	}
}

// TestServicesInTheKernel: unread requests, many system calls and processes that a user's service starts.
func TestServicesInTheKernel(t *testing.T) {
	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil), place: record.Place{Clients: 8}, facts: Facts{InFlight: new(8.0)}}
	for _, c := range []struct {
		name    string
		mean    float64
		change  func(*Insight)
		kind    CauseKind
		because string
	}{
		{"one request at a time", 8080, func(i *Insight) { i.Life = &Life{Mean: 8080, Unread: new(7.0)} }, ByConnection, "7 of 8 requests lie unread in its sockets, so it handles one at a time"},
		{"byte by byte", 380, func(i *Insight) { i.Server.Syscalls = []Syscall{{Name: "read", PerCall: 300}} }, BySystemCalls, "a call makes 300 system calls at the server (300 read), against 2"},
		{"delayed acknowledgements", 42_080, func(i *Insight) { i.Life = &Life{Mean: 42_080, Unread: new(0.1), Unacknowledged: new(7.9)} }, ByAcks, "an answer waits in its socket until the client acknowledges the part before: so do small writes with Nagle's algorithm, if the client delays acknowledgements"},
		{"a large answer to a slow reader", 42_080, func(i *Insight) {
			i.Life, i.Facts.Packets = &Life{Mean: 42_080, Unread: new(0.1), Unacknowledged: new(7.9)}, new(700.0)
		}, "", ""},
		{"a tenth of a CPU", 20_080, func(i *Insight) {
			i.Life = &Life{Mean: 20_080, Unread: new(7.0), Stages: []Stage{{Name: "server: no CPU", Mean: 19_000}}}
			i.Facts.Server.Quota = new(0.1)
		}, ByQuota, "its control group may use only 0.1 CPUs"},
		{"a connection per call", 380, func(i *Insight) { i.Server.Syscalls = []Syscall{{Name: "connect", PerCall: 1}} }, ByHandshake, "the service opens connections to others, 1 per call"},
		{"a process per call", 1480, func(i *Insight) {
			i.Server.Syscalls = []Syscall{{Name: "clone", PerCall: 1}, {Name: "execve", PerCall: 1}}
		}, ByProcesses, "the service starts other processes, 1 per call"},
	} {
		slower := usual
		slower.mean = c.mean
		a, b := usual.insight(record.ServiceStack+":a"), slower.insight(record.ServiceStack+":b")
		a.Life, a.Server.Syscalls = &Life{Mean: 80, Unread: new(0.1)}, []Syscall{{Name: "read", PerCall: 2}}
		c.change(b)
		causes := causesOf(a, b, true)
		if c.kind == "" {
			if len(causes) > 0 {
				t.Errorf("%s: %+v", c.name, causes)
			}
			continue
		}
		if len(causes) == 0 || causes[0].Kind != c.kind || causes[0].Because != c.because {
			t.Errorf("%s: %+v", c.name, causes)
		}
	}
}

// TestTheSystemCallBehindAWait: of a user's service, but none in which threads wait for work.
func TestTheSystemCallBehindAWait(t *testing.T) {
	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil), handler: 1}
	slower := usual
	slower.mean, slower.handler = 1180, 1101
	a, b := usual.insight(record.ServiceStack+":a"), slower.insight(record.ServiceStack+":b")
	b.Server.Syscalls = []Syscall{{Name: "futex", PerCall: 2, Time: new(900.0)}, {Name: "fsync", PerCall: 1, Time: new(800.0)}, {Name: "write", PerCall: 2, Time: new(3.0)}}
	if causes := causesOf(a, b, true); len(causes) == 0 || causes[0].Because != "the service waits 800 µs in the system call fsync" {
		t.Errorf("%+v", causes)
	}
	a.Server.Syscalls = b.Server.Syscalls
	if causes := causesOf(a, b, true); len(causes) == 0 || causes[0].Because != "" {
		t.Errorf("the same calls in both: %+v", causes)
	}
}

// TestTheFunctionBehindACategory: the innermost one in whose calls most of the time passes.
func TestTheFunctionBehindACategory(t *testing.T) {
	under := callsByCategory{}
	for _, stack := range []struct {
		functions string
		weight    float64
	}{
		{"net/http.serve main.handle regexp.Compile regexp/syntax.Parse", 40},
		{"net/http.serve main.handle regexp.Compile regexp.Compile regexp.onepass runtime.mallocgc", 40},
		{"net/http.serve main.handle", 20},
	} {
		var frames []record.Frame
		for name := range strings.FieldsSeq(stack.functions) {
			frames = append(frames, record.Frame{Function: name})
		}
		under.add(applicationCategory, append(frames, record.Frame{Function: "asm_exc_page_fault", In: record.InKernel}), stack.weight)
	}
	for category, want := range map[string][2]string{applicationCategory: {"main.handle", "regexp.Compile"}, "TLS": {}} {
		if own, in := under.functions(category, 100); own != want[0] || in != want[1] {
			t.Errorf("%s: found %q and %q", category, own, in)
		}
	}

	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil)}
	slower := usual
	slower.mean, slower.server = 280, usualTimes(categoryTimes{applicationCategory: 200})
	a, b := usual.insight(record.ServiceStack+":a"), slower.insight(record.ServiceStack+":b")
	for i := range b.Server.CPU.Categories {
		if c := &b.Server.CPU.Categories[i]; c.Name == applicationCategory {
			c.Function = "regexp.Compile"
		}
	}
	if causes := causesOf(a, b, true); len(causes) == 0 || causes[0].Because != "regexp.Compile takes 200 µs" {
		t.Errorf("%+v", causes)
	}
	for i := range b.Server.CPU.Categories {
		b.Server.CPU.Categories[i].Function = "_PyEval_EvalFrameDefault"
	}
	if causes := causesOf(a, b, true); len(causes) == 0 || causes[0].Because != "Python code takes 200 µs, in which function is not known" {
		t.Errorf("%+v", causes)
	}
}

// TestCallsShareTheCPUOfAService: so the function's time counts as often as calls queue, or as other programs are in
// its way.
func TestCallsShareTheCPUOfAService(t *testing.T) {
	named := func(i *Insight) *Insight {
		for c := range i.Server.CPU.Categories {
			if category := &i.Server.CPU.Categories[c]; category.Name == applicationCategory {
				category.Function, category.In = "main.search", "strings.Index"
			}
		}
		return i
	}
	two := Facts{InFlight: new(2.0)}
	usual := reading{mean: 80, client: usualTimes(nil), server: usualTimes(nil), facts: two, cpus: [2][]int{{0}, {1}}}
	slower := usual
	slower.mean, slower.busy, slower.server = 4080, 0.98, usualTimes(categoryTimes{applicationCategory: 2000})
	a, b := usual.insight(record.ServiceStack+":a"), named(slower.insight(record.ServiceStack+":b"))
	causes := causesOf(a, b, true)
	if len(causes) == 0 || causes[0].Share < 0.9 || causes[0].Because != "main.search takes 2 ms, most of it in strings.Index, and 2 calls share its CPU" {
		t.Errorf("a queue: %+v", causes)
	}
	a.Facts.Others, b.Facts.Others, a.Facts.Server.Waited, b.Facts.Server.Waited = new(1.5), new(1.5), new(30.0), new(8000.0)
	a.Life, b.Life = &Life{Mean: 80, Stages: []Stage{{Name: "server: no CPU", Mean: 30}}}, &Life{Mean: 10000, Stages: []Stage{{Name: "server: no CPU", Mean: 8000}}}
	b.Mean.Value = 10000
	causes = causesOf(a, b, true)
	if len(causes) == 0 || causes[0].Kind != ByHandler || causes[0].Share < 0.7 || !strings.HasSuffix(causes[0].Because, "; other programs keep the service off its CPUs for 8 ms per call") {
		t.Errorf("other programs: %+v", causes)
	}
}

// TestEveryStageOfATraceHasAKind: those that calls only wait in are waits.
func TestEveryStageOfATraceHasAKind(t *testing.T) {
	for stage, want := range map[string]struct {
		kind CauseKind
		end  string
		wait bool
	}{
		"client: wait for window": {ByWindow, ClientEnd, true}, "server: wait for lock": {ByLock, ServerEnd, true}, "handler: wait for lock": {ByLock, ServerEnd, true},
		"handler: wait": {ByHandlerWait, ServerEnd, true}, "server: run queue": {ByRunQueue, ServerEnd, true}, "client: collector": {ByCollector, ClientEnd, false},
		"server: no CPU": {ByNeighbour, ServerEnd, true}, "server: socket queue": {ByConnection, ServerEnd, true}, "handler": {ByHandler, ServerEnd, false},
		"wake server": {ByWaking, ServerEnd, false}, "send answer": {ByPackets, ServerEnd, false}, "client: encode": {ByProtocol, ClientEnd, false}, "client: schedule": {ByWaking, ClientEnd, false},
	} {
		if kind, end, wait := kindOfStage(stage); kind != want.kind || end != want.end || wait != want.wait {
			t.Errorf("%s: %s at %q, a wait: %v", stage, kind, end, wait)
		}
	}
}

// TestEveryBuiltInCategoryHasAKind: except for those that name no cause.
func TestEveryBuiltInCategoryHasAKind(t *testing.T) {
	for _, rule := range BuiltInCategories().CPU {
		named := kindOfCategory(rule.Category, ServerEnd) != other
		if named == (rule.Category == "interrupts and timers" || rule.Category == ownCategory) {
			t.Errorf("%s names a cause: %v", rule.Category, named)
		}
	}
}
