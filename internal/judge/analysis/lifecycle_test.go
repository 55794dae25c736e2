package analysis

import (
	"fmt"
	"math"
	"reflect"
	"testing"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// lifecycle is a trial of a variant whose connections live as its mode says,
// and whose CPU time is factor times 30 µs a request.
func lifecycle(t testing.TB, variant, mode string, factor float64) *record.Record {
	t.Helper()
	r := truth{variant: variant, bytes: 256, clients: 4, mean: 100 * time.Microsecond, requests: 1000}.record(t, factor)
	r.Cell.Stack, r.Cell.Connection = "h1", mode
	cpu, none := int64(float64(r.Completed)*15_000*factor), int64(0)
	r.Client = record.Process{UserNS: &cpu, SystemNS: &none}
	r.Server = record.Process{UserNS: &cpu, SystemNS: &none}
	handshake := truth{}.distribution(t, 1000, 40_000*factor)
	firstByte := truth{}.distribution(t, 1000, 90_000*factor)
	r.Connections = record.Connections{Mode: mode, Want: 4, Opened: 1000, During: 1000, Handshake: &handshake, FirstByte: &firstByte}
	if mode == "resumed" {
		r.Connections.Resumed = 1000
	} else {
		r.Connections.Full = 1000
	}
	return r
}

// course repeats what is given, a little differently each time.
func course(t testing.TB, repeats int, of func(wobble float64) []*record.Record) []*record.Record {
	t.Helper()
	var all []*record.Record
	for repeat := 1; repeat <= repeats; repeat++ {
		for _, r := range of(1 + 0.004*float64(repeat%3-1)) {
			r.Trial, r.Repeat = len(all), repeat
			all = append(all, r)
		}
	}
	return all
}

func TestContrastsFindWhatOneChoiceCosts(t *testing.T) {
	s := summarize(t, course(t, 4, func(wobble float64) []*record.Record {
		return []*record.Record{
			lifecycle(t, "h1:conn=new,tls=on", "new", 1*wobble),
			lifecycle(t, "h1:conn=resumed,tls=on", "resumed", 0.6/wobble),
			lifecycle(t, "h1:cert=rsa,conn=new,tls=on", "new", 1.5),
			lifecycle(t, "h1:cert=rsa,conn=resumed,tls=on", "resumed", 0.6),
			lifecycle(t, "h1:conn=new,group=x25519,tls=on", "new", 0.9*wobble*wobble),
		}
	}))
	want := map[string]float64{
		"conn h1:conn=new,tls=on -> h1:conn=resumed,tls=on":                   0.6,
		"conn h1:cert=rsa,conn=new,tls=on -> h1:cert=rsa,conn=resumed,tls=on": 0.4,
		"cert h1:conn=new,tls=on -> h1:cert=rsa,conn=new,tls=on":              1.5,
		"cert h1:conn=resumed,tls=on -> h1:cert=rsa,conn=resumed,tls=on":      1,
		"group h1:conn=new,tls=on -> h1:conn=new,group=x25519,tls=on":         0.9,
	}
	for _, c := range s.Contrasts {
		name := fmt.Sprintf("%s %s -> %s", c.Option, c.Base, c.Changed)
		ratio, asked := want[name]
		if !asked {
			t.Errorf("an odd contrast: %s", name)
			continue
		}
		delete(want, name)
		for metric, ratio := range map[string]float64{matrix.CPU: ratio, matrix.Handshake: ratio, matrix.FirstByte: ratio, matrix.Throughput: 1 / ratio, matrix.P99: ratio} {
			e, ok := c.EffectOn(metric)
			if !ok {
				t.Errorf("%s: nothing of %s", name, metric)
				continue
			}
			within(t, name+": "+metric, e.Ratio.Value, ratio, 0.02)
			verdict := compare.Equivalent
			switch {
			case ratio > 1.05:
				verdict = compare.More
			case ratio < 0.95:
				verdict = compare.Less
			}
			if e.Verdict != verdict || e.Ratio.Interval == nil || math.IsNaN(e.P) {
				t.Errorf("%s: %s is %s with %v, p %v; want %s", name, metric, e.Verdict, e.Ratio, e.P, verdict)
			}
		}
		if _, measured := c.EffectOn(matrix.ServerPeak); measured {
			t.Errorf("%s: an effect on memory, which nobody measured", name)
		}
	}
	for name := range want {
		t.Errorf("no contrast %s", name)
	}
}

func TestContrastsOfOneTrialHaveNoVerdict(t *testing.T) {
	s := summarize(t, course(t, 1, func(float64) []*record.Record {
		return []*record.Record{lifecycle(t, "h1:tls=on", "new", 1), lifecycle(t, "h1:conn=resumed,tls=on", "resumed", 0.5)}
	}))
	if len(s.Contrasts) != 1 {
		t.Fatalf("%d contrasts of one choice", len(s.Contrasts))
	}
	e, _ := s.Contrasts[0].EffectOn(matrix.CPU)
	if e.Verdict != compare.Undecided || e.Ratio.Interval != nil || !math.IsNaN(e.P) {
		t.Errorf("one trial decides: %+v", e)
	}
	within(t, "the ratio", e.Ratio.Value, 0.5, 0.01)
}

func TestConnectionsAreComparedWithWhatWasAsked(t *testing.T) {
	for name, test := range map[string]struct {
		mode   string
		spoil  func(*record.Record)
		share  float64 // below 0: none
		differ bool
	}{
		"new":                 {"new", func(*record.Record) {}, 1, false},
		"resumed":             {"resumed", func(*record.Record) {}, 1, false},
		"a first that is not": {"resumed", func(r *record.Record) { r.Connections.Full, r.Connections.Resumed = 5, 995 }, 0.995, false},
		"resumed that is not": {"resumed", func(r *record.Record) { r.Connections.Full, r.Connections.Resumed = 400, 600 }, 0.6, true},
		"new that resumes":    {"new", func(r *record.Record) { r.Connections.Full, r.Connections.Resumed = 0, 1000 }, 0, true},
		"new that is kept":    {"new", func(r *record.Record) { r.Connections.Full, r.Connections.During = 10, 10 }, 10.0 / 992, true},
		"early data":          {"0rtt", func(r *record.Record) { r.Connections.Full, r.Connections.Resumed, r.Connections.Early = 0, 1000, 1000 }, 1, false},
		"early data refused": {"0rtt", func(r *record.Record) {
			r.Connections.Full, r.Connections.Resumed, r.Connections.EarlyRefused = 0, 1000, 1000
		}, 0, true},
		"cleartext":            {"new", func(r *record.Record) { r.Connections.Full = 0 }, 1, false},
		"in flight at an edge": {"new", func(r *record.Record) { r.Connections.Full, r.Connections.During = 992, 992 }, 1, false},
		"failed requests": {"new", func(r *record.Record) {
			r.Connections.Full, r.Connections.During = 400, 400
			r.Errors = []record.ErrorCount{{Class: "port-exhaustion", Code: "Unavailable", Count: 600}}
		}, 1, false},
		"per worker":               {"per-worker", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 4, 0 }, -1, false},
		"per worker, opened again": {"per-worker", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 6, 2 }, -1, true},
		"a pool that stays small":  {"pool:4", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 2, 0 }, -1, false},
		"one that sizes itself":    {"auto:16", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 3, 1 }, -1, false},
		"shared, but two":          {"shared", func(r *record.Record) { r.Connections.Opened, r.Connections.During = 2, 0; r.Connections.Want = 1 }, -1, true},
	} {
		r := lifecycle(t, "h1:tls=on", test.mode, 1)
		test.spoil(r)
		c := summarize(t, []*record.Record{r}).Cells[0].Connections
		share := -1.0
		if c.Achieved != nil {
			share = *c.Achieved
		}
		if math.Abs(share-test.share) > 1e-9 || c.Differs != test.differ || !c.Secure {
			t.Errorf("%s: achieved %v and differs %v, want %v and %v", name, share, c.Differs, test.share, test.differ)
		}
	}
}

