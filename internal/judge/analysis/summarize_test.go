package analysis

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/insight"
)

// truth holds the values from which a synthetic cell is drawn.
type truth struct {
	part     string
	variant  string
	bytes    int
	clients  int
	mean     time.Duration
	tail     float64 // P99 over P50; 0 for 1.4
	wait     time.Duration
	requests int
}

// synthetic is a run whose figures are known.
type synthetic struct {
	seed    uint64
	noise   float64 // relative standard deviation between trials
	repeats int
	truths  []truth
}

// records makes a trial of every truth in every repeat.
func (s synthetic) records(t testing.TB) []*record.Record {
	t.Helper()
	random := rand.New(rand.NewPCG(s.seed, 1))
	var all []*record.Record
	for repeat := 1; repeat <= s.repeats; repeat++ {
		for _, truth := range s.truths {
			factor := math.Exp(s.noise * random.NormFloat64())
			r := truth.record(t, factor)
			r.Trial, r.Repeat = len(all), repeat
			all = append(all, r)
		}
	}
	return all
}

func (s synthetic) summarize(t testing.TB) *Summary {
	t.Helper()
	records := s.records(t)
	return summarize(t, records)
}

func summarize(t testing.TB, records []*record.Record) *Summary {
	t.Helper()
	summary, err := Summarize(manifest(len(records)), JudgedTrials{Records: records}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	return summary
}

func manifest(trials int) *record.Manifest {
	return &record.Manifest{
		Version: record.Version, Name: "synthetic", Seed: 1, Trials: trials,
		Host:         json.RawMessage(`{"cpus":2}`),
		Scenario:     json.RawMessage(`{"parts":[{"stacks":["tcp","rest","grpc"]}]}`),
		Declarations: json.RawMessage(declared),
	}
}

// declared holds declarations like those of the program's stacks and workloads, with the
// fields that matter here.
const declared = `{
	"stacks": [
		{"name": "h1", "options": [
			{"key": "tls", "default": "off", "contrast": {}},
			{"key": "cert", "default": "ecdsa", "contrast": {}},
			{"key": "group", "default": "x25519mlkem768", "contrast": {}},
			{"key": "handshakes", "contrast": {"unset": "unbounded"}}
		]},
		{"name": "h3", "options": [{"key": "handshakes", "contrast": {"unset": "unbounded"}}]},
		{"name": "grpc", "options": [{"key": "conns", "role": "connections"}]}
	],
	"workloads": [{"name": "ping", "sweep": true}, {"name": "echo"}]
}`

// record is a closed loop's, in which throughput is clients over latency.
func (c truth) record(t testing.TB, factor float64) *record.Record {
	t.Helper()
	requests := c.requests
	if requests == 0 {
		requests = 1000 // as P99 needs
	}
	service := c.distribution(t, requests, float64(c.mean)*factor)
	span := float64(c.mean+c.wait) * factor * float64(requests) / float64(c.clients)
	cpu := int64(float64(requests) * 10_000)
	zero := int64(0)
	r := &record.Record{
		Version: record.Version,
		Cell: record.Cell{
			Part: c.part, Stack: c.variant, Variant: c.variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: c.bytes, ResponseBytes: c.bytes}, Clients: c.clients},
			Connection: "per-worker", Load: record.Load{Model: "closed", RequestsPerClient: requests},
		},
		WindowNS:    int64(span),
		Measurement: record.Measurement{Requests: int64(requests), Completed: int64(requests), Service: service},
		Client:      record.Process{UserNS: &cpu, SystemNS: &zero},
		Server:      record.Process{UserNS: &cpu, SystemNS: &cpu},
		Checks:      []record.Check{{Name: "errors", Level: record.OK, Detail: "none"}},
	}
	if c.wait > 0 {
		response := c.distribution(t, requests, float64(c.mean+c.wait)*factor)
		wait := c.distribution(t, requests, float64(c.wait)*factor)
		r.Response, r.Wait = &response, &wait
	}
	return r
}

