package report

import (
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A reconnect holds the figures of a variant of the fixture that makes a connection per request.
type reconnect struct {
	variant   string
	client    float64 // µs of CPU a request
	server    float64
	handshake float64 // µs, at rest
	memory    float64 // bytes of the server with one client
	udp       bool
}

var reconnects = []reconnect{
	{"h1:conn=new,tls=on", 210, 290, 620, 14 << 20, false},
	{"h1:conn=resumed,tls=on", 150, 140, 380, 14 << 20, false},
	{"h1:cert=rsa,conn=new,tls=on", 190, 910, 1400, 14 << 20, false},
	{"h1:conn=new,group=x25519,tls=on", 160, 230, 500, 14 << 20, false},
	{"h2:conn=new,tls=on", 260, 340, 640, 19 << 20, false},
	{"h3:conn=new", 420, 660, 910, 31 << 20, true},
	{"h3:conn=resumed", 330, 450, 700, 31 << 20, true},
	{"h3:conn=0rtt", 340, 470, 710, 31 << 20, true},
	{"grpc-h3:conn=new", 460, 700, 930, 33 << 20, true},
	{"tcp:client=naive,conn=new", 30, 35, 0, 9 << 20, false},
}

// fixtureLifecycle is a run such as the connection study gives: every variant
// with a connection a request, from few clients to a storm, in which one loses
// most of its requests and another resumes less than it was asked to.
func fixtureLifecycle(t *testing.T) *Run {
	t.Helper()
	summary := &analysis.Summary{
		Name:     "connection-lifecycle",
		Title:    "Who survives when everybody reconnects?",
		Question: "What does a new connection a request cost over each wire, and what does resumption buy?",
		Started:  time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		Status:   record.Done, Seed: 3, Planned: 150, Done: 150, Invalid: 6,
		Command: []string{"wirelab", "run", "connection-lifecycle"}, Host: fixtureHost(),
	}
	for _, clients := range []int{10, 50, 100, 200, 500} {
		for _, r := range reconnects {
			summary.Cells = append(summary.Cells, r.cell(clients))
		}
	}
	for i := range summary.Cells {
		c := &summary.Cells[i]
		if c.Variant == "h3:conn=resumed" && c.Clients == 500 {
			c.Connections.Full, c.Connections.Resumed, c.Connections.Differs = 2100, 12900, true
			achieved := 0.86
			c.Connections.Achieved = &achieved
		}
	}
	for _, clients := range []int{100, 500} {
		summary.Contrasts = append(summary.Contrasts,
			fixtureContrast(reconnects[0], reconnects[1], compare.ByConnection, [2]string{"new", "resumed"}, clients),
			fixtureContrast(reconnects[5], reconnects[6], compare.ByConnection, [2]string{"new", "resumed"}, clients),
			fixtureContrast(reconnects[5], reconnects[7], compare.ByConnection, [2]string{"new", "0rtt"}, clients),
			fixtureContrast(reconnects[0], reconnects[2], "cert", [2]string{"ecdsa", "rsa"}, clients),
			fixtureContrast(reconnects[0], reconnects[3], "group", [2]string{"x25519mlkem768", "x25519"}, clients))
	}
	summary.Settings = []analysis.Setting{
		{Stack: "h3", Variants: []string{"h3:conn=new", "h3:conn=resumed", "h3:conn=0rtt"}, Setting: tuning.Setting{Side: "server", Name: "quic.Config.MaxIncomingStreams", Value: "10000", Default: "100", Why: "one shared connection carries a whole trial's requests"}},
		{Stack: "h3", Variants: []string{"h3:conn=resumed", "h3:conn=0rtt"}, Setting: tuning.Setting{Side: "client", Name: "tls.Config.ClientSessionCache", Value: "one session, from before the first call", Default: "none", Why: "the connection mode resumes sessions"}},
		{Stack: "h1", Variants: []string{"h1:conn=new,tls=on"}, Setting: tuning.Setting{Side: "client", Name: "SO_LINGER", Value: "0", Default: "unset", Why: "connections in TIME_WAIT would use up the ports"}},
	}
	summary.Machine = []analysis.MachineLimit{
		{Name: "file-descriptors", Need: 1064, Have: 524288, Cell: "storm/h1:conn=new,tls=on/echo/256B/c=500"},
		{Name: "ports", Need: 5000, Have: 2000, Note: "one source address, as the naive client has it; spread sources over 127.0.0.0/8", Cell: "storm/tcp:client=naive,conn=new/echo/256B/c=500", Short: true},
	}
	return &Run{
		Summary:   summary,
		Advice:    []string{"With 500 reconnecting clients h1, h2, h3 and grpc-h3 survive: every one of 15,000 requests was answered."},
		Directory: "results/connection lifecycle",
	}
}

func (r reconnect) cell(clients int) matrix.Cell {
	stack, _, _ := strings.Cut(r.variant, ":")
	mode := "new"
	for _, m := range []string{"resumed", "0rtt"} {
		if strings.Contains(r.variant, "conn="+m) {
			mode = m
		}
	}
	crowd := math.Max(1, float64(clients)/8)
	mean := (r.client + r.server + r.handshake/3) * crowd
	c := matrix.Cell{
		Cell: record.Cell{
			Part: "storm", Stack: stack, Variant: r.variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 256, ResponseBytes: 256}, Clients: clients}, Connection: mode, Load: record.Load{Model: "closed", RequestsPerClient: 5000 / clients},
		},
		Trials: 3, Valid: 3, Requests: 15000,
		Throughput: fixtureFigure(float64(clients) / mean * 1e6),
		Service:    fixtureLatencies(mean*0.9, 2.4, 15000), P99OverP50: fixtureFigure(2.4),
		InFlight: fixtureFigure(float64(clients)), WarmUp: fixtureFigure(300), Bound: matrix.ByServerCPU,
		Survival:  fixtureSurvival(15000, 15000),
		ClientCPU: fixturePointer(r.client), ServerCPU: fixturePointer(r.server), Opened: matrix.Figure{Value: 5500},
		Client: fixtureEnd(r.client/(r.client+r.server), 11<<20+float64(clients)*6e3, clients),
		Server: fixtureEnd(r.server/(r.client+r.server), r.memory+float64(clients)*r.memory/200, clients),
		Connections: matrix.Connections{
			PerRequest: true, Secure: r.handshake > 0, Want: clients, During: 15000,
			Connect: fixtureTimes(40 * crowd), Handshake: fixtureTimes(r.handshake * crowd), FirstByte: fixtureTimes(mean * 0.8),
		},
		Wire: fixtureWire(r),
	}
	c.Key = c.Cell.Key()
	all := 1.0
	c.Connections.Achieved = &all
	switch {
	case r.handshake == 0:
		c.Connections.Handshake = nil
	case mode == "new":
		c.Connections.Full = 15000
	default:
		c.Connections.Resumed = 15000
	}
	if mode == "0rtt" {
		c.Connections.Early = 15000
	}
	c.Traffic = &matrix.Traffic{Transport: "tcp", Sent: matrix.Direction{Bytes: fixtureFigure(1900)}, Received: matrix.Direction{Bytes: fixtureFigure(2300)}}
	if c.Connections.Secure {
		c.Connections.Negotiated = matrix.Negotiated{Recorded: true, Protocol: stack, Sessions: []matrix.Session{{
			Version: "TLS 1.3", Cipher: "TLS_AES_128_GCM_SHA256", Group: "X25519MLKEM768", ALPN: stack,
			Full: c.Connections.Full, Resumed: c.Connections.Resumed,
		}}}
	}
	if r.udp {
		perCall, packets, rtt := fixtureFigure(3.1), fixtureFigure(5.2), fixtureFigure(180)
		c.Traffic = &matrix.Traffic{
			Transport: "udp", Offload: "gso", RTT: &rtt,
			Sent:     matrix.Direction{Bytes: fixtureFigure(4100), Packets: &packets, PerCall: &perCall},
			Received: matrix.Direction{Bytes: fixtureFigure(3700), Packets: &packets},
		}
	}
	if strings.Contains(r.variant, "naive") && clients >= 200 {
		c.Valid, c.Refused, c.Errors = 0, 3, 8850
		c.Survival = fixtureSurvival(15000, 6150)
		c.Survival.Failures = []record.ErrorCount{
			{Class: "port-exhaustion", Code: "Unavailable", Count: 8841, Example: "dial tcp 127.0.0.1:41213: connect: cannot assign requested address"},
			{Class: "reset", Code: "Unavailable", Count: 9, Example: "read tcp 127.0.0.1:41213: connection reset by peer <RST>"},
		}
		c.ErrorKinds = c.Survival.Failures
		c.Findings = []matrix.Finding{{Name: "errors", Level: record.Invalid, Trials: 3, Detail: "8850 of 15000 requests failed; most of them with Unavailable: dial tcp 127.0.0.1:41213: connect: cannot assign requested address"}}
	}
	return c
}

