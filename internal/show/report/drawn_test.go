package report

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/insight"
)

// drawn is a run whose figures were drawn by chance. Its records lack what records may
// lack, and some of its trials are invalid or failed.
type drawn struct {
	*rand.Rand
	t       *testing.T
	repeats int
	calls   int // in a trial
	noise   float64
	alike   bool // no variant differs from another
	unsound float64
	records []*record.Record
	study   drawnStudy
}

// drawnStudy is the scenario's part of a manifest.
type drawnStudy struct {
	Parts  []drawnPart     `json:"parts"`
	Claims []drawnClaim    `json:"claims,omitempty"`
	Report scenario.Report `json:"report"`
}

type drawnPart struct {
	Name    string   `json:"name"`
	Stacks  []string `json:"stacks"`
	Changes []string `json:"changes,omitempty"`
}

type drawnClaim struct {
	Says    string  `json:"says"`
	Part    string  `json:"part"`
	Of      string  `json:"of"`
	Against string  `json:"against"`
	Figure  string  `json:"figure"`
	Ratio   float64 `json:"ratio,omitempty"`
}

// drawnDeclarations holds what stacks and workloads declare, as far as advice uses it.
const drawnDeclarations = `{
	"stacks": [
		{"name": "h1", "options": [{"key": "tls", "default": "off", "contrast": {}}, {"key": "cert", "default": "ecdsa", "contrast": {}}]},
		{"name": "h3", "options": [{"key": "handshakes", "contrast": {"unset": "unbounded", "metrics": ["server-peak", "p99"]}}]},
		{"name": "grpc", "options": [{"key": "conns", "role": "connections"}]}
	],
	"workloads": [{"name": "ping", "sweep": true}, {"name": "echo"}, {"name": "users", "options": [{"key": "work", "role": "simulated-work"}]}]
}`

// drawnShapes are the kinds of runs, by name.
var drawnShapes = map[string]func(*drawn){
	"closed loops": func(d *drawn) { d.matrix("matrix", d.sizes(), d.concurrencies(), closed) },
	"two parts":    (*drawn).twoParts,
	"open loops": func(d *drawn) {
		d.matrix("steady", d.sizes(), []int{50, 200}, record.Load{Model: "open", RatePerSecond: 1734})
	},
	"sustained and bursts": (*drawn).loads,
	"searches": func(d *drawn) {
		d.matrix("search", d.sizes(), []int{100}, record.Load{Model: "search", Goal: "p99<10ms"})
	},
	"limits":               (*drawn).limits,
	"lifecycle":            (*drawn).lifecycle,
	"a sweep":              (*drawn).sweep,
	"cases":                (*drawn).cases,
	"bulk and allocations": (*drawn).bulk,
}

var closed = record.Load{Model: "closed", RequestsPerClient: 100}