// The trial that broke has no valid times, and the two that did not are the figure; but
// who asks how many survive must not be shown the survivors alone.
func TestSurvivalCountsTheTrialsThatBroke(t *testing.T) {
	records := course(t, 3, func(float64) []*record.Record { return []*record.Record{lifecycle(t, "h1:tls=on", "new", 1)} })
	broke := records[1]
	broke.Errors = []record.ErrorCount{
		{Class: "port-exhaustion", Code: "Unavailable", Count: 500, Example: "cannot assign requested address"},
		{Class: "refused", Code: "Unavailable", Count: 90, Example: "connection refused"},
	}
	broke.Checks = []record.Check{{Name: "errors", Level: record.Invalid}}
	c := summarize(t, records).Cells[0]
	if c.Errors != 590 || c.Valid != 2 {
		t.Errorf("%d errors in %d valid trials", c.Errors, c.Valid)
	}
	if s := c.Survival; s.Requests != 3000 || s.Succeeded != 2410 || s.Trials != 3 || len(s.Failures) != 2 || s.Failures[0].Class != "port-exhaustion" {
		t.Errorf("survival: %+v", s)
	}
}

func TestWhatBoundsAClosedLoop(t *testing.T) {
	for name, test := range map[string]struct {
		client, server, inFlight float64
		want                     matrix.Bound
	}{
		"a sleeping handler":       {0.3, 0.4, 4, matrix.ByWaiting},
		"a server at work":         {0.5, 0.97, 4, matrix.ByServerCPU},
		"a client at work":         {0.96, 0.5, 4, matrix.ByClientCPU},
		"both, the server more":    {0.92, 0.95, 4, matrix.ByServerCPU},
		"between":                  {0.7, 0.8, 4, matrix.NoClearBound},
		"clients that do not call": {0.1, 0.1, 2, matrix.NoClearBound},
	} {
		r := lifecycle(t, "h1", "per-worker", 1)
		r.Client.Busy, r.Server.Busy, r.InFlight = &test.client, &test.server, test.inFlight
		if got := summarize(t, []*record.Record{r}).Cells[0].Bound; got != test.want {
			t.Errorf("%s: bound by %q, want %q", name, got, test.want)
		}
	}
	r := lifecycle(t, "h1", "per-worker", 1)
	idle := 0.1
	r.Client.Busy, r.Server.Busy, r.InFlight, r.Cell.Load.Model = &idle, &idle, 4, "open"
	if got := summarize(t, []*record.Record{r}).Cells[0].Bound; got != matrix.NoClearBound {
		t.Errorf("an open loop, which sends what it is told to, is bound by %q", got)
	}
}