func fixturePointer(value float64) *matrix.Figure {
	f := fixtureFigure(value)
	return &f
}

func fixtureEnd(share, memory float64, clients int) matrix.End {
	figure := fixturePointer
	return matrix.End{
		Share: figure(share), Busy: figure(0.93), RSS: figure(memory * 0.9), Peak: figure(memory), Heap: figure(memory / 3),
		Threads: figure(9), Sockets: figure(float64(clients + 3)), Goroutines: figure(float64(2*clients + 11)),
	}
}

func fixtureTimes(p50 float64) *matrix.Times {
	return &matrix.Times{Mean: fixtureFigure(p50 * 1.1), P50: fixtureFigure(p50), P99: fixtureFigure(p50 * 3)}
}

func fixtureWire(r reconnect) *matrix.Wire {
	plain := func(v float64) matrix.Figure { return matrix.Figure{Value: v} }
	side := func(protocol float64) matrix.WireBytes {
		security, transport, acks := plain(22), plain(40), plain(40)
		b := matrix.WireBytes{Message: plain(260), Protocol: plain(protocol), Total: plain(260 + protocol + 22 + 40 + 40), Security: &security, Transport: &transport, Acks: &acks}
		if r.udp {
			b.Acks, b.Total = nil, plain(260+protocol+22+40)
		}
		return b
	}
	return &matrix.Wire{
		Request: side(110), Response: side(-3),
		FirstSent: plain(420), FirstReceived: plain(390), HandshakeSent: plain(1800), HandshakeReceived: plain(1400),
	}
}