// draw makes a run of a shape, and returns what --json has of it.
func draw(t *testing.T, shape string, seed uint64) []byte {
	t.Helper()
	d := &drawn{Rand: rand.New(rand.NewPCG(seed, 11)), t: t}
	d.repeats = []int{1, 2, 3, 5}[seed%4]
	d.calls = pick(d, 150, 1100)
	d.noise = []float64{0.01, 0.1, 0.4}[d.IntN(3)]
	d.alike, d.unsound = d.IntN(4) == 0, []float64{0, 0.15, 0.7}[d.IntN(3)]
	drawnShapes[shape](d)
	text, err := json.Marshal(d.study)
	if err != nil {
		t.Fatal(err)
	}
	manifest := &record.Manifest{
		Version: record.Version, Name: "drawn", Seed: seed, Trials: len(d.records) + d.IntN(2),
		Scenario: text, Declarations: json.RawMessage(drawnDeclarations),
	}
	summary, err := analysis.Summarize(manifest, analysis.JudgedTrials{Records: d.records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := WriteJSON(&out, &Run{Summary: summary, Advice: advice.Advise(summary)}); err != nil {
		t.Fatal(err)
	}
	return []byte(out.String())
}

func pick[T any](d *drawn, all ...T) T { return all[d.IntN(len(all))] }

// between draws a figure between two, evenly over its logarithm.
func (d *drawn) between(low, high float64) float64 {
	return math.Exp(math.Log(low) + d.Float64()*(math.Log(high)-math.Log(low)))
}

// factor returns the noise of one figure of one trial.
func (d *drawn) factor() float64 { return math.Exp(d.noise * d.NormFloat64()) }

// whole returns a measured whole number, or sometimes nil.
func (d *drawn) whole(low, high float64) *int64 {
	if d.IntN(10) == 0 {
		return nil
	}
	return new(int64(d.between(low, high)))
}

type drawnSize struct{ request, response int }

func (d *drawn) sizes() []drawnSize {
	return pick(d,
		[]drawnSize{{64, 64}}, []drawnSize{{0, 0}},
		[]drawnSize{{64, 64}, {1024, 1024}, {4096, 4096}, {16384, 16384}, {65536, 65536}},
		[]drawnSize{{64, 64}, {64, 4096}, {64, 262144}}, []drawnSize{{64, 65536}, {32768, 32768}, {65536, 64}},
		[]drawnSize{{300, 1536}})
}

func (d *drawn) concurrencies() []int {
	return pick(d, []int{1}, []int{1, 50}, []int{2, 4, 8, 16, 32, 64, 128, 256}, []int{1, 10, 50, 100, 500})
}

// matrix adds a part with every variant at every size and concurrency.
func (d *drawn) matrix(part string, sizes []drawnSize, clients []int, load record.Load, variants ...string) {
	if len(variants) == 0 {
		variants = pick(d, []string{"tcp", "rest", "grpc"}, []string{"tcp:buffers=pooled", "tcp"}, []string{"grpc"}, []string{"tcp", "rest", "grpc", "h2", "fastgrpc:codec=vt"})
	}
	workload := "echo"
	if sizes[0] == (drawnSize{}) {
		workload = "users:work=10ms"
	}
	d.study.Parts = append(d.study.Parts, drawnPart{Name: part, Stacks: variants})
	for _, size := range sizes {
		for _, n := range clients {
			for _, variant := range variants {
				stack, _, _ := strings.Cut(variant, ":")
				d.cell(record.Cell{
					Part: part, Stack: stack, Variant: variant, Place: record.Place{Workload: workload, Payload: record.Payload{RequestBytes: size.request, ResponseBytes: size.response}, Clients: n}, Connection: "shared", Load: load,
				}, nil)
			}
		}
	}
}

// A drawnTruth holds the true values of a cell. Its trials are drawn around them.
type drawnTruth struct {
	mean, tail, client, server float64 // of the mean, P99 over P50, and CPU time, in microseconds
	busy                       float64
	without                    bool // CPU time is not measured
}

// cell adds the trials of a cell; change may add to them.
func (d *drawn) cell(cell record.Cell, change func(*record.Record)) {
	truth := drawnTruth{
		mean: d.between(20, 20_000), tail: d.between(1.1, 30), client: d.between(3, 300), server: d.between(3, 300),
		busy: d.between(0.2, 1), without: d.IntN(8) == 0,
	}
	if d.alike {
		truth = drawnTruth{mean: 137 * float64(cell.Clients), tail: 2.3, client: 17.1, server: 23.7, busy: 0.77}
	}
	for repeat := 1; repeat <= d.repeats; repeat++ {
		r := d.trial(cell, truth)
		r.Trial, r.Repeat = len(d.records), repeat
		if change != nil {
			change(r)
		}
		d.records = append(d.records, r)
	}
}

// trial is one trial, as the worker and the lab would write it.
func (d *drawn) trial(cell record.Cell, truth drawnTruth) *record.Record {
	mean := truth.mean * d.factor()
	span := mean * 1e3 * float64(d.calls) / float64(cell.Clients)
	r := &record.Record{
		Version: record.Version, Cell: cell, WindowNS: int64(span),
		Measurement: record.Measurement{
			Requests: int64(d.calls), Completed: int64(d.calls), InFlight: float64(cell.Clients) * d.between(0.85, 1),
			Service: d.distribution(mean*1e3, truth.tail*d.factor()), WarmUp: record.WarmUp{TookNS: int64(d.between(5e7, 5e8))},
		},
		Connections: record.Connections{Mode: cell.Connection, Want: 4, Opened: 4},
		Checks:      []record.Check{{Name: "errors", Level: record.OK, Detail: "none"}},
	}
	if !truth.without {
		r.Client = d.process(truth.client, truth.busy)
		r.Server = d.process(truth.server, truth.busy)
	}
	d.follow(r)
	switch chance := d.Float64(); {
	case chance < d.unsound/3:
		r.Failure = "the server died: exit code 3"
	case chance < d.unsound:
		r.Checks = append(r.Checks, record.Check{Name: "generator-bound", Level: record.Invalid, Detail: fmt.Sprintf("the client was %.0f %% busy", 90+10*d.Float64())})
	case chance < d.unsound+0.1:
		r.Checks = append(r.Checks, record.Check{Name: "neighbours", Level: record.Warning, Detail: fmt.Sprintf("others took %.1f %% of the CPUs", 20*d.Float64())})
	}
	if cell.Load.Model == "search" {
		r.Search = d.search()
	}
	if cell.Load.Model == "burst" || cell.Load.Model == "sustained" {
		if lost := int64(d.IntN(3)); lost > 0 {
			r.Errors = []record.ErrorCount{{Class: "refused", Code: "Unavailable", Count: lost, Example: "connect: connection refused"}}
		}
	}
	return r
}

func (d *drawn) distribution(meanNS, tail float64) latency.Distribution {
	d.t.Helper()
	recorder := latency.NewRecorder()
	defer recorder.Close()
	stalled := d.IntN(12) == 0
	for i := range d.calls {
		ns := meanNS * (0.8 + 0.3*d.Float64())
		switch {
		case i%50 == 0 && stalled:
			ns *= 70 * tail
		case i%50 == 0:
			ns *= tail
		}
		recorder.Record(int64(ns))
	}
	distribution, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		d.t.Fatal(err)
	}
	return distribution
}

// process returns an end that spends us microseconds of CPU time per call.
func (d *drawn) process(us, busy float64) record.Process {
	return record.Process{
		UserNS: new(int64(float64(d.calls) * 1e3 * us * d.factor())), SystemNS: new(int64(float64(d.calls) * 1e3 * us * d.factor() / 3)),
		Busy: new(math.Min(1, busy*d.factor())), PeakBytes: d.whole(1e6, 1e9), OwnBytes: d.whole(1e6, 1e9),
	}
}

// follow adds the course of a trial, and what went over its connections.
func (d *drawn) follow(r *record.Record) {
	if d.IntN(6) > 0 {
		for i := range 8 {
			r.Intervals = append(r.Intervals, record.Interval{StartNS: int64(i-2) * 5e7, TookNS: 5e7, Requests: int64(20 + d.IntN(30)), SumNS: int64(d.between(1e6, 1e7))})
		}
	}
	if d.IntN(3) > 0 {
		r.Course = &record.Course{BeginNS: -5e7, StretchNS: 1 << 23}
		for range 30 {
			r.Course.Calls = append(r.Course.Calls, 500)
			r.Course.P99NS = append(r.Course.P99NS, d.whole(1e6, 9e6))
			r.Course.ServerCPUNS = append(r.Course.ServerCPUNS, int64(d.between(1e5, 8e6)))
			r.Course.ClientCPUNS = append(r.Course.ClientCPUNS, int64(d.between(1e5, 8e6)))
		}
	}
	if d.IntN(4) > 0 {
		r.WarmUp.EnoughNS, r.WarmUp.EnoughRequests = d.whole(1e6, 2e8), d.whole(10, 9000)
	}
	if d.IntN(4) > 0 {
		r.Traffic = &record.Traffic{
			Transport: "tcp", SpanNS: r.WindowNS, SentBytes: 1e5, ReceivedBytes: 2e5, SentPackets: d.whole(20, 300), SentPureAcks: d.whole(1, 10),
			SendCalls: d.whole(10, 150), Retransmits: new(int64(d.IntN(3))), BusyNS: d.whole(1e5, 1e7), BlockedNS: pick(d, nil, new(int64(0)), d.whole(1e3, 1e6)),
		}
	}
}

// search is one that closes in on a rate.
func (d *drawn) search() *record.Search {
	capacity := d.between(900, 90_000)
	s := &record.Search{KeptPerSecond: capacity * 0.98, MissedPerSecond: capacity * 1.03, Why: pick(d, "", "the longest search of 60s was over")}
	for _, share := range []float64{0.25, 0.5, 0.8, 0.98, 1.03, 1.1, 1.5, 2}[:4+d.IntN(5)] {
		for range 1 + d.IntN(3) {
			step := record.Step{RatePerSecond: share * capacity, AchievedPerSecond: math.Min(1, share) * capacity, FigureNS: int64(2e6 * d.factor()), Kept: share < 1}
			if share > 1 {
				step.FigureNS += int64(1e9 * (share - 1))
			}
			s.Steps = append(s.Steps, step)
		}
	}
	return s
}

func (d *drawn) twoParts() {
	sizes := d.sizes()
	d.matrix("few", sizes, []int{1}, closed)
	d.matrix("many", sizes[:1], d.concurrencies(), closed)
}

func (d *drawn) loads() {
	size := []drawnSize{{0, 0}}
	d.matrix("burst", size, pick(d, []int{200}, []int{100, 200, 400}), record.Load{Model: "burst", Burst: pick(d, 150, 1200)}, "grpc", "rest-json")
	d.matrix("sustained", size, pick(d, []int{200}, []int{100, 200, 400}), record.Load{Model: "sustained", RatePerSecond: 47, DurationNS: 3e9}, "grpc", "rest-json")
}

func (d *drawn) limits() {
	d.matrix("tail", d.sizes(), []int{500}, closed, "tcp", "rest")
	for _, c := range slices.Clone(d.records) {
		if c.Repeat != 1 || c.Cell.Variant != "tcp" {
			continue
		}
		limited := c.Cell
		limited.Variant, limited.Load.InFlightLimit = "tcp:inflight=37", 37
		d.cell(limited, func(r *record.Record) {
			response, wait := d.distribution(d.between(1e6, 9e6), 2), d.distribution(d.between(1e5, 9e5), 2)
			r.Response, r.Wait = &response, &wait
		})
	}
	d.study.Parts[0].Stacks = append(d.study.Parts[0].Stacks, "tcp:inflight=37")
}

func (d *drawn) lifecycle() {
	modes := map[string]string{"h1:conn=new,tls=on": "new", "h1:conn=resumed,tls=on": "resumed", "h1:cert=rsa,conn=new,tls=on": "new", "h3:conn=new": "new", "h3:conn=new,handshakes=64": "new", "h3:conn=0rtt": "0rtt"}
	variants := slices.Sorted(maps.Keys(modes))
	d.study.Parts = append(d.study.Parts, drawnPart{Name: "storm", Stacks: variants})
	sizes := pick(d, []drawnSize{{256, 256}}, []drawnSize{{64, 64}, {256, 4096}})
	for _, size := range sizes {
		for _, n := range []int{10, 500} {
			for _, variant := range variants {
				stack, _, _ := strings.Cut(variant, ":")
				mode := modes[variant]
				handshake, calls := d.between(1e5, 1e6), int64(d.calls)
				d.cell(record.Cell{
					Part: "storm", Stack: stack, Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: size.request, ResponseBytes: size.response}, Clients: n}, Connection: mode, Load: closed,
				}, func(r *record.Record) {
					shook, first := d.distribution(handshake*d.factor(), 2), d.distribution(2*handshake*d.factor(), 2)
					r.Connections = record.Connections{Mode: mode, Want: n, Opened: calls, During: calls, Handshake: &shook, FirstByte: &first}
					asWanted := calls - int64(d.IntN(2)*d.IntN(60))
					switch mode {
					case "new":
						r.Connections.Full, r.Connections.Resumed = asWanted, calls-asWanted
					case "resumed":
						r.Connections.Resumed, r.Connections.Full = asWanted, calls-asWanted
					default:
						r.Connections.Resumed, r.Connections.Early = calls, asWanted
					}
					if d.IntN(9) == 0 {
						r.Errors = []record.ErrorCount{{Class: "port-exhaustion", Code: "Unavailable", Count: int64(1 + d.IntN(70))}}
					}
				})
			}
		}
	}
}