func TestCostsAreByTheRequest(t *testing.T) {
	r := lifecycle(t, "h1:tls=on", "new", 1)
	packets, calls, acks, rtt := int64(3000), int64(750), int64(1000), int64(50_000)
	r.Traffic = &record.Traffic{
		Transport: "udp", SpanNS: r.WindowNS / 2, SentBytes: 150_000, ReceivedBytes: 300_000,
		SentPackets: &packets, SendCalls: &calls, SentPureAcks: &acks, RTTNS: &rtt, Offload: "gso",
	}
	more := *r.Client.UserNS * 3
	r.Server.UserNS = &more
	security := 22.0
	r.Wire = &record.Wire{Calls: 8, Request: record.WireBytes{MessageBytes: 256, ProtocolBytes: 100, SecurityBytes: &security}}
	c := summarize(t, []*record.Record{r}).Cells[0]
	within(t, "sent bytes per request", c.Traffic.Sent.Bytes.Value, 300, 0.01) // in half of the window went half of the requests
	within(t, "packets per request", c.Traffic.Sent.Packets.Value, 6, 0.01)
	within(t, "packets per system call", c.Traffic.Sent.PerCall.Value, 4, 1e-9)
	within(t, "RTT", c.Traffic.RTT.Value, 50, 1e-9)
	within(t, "the client's share", c.Client.Share.Value, 0.25, 1e-9)
	within(t, "the server's share", c.Server.Share.Value, 0.75, 1e-9)
	within(t, "bytes of a request", c.Wire.Request.Total.Value, 378, 1e-9)
	if c.Traffic.Retransmits != nil || c.Traffic.Received.Packets != nil || c.Wire.Request.Transport != nil || c.Server.Peak != nil {
		t.Error("what was not measured has a figure")
	}
}

