package analysis

import (
	"math"
	"strings"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/curves"
)

// held describes a variant whose throughput stops at a number of callers: its connections,
// and how busy the CPUs of both ends are.
type held struct {
	variant              string
	connections          int
	stopsAt              int // callers
	clientBusy, srvrBusy float64
}

func (s held) records(t *testing.T) []*record.Record {
	run := synthetic{seed: 3, noise: 0.01, repeats: 3}
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		slower := float64(max(n, s.stopsAt)) / float64(s.stopsAt)
		run.truths = append(run.truths, truth{variant: s.variant, bytes: 0, clients: n, mean: time.Duration(100e3 * slower)})
	}
	all := run.records(t)
	for _, r := range all {
		r.Cell.Workload = "ping"
		r.Client.Busy, r.Server.Busy = &s.clientBusy, &s.srvrBusy
		r.Connections = record.Connections{Want: s.connections, Opened: int64(s.connections)}
		r.InFlight = float64(r.Cell.Clients)
	}
	return all
}

func sweeps(t *testing.T, some ...held) *Summary {
	t.Helper()
	var all []*record.Record
	for _, s := range some {
		for _, r := range s.records(t) {
			r.Trial = len(all)
			all = append(all, r)
		}
	}
	return summarize(t, all)
}

func TestBottlenecksAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("short: simulates a dozen sweeps")
	}
	idle := 0.2
	for name, c := range map[string]struct {
		sweeps []held
		want   curves.Bottleneck
		better string
	}{
		"one connection, and four carry more": {[]held{{"grpc:conn=shared", 1, 4, idle, idle}, {"grpc:conn=pool:4", 4, 16, idle, idle}}, curves.OnConnection, "grpc:conn=pool:4"},
		"one connection, and nothing beside":  {[]held{{"grpc", 1, 4, idle, idle}}, curves.MaybeConnection, ""},
		"four carry no more, the client is busy": {
			[]held{{"grpc:conn=shared", 1, 4, 0.97, 0.5}, {"grpc:conn=pool:4", 4, 4, 0.97, 0.5}}, curves.OnClientCPU, "grpc:conn=pool:4",
		},
		"the server is busy":          {[]held{{"grpc", 1, 4, 0.7, 0.97}}, curves.OnServerCPU, ""},
		"both are mostly":             {[]held{{"grpc", 1, 4, 0.7, 0.8}}, curves.OnBothCPUs, ""},
		"it follows":                  {[]held{{"grpc", 1, 32, idle, idle}}, curves.NoBottleneck, ""},
		"a connection each, and held": {[]held{{"tcp", 32, 4, idle, idle}}, curves.NoBottleneck, ""},
		"another stack is no rival":   {[]held{{"grpc", 1, 4, idle, idle}, {"tcp", 32, 32, idle, idle}}, curves.MaybeConnection, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := sweeps(t, c.sweeps...)
			if !s.IsSweep() {
				t.Error("it is not taken for a sweep")
			}
			var found *curves.Scaling
			for i := range s.Scalings {
				if s.Scalings[i].Variant == c.sweeps[0].variant {
					found = &s.Scalings[i]
				}
			}
			if found == nil {
				t.Fatalf("no curve of %s among %d", c.sweeps[0].variant, len(s.Scalings))
			}
			if d := found.Diagnosis; d.Bottleneck != c.want || d.Better != c.better || d.Clients != 32 {
				t.Errorf("%+v, want %q and %q", d, c.want, c.better)
			}
		})
	}
}

func TestScalingHoldsTheIdealLine(t *testing.T) {
	s := sweeps(t, held{"grpc", 1, 4, 0.2, 0.2})
	c := s.Scalings[0]
	last := c.Points[len(c.Points)-1]
	if last.Clients != 32 || math.Abs(*last.Ideal/320_000-1) > 0.03 || math.Abs(*last.Share-4.0/32) > 0.01 {
		t.Errorf("at 32 callers %+v, want an ideal of 320,000 and an eighth of it", last)
	}
	if c.Law == nil || math.Abs(*last.Law/last.Throughput.Value-1) > 0.2 {
		t.Errorf("the law gives %v of %v", *last.Law, last.Throughput.Value)
	}
	echoes := saturating(0.01, 3, 10, 25).records(t)
	if s := summarize(t, echoes); len(s.Scalings) != 0 || s.IsSweep() {
		t.Error("a comparison of echoes is taken for a sweep")
	}
	for _, r := range echoes {
		r.Cell.Workload = "ping"
	}
	few := summarize(t, echoes)
	if c := few.Scalings[0]; c.Law != nil || !strings.Contains(c.Reason, "at least") || c.Diagnosis.Bottleneck != curves.BottleneckUnknown {
		t.Errorf("two loads without one alone give %+v", c)
	}
}