func (d *drawn) sweep() {
	variants := []string{"grpc:conn=shared", "grpc:conn=pool:4", "tcp"}
	d.study.Parts = append(d.study.Parts, drawnPart{Name: "ping", Stacks: variants})
	for i, variant := range variants {
		stack, _, _ := strings.Cut(variant, ":")
		stops := d.between(2, 20)
		busy := d.between(0.2, 1)
		for _, n := range []int{1, 2, 4, 8, 16, 32}[d.IntN(2):] {
			d.cell(record.Cell{Part: "ping", Stack: stack, Variant: variant, Place: record.Place{Workload: "ping", Clients: n}, Connection: []string{"shared", "pool:4", "per-worker"}[i], Load: closed}, func(r *record.Record) {
				r.WindowNS = int64(float64(d.calls) * 1e5 * d.factor() / math.Min(float64(n), stops))
				r.Connections.Want, r.Connections.Opened = []int{1, 4, n}[i], []int64{1, 4, int64(n)}[i]
				r.Client.Busy, r.Server.Busy = new(busy*d.between(0.9, 1)), new(busy*d.between(0.9, 1))
			})
		}
	}
}

func (d *drawn) cases() {
	d.study.Report.Cases = true
	for _, part := range []string{"get-user", "get-users", "create"} {
		d.matrix(part, []drawnSize{{0, 0}}, []int{10, 100}, closed, "grpc", "rest-json")
		d.study.Claims = append(d.study.Claims, drawnClaim{Says: "rest-json is 2.5 times slower", Part: part, Of: "rest-json", Against: "grpc", Figure: pick(d, "mean", "cpu", "throughput"), Ratio: pick(d, 0.4, 2.5, 0)})
	}
	d.matrix("shares", []drawnSize{{0, 0}}, []int{50}, closed, "grpc", "h2", "h2:codec=json", "rest-json")
	d.study.Parts[3].Changes = []string{"the library (HTTP/2 for gRPC)", "the encoding", "the framework"}
}