// distribution has the given mean, and three in a hundred requests that take as
// many times longer than the others as the tail says.
func (c truth) distribution(t testing.TB, requests int, mean float64) latency.Distribution {
	t.Helper()
	tail := c.tail
	if tail == 0 {
		tail = 1.4
	}
	const slowShare = 0.03
	usual := mean / (1 - slowShare + slowShare*tail)
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for i := range requests {
		ns := usual
		if float64(i) < slowShare*float64(requests) {
			ns = usual * tail
		}
		recorder.Record(int64(ns))
	}
	d, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func within(t *testing.T, what string, got, want, share float64) {
	t.Helper()
	if !(math.Abs(got-want) <= share*math.Abs(want)) {
		t.Errorf("%s is %.5g, want %.5g within %.2g %%", what, got, want, 100*share)
	}
}

func TestACellIsOfAllItsTrials(t *testing.T) {
	truth := truth{variant: "tcp", bytes: 64, clients: 4, mean: 100 * time.Microsecond, tail: 5}
	var records []*record.Record
	for i, factor := range []float64{0.98, 1.02, 1.3} {
		r := truth.record(t, factor)
		r.Trial, r.Repeat = i, i+1
		records = append(records, r)
	}
	s := summarize(t, records)
	if len(s.Cells) != 1 {
		t.Fatalf("%d cells of one", len(s.Cells))
	}
	c := s.Cells[0]
	usual := 100 * math.Cbrt(0.98*1.02*1.3)
	within(t, "mean", c.Service.Mean.Value, usual, 0.002)
	within(t, "throughput", c.Throughput.Value, 4e6/usual, 0.002)
	within(t, "client CPU", c.ClientCPU.Value, 10, 0.001)
	within(t, "server CPU", c.ServerCPU.Value, 20, 0.001)
	within(t, "maximum", c.Service.Max.Value, float64(records[2].Service.Max)/1e3, 0.001)
	if c.Requests != 3000 || c.Trials != 3 || c.Valid != 3 || len(c.Repeats) != 3 {
		t.Errorf("%d requests, %d trials, %d valid, %d repeats", c.Requests, c.Trials, c.Valid, len(c.Repeats))
	}
	if i := c.Service.Mean.Interval; i == nil || i.Low > 98 || i.High < 130 || i.Confidence != 0.95 {
		t.Errorf("three trials of 98, 102 and 130 give the interval %v", i)
	}
	if c.Response != nil || c.Wait != nil || c.Client.Busy != nil {
		t.Error("what was not measured has a figure")
	}
}

// A run as large as the study's 117 trials, with the histograms of as many
// requests as a trial's. The whole matrix must take seconds.
func BenchmarkSummarize(b *testing.B) {
	s := synthetic{seed: 1, noise: 0.02, repeats: 3}
	for bytes := range 13 {
		for _, variant := range []string{"tcp", "rest", "grpc"} {
			s.truths = append(s.truths, truth{variant: variant, bytes: 1 << bytes, clients: 1, mean: time.Millisecond, requests: 10_000})
		}
	}
	records := s.records(b)
	b.ResetTimer()
	for b.Loop() {
		if _, err := Summarize(manifest(len(records)), JudgedTrials{Records: records}, insight.BuiltInCategories()); err != nil {
			b.Fatal(err)
		}
	}
}

func TestOtherProgramsClientHasUnknownFigures(t *testing.T) {
	records := synthetic{seed: 1, repeats: 3, truths: []truth{
		{variant: "grpc", bytes: 64, clients: 1, mean: time.Millisecond, requests: 100},
		{variant: "grpc:caller=ghz", bytes: 64, clients: 1, mean: time.Millisecond, requests: 100},
	}}.records(t)
	for _, r := range records {
		if r.Cell.Variant != "grpc" {
			r.ClientProgram = "ghz 1.0"
		}
	}
	for _, c := range summarize(t, records).Cells {
		if c.ForeignClient != (c.Variant != "grpc") {
			t.Errorf("%s: foreign client %v", c.Variant, c.ForeignClient)
		}
	}
}

// TestProfiledTrialsAreNoCells keeps their figures out of everything else.
func TestProfiledTrialsAreNoCells(t *testing.T) {
	stack := record.AllocationStack{Functions: []string{"f"}, Bytes: 1, Objects: 1}
	r := &record.Record{Probe: "alloc", Cell: record.Cell{Part: "p", Variant: "grpc"}, Measurement: record.Measurement{Requests: 8}}
	r.Server.Allocations = &record.Allocations{Stacks: []record.AllocationStack{stack}, Bytes: 1, Objects: 1}
	r.Checks = []record.Check{{Name: "gaps", Level: record.Invalid}}
	failed := &record.Record{Trial: 1, Probe: "alloc", Failure: "it broke", Cell: record.Cell{Part: "p", Variant: "tcp"}}
	s, err := Summarize(&record.Manifest{Trials: 2}, JudgedTrials{Records: []*record.Record{r, failed}}, insight.BuiltInCategories())
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Allocations) != 1 || len(s.Cells) != 1 || s.Cells[0].Variant != "tcp" || s.Invalid != 0 || s.Failed != 1 {
		t.Errorf("%d allocations, cells %+v, %d invalid, %d failed", len(s.Allocations), s.Cells, s.Invalid, s.Failed)
	}
}

// A trial that is wrong in itself is not blamed on other programs.
func TestTrialsSpoiledByOtherProgramsAreCounted(t *testing.T) {
	records := synthetic{repeats: 5, truths: []truth{{part: "a", variant: "tcp", bytes: 64, clients: 1, mean: time.Millisecond}}}.records(t)
	noise := record.Check{Name: "gaps", Level: record.Invalid, Detail: "lost"}
	wrong := record.Check{Name: "errors", Level: record.Invalid, Detail: "failed"}
	records[0].Checks = []record.Check{noise}
	records[1].Checks = []record.Check{noise, wrong}
	records[2].Checks = []record.Check{noise}
	records[2].Probe = "alloc"
	s := summarize(t, records)
	if s.Spoiled != 1 {
		t.Errorf("%d trials are spoiled, want 1", s.Spoiled)
	}
	if c := s.Cells[0]; c.Spoiled != 1 || c.Valid != 2 {
		t.Errorf("the cell has %d spoiled trials and %d valid ones, want 1 and 2", c.Spoiled, c.Valid)
	}
}