func fixtureContrast(from, to reconnect, option string, values [2]string, clients int) compare.Contrast {
	effect := func(metric string, ratio float64) compare.Effect {
		verdict := compare.Equivalent
		switch {
		case ratio > 1.05:
			verdict = compare.More
		case ratio < 0.95:
			verdict = compare.Less
		}
		return compare.Effect{Metric: metric, Ratio: fixtureFigure(ratio), P: 0.001, Verdict: verdict}
	}
	cpu := (to.client + to.server) / (from.client + from.server)
	a, b := from.cell(clients), to.cell(clients)
	return compare.Contrast{
		Part: "storm", Stack: a.Stack, Option: option, Base: from.variant, Changed: to.variant, From: values[0], To: values[1],
		Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: 256, ResponseBytes: 256}, Clients: clients}, Load: a.Load, Pairs: 3,
		Effects: []compare.Effect{
			effect(matrix.CPU, cpu), effect(matrix.Throughput, b.Throughput.Value/a.Throughput.Value), effect(matrix.P99, b.Service.P99.Value/a.Service.P99.Value),
			effect(matrix.Handshake, to.handshake/from.handshake), effect(matrix.FirstByte, b.Connections.FirstByte.P50.Value/a.Connections.FirstByte.P50.Value), effect(matrix.ServerPeak, to.memory/from.memory),
		},
	}
}