func (d *drawn) bulk() {
	d.matrix("get", []drawnSize{{0, 0}}, []int{4}, pick(d, closed, record.Load{Model: "open", RatePerSecond: 12.5}), "grpc", "rest", "tcp")
	carried := d.between(5e5, 3e7)
	for _, r := range d.records {
		if d.IntN(5) > 0 {
			r.Wire = &record.Wire{Calls: 3, Request: record.WireBytes{MessageBytes: 1000}, Response: record.WireBytes{MessageBytes: carried}}
		}
	}
	for _, variant := range []string{"grpc", "tcp"} {
		r := &record.Record{Trial: len(d.records), Probe: "alloc", Cell: record.Cell{Part: "get", Variant: variant, Place: record.Place{Clients: 1}}, Measurement: record.Measurement{Requests: 70}}
		for _, end := range []*record.Process{&r.Client, &r.Server} {
			bytes, objects := int64(d.between(1e4, 1e8)), int64(d.between(100, 1e6))
			end.Allocations = &record.Allocations{Bytes: bytes, Objects: objects, Stacks: []record.AllocationStack{{Functions: []string{"main", "example.com/x2.copy"}, Bytes: bytes / 2, Objects: objects / 3}}}
		}
		d.records = append(d.records, r)
	}
}

// Every number that advice says stands in --json, of the variant, the sizes and the
// clients that the sentence names.
func TestAdviceSaysWhatTheObjectHas(t *testing.T) {
	seeds := []uint64{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}
	if testing.Short() {
		seeds = seeds[2:3] // with intervals
	}
	for shape := range drawnShapes {
		t.Run(shape, func(t *testing.T) {
			if testing.Short() && shape != "limits" {
				t.Skip("takes seconds; the full tests do")
			}
			sentences, numbers := 0, 0
			for _, seed := range seeds {
				s := stated(t, draw(t, shape, seed))
				s.check(t)
				for _, sentence := range s.advice {
					sentences, numbers = sentences+1, numbers+len(s.numbers(sentence))
				}
			}
			t.Logf("%d sentences with %d numbers", sentences, numbers)
		})
	}
}