func TestNearestMachineLimitIsKept(t *testing.T) {
	few, many := lifecycle(t, "h1:tls=on", "new", 1), lifecycle(t, "h1:tls=on", "new", 1)
	many.Cell.Clients = 500
	few.Limits = []record.Limit{{Name: "ports", Need: 100, Have: 28_000}, {Name: "backlog", Need: 4, Have: 4096}}
	many.Limits = []record.Limit{{Name: "ports", Need: 30_000, Have: 28_000, Note: "eight addresses"}}
	few.Settings = []tuning.Setting{{Side: "both", Name: "buffer", Value: "64 KiB", Default: "4 KiB", Why: "fewer reads"}}
	many.Settings = few.Settings
	s := summarize(t, []*record.Record{few, many})
	if len(s.Machine) != 2 || s.Machine[0].Need != 30_000 || !s.Machine[0].Short || s.Machine[0].Cell != many.Cell.Key() || s.Machine[1].Short {
		t.Errorf("limits: %+v", s.Machine)
	}
	if len(s.Settings) != 1 || len(s.Settings[0].Variants) != 1 || s.Settings[0].Stack != "h1" {
		t.Errorf("settings: %+v", s.Settings)
	}
}

// Security reports the negotiated settings, not those in a variant's name.
func TestSecurityIsNegotiated(t *testing.T) {
	session := record.Session{Version: "TLS 1.3", Cipher: "TLS_AES_128_GCM_SHA256", Group: "X25519MLKEM768", ALPN: "h3", Connections: 4}
	resumed := session
	resumed.Resumed, resumed.Connections = true, 9
	for _, test := range []struct {
		name, variant string
		negotiated    *record.Negotiated
		want          matrix.Connections
	}{
		{"h3, kept", "h3", &record.Negotiated{Protocol: "h3", Sessions: []record.Session{session, resumed}}, matrix.Connections{
			Secure: true,
			Negotiated: matrix.Negotiated{Recorded: true, Protocol: "h3", Sessions: []matrix.Session{{
				Version: "TLS 1.3", Cipher: "TLS_AES_128_GCM_SHA256", Group: "X25519MLKEM768", ALPN: "h3", Full: 12, Resumed: 27,
			}}},
		}},
		{"cleartext that is called secure", "h2:tls=on", &record.Negotiated{Protocol: "h2"}, matrix.Connections{Negotiated: matrix.Negotiated{Recorded: true, Protocol: "h2"}}},
		{"older records, by their name", "h2:tls=on", nil, matrix.Connections{Secure: true}},
		{"older records", "h3", nil, matrix.Connections{}},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := summarize(t, course(t, 3, func(wobble float64) []*record.Record {
				r := lifecycle(t, test.variant, "shared", wobble)
				r.Connections = record.Connections{Mode: "shared", Want: 4, Opened: 4}
				r.Negotiated = test.negotiated
				return []*record.Record{r}
			}))
			if got := s.Cells[0].Connections; got.Secure != test.want.Secure || !reflect.DeepEqual(got.Negotiated, test.want.Negotiated) {
				t.Errorf("secure %v, negotiated %+v", got.Secure, got.Negotiated)
			}
		})
	}
}
