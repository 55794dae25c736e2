package advice

import (
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// reconnecting is a study with a connection per request: h1 and h3 survive, the
// naive client does not, and h3 resumes less than it was asked to.
func reconnecting() *analysis.Summary {
	cpu := map[string]float64{"h1:conn=new,tls=on": 500, "h1:conn=resumed,tls=on": 290, "h3:conn=new": 1080, "h3:conn=resumed": 780, "tcp:client=naive,conn=new": 65}
	y := sampleRun{
		part: "storm", sizes: both(256), clients: []int{10, 500}, trials: 3, model: "closed", warmUpMS: 300,
		variants: []string{"h1:conn=new,tls=on", "h1:conn=resumed,tls=on", "h3:conn=new", "h3:conn=resumed", "tcp:client=naive,conn=new"},
		mean:     func(v string, at rank.Point) float64 { return cpu[v] * float64(at.Clients) / 2 },
		p99:      func(v string, at rank.Point) float64 { return 2 * cpu[v] * float64(at.Clients) / 2 },
	}
	s := &analysis.Summary{}
	y.addTo(s)
	for i := range s.Cells {
		c := &s.Cells[i]
		_, mode, _ := strings.Cut(c.Variant, "conn=")
		c.Connection, _, _ = strings.Cut(mode, ",")
		c.Connections.PerRequest = true
		c.Survival = matrix.Survival{Trials: 3, Requests: 15_000, Succeeded: 15_000}
		half := y.figure(cpu[c.Variant] / 2)
		c.ClientCPU, c.ServerCPU = &half, &half
		busy := y.figure(0.97)
		c.Client.Busy, c.Server.Busy, c.Bound = &busy, &busy, matrix.ByServerCPU
		if c.Variant == "h3:conn=resumed" && c.Clients == 500 {
			achieved := 0.86
			c.Connections.Achieved, c.Connections.Differs = &achieved, true
		}
	}
	spoil(s, func(c *matrix.Cell) bool { return strings.Contains(c.Variant, "naive") && c.Clients == 500 })
	for i := range s.Cells {
		if c := &s.Cells[i]; !c.IsValid() {
			c.Survival.Succeeded = 6150
			c.Survival.Failures = []record.ErrorCount{{Class: "port-exhaustion", Code: "Unavailable", Count: 8850}}
		}
	}
	effect := func(metric string, ratio float64, verdict compare.Verdict) compare.Effect {
		return compare.Effect{Metric: metric, Ratio: y.figure(ratio), P: 0.001, Verdict: verdict, Margin: 0.02}
	}
	contrast := func(option, base, from, to string, effects ...compare.Effect) compare.Contrast {
		stack, _, _ := strings.Cut(base, ":")
		return compare.Contrast{Part: "storm", Stack: stack, Option: option, Base: base, From: from, To: to, Place: record.Place{Payload: record.Payload{RequestBytes: 256, ResponseBytes: 256}, Clients: 500}, Pairs: 3, Effects: effects}
	}
	s.Declared.Stacks = []scenario.Declaration{{Name: "h3", Options: []scenario.Option{
		{Key: "handshakes", Contrast: &scenario.Contrast{Metrics: []string{matrix.ServerPeak, matrix.P99, matrix.Throughput}}},
	}}}
	s.Contrasts = []compare.Contrast{
		contrast(compare.ByConnection, "h1:conn=new,tls=on", "new", "resumed",
			effect(matrix.CPU, 0.58, compare.Less), effect(matrix.Handshake, 0.61, compare.Less), effect(matrix.Throughput, 1.72, compare.More)),
		contrast(compare.ByConnection, "h3:conn=new", "new", "resumed",
			effect(matrix.CPU, 0.72, compare.Less), effect(matrix.Throughput, 1.1, compare.Undecided)),
		contrast(compare.ByConnection, "h3:conn=new", "new", "0rtt",
			effect(matrix.CPU, 0.75, compare.Less), effect(matrix.Handshake, 1.01, compare.Equivalent), effect(matrix.FirstByte, 0.5, compare.Less)),
		contrast("cert", "h1:conn=new,tls=on", "ecdsa", "rsa",
			effect(matrix.CPU, 2.2, compare.More), effect(matrix.Throughput, 0.45, compare.Less)),
		contrast("cert", "h1:conn=new,group=x25519,tls=on", "ecdsa", "rsa", effect(matrix.CPU, 3, compare.More)),
		contrast("group", "h1:conn=new,tls=on", "x25519mlkem768", "x25519", effect(matrix.CPU, 1, compare.Equivalent)),
		contrast("handshakes", "h3:conn=new", "unbounded", "64",
			effect(matrix.ServerPeak, 0.33, compare.Less), effect(matrix.P99, 0.7, compare.Less), effect(matrix.CPU, 0.5, compare.Less)),
	}
	few := s.Contrasts[0]
	few.Clients = 10
	s.Contrasts = append(s.Contrasts, few)
	return s
}

func TestReconnecting(t *testing.T) { golden(t, "reconnecting", reconnecting()) }

// A stack that nobody asked about connections has nothing said of them.
func TestNothingSaidOfConnectionsWithoutReconnecting(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	for _, text := range Advise(s) {
		if strings.Contains(text, "surviv") || strings.Contains(text, "What limits") {
			t.Error(text)
		}
	}
}

// One request lost of many is not 100 %.
func TestOneLostRequestIsNot100Percent(t *testing.T) {
	s := reconnecting()
	for i := range s.Cells {
		if c := &s.Cells[i]; c.Variant == "h3:conn=new" && c.Clients == 500 {
			c.Survival.Succeeded--
		}
	}
	all := strings.Join(Advise(s), "\n")
	if !strings.Contains(all, "h3:conn=new with 500 clients 14,999 of 15,000") {
		t.Error(all)
	}
}

func TestWaitingIsNamedAsTheLimit(t *testing.T) {
	s := &analysis.Summary{}
	y := usual()
	y.variants, y.clients, y.sizes = []string{"rest", "grpc"}, []int{100}, both(64)
	y.addTo(s)
	for i := range s.Cells {
		c := &s.Cells[i]
		busy := y.figure(0.2 * float64(i+1))
		c.Client.Busy, c.Server.Busy, c.Bound = &busy, &busy, matrix.ByWaiting
		c.Service.Mean = y.figure(10_300 + 100*float64(i))
	}
	want := "Limit with 100 clients: waiting for rest and grpc, so the number of clients sets the throughput, and the protocol may carry more."
	if all := strings.Join(Advise(s), "\n"); !strings.Contains(all, want) {
		t.Error(all)
	}
}