// The test above notices falsehoods: a number that is a thirtieth too large, and a time
// or a rate that is said of another variant. Not all, since there are a thousand figures
// in an object and a number has three digits.
func TestFalseNumbersAreNoticed(t *testing.T) {
	if testing.Short() {
		t.Skip("draws thirty runs; the full tests do")
	}
	var numbers, larger, times, ofOthers int
	count := func(tells bool, into *int) {
		if !tells {
			*into++
		}
	}
	for shape := range drawnShapes {
		for seed := range uint64(3) {
			s := stated(t, draw(t, shape, seed))
			for _, sentence := range s.advice {
				for _, n := range s.numbers(sentence) {
					moved := n
					moved.value *= 31.0 / 30
					numbers++
					count(s.tells(moved), &larger)
					kind := spokenUnits[n.unit].kind
					if len(n.of.variants) != 1 || kind != "time" && kind != "rate" {
						continue
					}
					for _, variant := range s.variants {
						if variant == n.of.variants[0] {
							continue
						}
						other := n
						other.of.variants = []string{variant}
						times++
						count(s.tells(other), &ofOthers)
					}
				}
			}
		}
	}
	t.Logf("of %d numbers %d are noticed when too large; of %d times and rates of others %d", numbers, larger, times, ofOthers)
	if larger*10 < numbers*9 || ofOthers*10 < times*9 {
		t.Error("want nine in ten")
	}
}
