package report

import (
	"math"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fixtureLoads is a run with every load that is not a plain closed loop: a sweep
// over the calls in flight, searches, bursts, a sustained load and a ramp.
func fixtureLoads(t *testing.T) *Run {
	t.Helper()
	s := &analysis.Summary{
		Name: "loads", Title: "What is said and when?", Question: "How do the loads look?",
		Started: time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC),
		Status:  record.Done, Seed: 5, Planned: 90, Done: 90,
		Command: []string{"wirelab", "run", "loads"}, Host: fixtureHost(),
	}
	fixtureSweep(s, "grpc:conn=shared", 4)
	fixtureSweep(s, "grpc:conn=pool:4", 14)
	s.Scalings[0].Diagnosis = curves.Diagnosis{
		Bottleneck: curves.OnConnection, Clients: 48, Share: new(0.09), Connections: matrix.Figure{Value: 1}, InFlight: matrix.Figure{Value: 48},
		PerWrite: &matrix.Figure{Value: 9.5}, Better: "grpc:conn=pool:4", BetterConnections: 4, Gain: &matrix.Figure{Value: 3.1}, Rivals: 1,
	}
	s.Scalings[1].Law, s.Scalings[1].Reason = nil, "the trials do not agree on a law"
	s.Scalings[1].Diagnosis = curves.Diagnosis{Bottleneck: curves.NoBottleneck, Clients: 48, Share: new(0.29), Connections: matrix.Figure{Value: 4}, InFlight: matrix.Figure{Value: 48}}
	for i := range s.Scalings[1].Points {
		s.Scalings[1].Points[i].Law = nil
	}
	for _, variant := range []string{"grpc", "rest-json"} {
		s.Cells = append(s.Cells,
			fixtureLoaded(variant, record.Load{Model: "search", Goal: "p99<10ms", DurationNS: 1e9}),
			fixtureLoaded(variant, record.Load{Model: "burst", Burst: 1000}),
			fixtureLoaded(variant, record.Load{Model: "sustained", RatePerSecond: 50, DurationNS: 60e9}),
			fixtureLoaded(variant, record.Load{Model: "ramp", RatePerSecond: 100, RampTo: 4000, DurationNS: 30e9, Arrivals: "constant"}))
	}
	return &Run{Summary: s, Advice: []string{"grpc keeps p99<10ms at 4,000 to 4,040/s."}, Directory: "results/loads"}
}

// fixtureSweep adds a variant whose throughput follows the calls in flight up to
// a number of them.
func fixtureSweep(s *analysis.Summary, variant string, upTo float64) {
	sweep := curves.Scaling{Part: "ping", Variant: variant, Connection: variant[len("grpc:conn="):], Workload: "ping", Law: &curves.ScalabilityLaw{
		Ideal: fixtureFigure(11_000), Contention: fixtureFigure(0.2), Coherency: matrix.Figure{Value: 0.001}, Misfit: 0.03, Peak: &matrix.Figure{Value: 31},
	}}
	for _, clients := range []int{1, 2, 4, 8, 12, 16, 24, 32, 48} {
		n := float64(clients)
		cell := fixtureCell("ping", "grpc", 0, clients)
		cell.Variant, cell.Workload, cell.Connection = variant, "ping", sweep.Connection
		cell.Throughput = fixtureFigure(11_000 * n / (1 + n/upTo))
		cell.Key = cell.Cell.Key()
		s.Cells = append(s.Cells, cell)
		sweep.Points = append(sweep.Points, curves.ScalingPoint{
			Clients: clients, Throughput: cell.Throughput, Ideal: new(11_000 * n), Share: new(1 / (1 + n/upTo)), Law: new(11_000 * n / (1 + n/upTo) * 1.02),
		})
	}
	s.Scalings = append(s.Scalings, sweep)
}

// fixtureLoaded is a cell under a load, with what that load alone has.
func fixtureLoaded(variant string, load record.Load) matrix.Cell {
	capacity := map[string]float64{"grpc": 4000, "rest-json": 2500}[variant]
	c := fixtureCell(load.Model, "grpc", 0, 100)
	c.Stack, c.Variant, c.Workload, c.Load = variant, variant, "users", load
	c.Key = c.Cell.Key()
	c.Survival = fixtureSurvival(3000, 3000)
	response := c.Service
	c.Response = &response
	c.Course = nil
	switch load.Model {
	case "search":
		c.Search = &matrix.Search{
			Percentile: 99, LimitUS: 10_000, Kept: fixtureFigure(capacity), Missed: fixtureFigure(1.01 * capacity), Threshold: fixtureFigure(1.005 * capacity),
			Knee: matrix.RateKnee{Found: true, Rate: new(1.01 * capacity), Low: &capacity, High: new(1.02 * capacity), Confidence: new(0.95)},
		}
		if variant == "rest-json" {
			c.Search.Knee = matrix.RateKnee{Reason: "a knee needs 5 rates with 2 tries each; the search has 4 such rates"}
		}
		for _, share := range []float64{0.8, 1, 1.01, 1.02, 1.06, 1.12, 1.25} {
			for try := range 2 {
				us := 7000 + 1000*float64(try) + 1.2e6*math.Max(0, share-1)
				c.Search.Steps = append(c.Search.Steps, matrix.SearchStep{Repeat: 1, Offered: share * capacity, Achieved: math.Min(share, 1) * capacity, Microseconds: &us, Kept: us < 10_000})
			}
		}
	case "burst":
		drain := fixtureFigure(1000 / capacity * 1e6)
		c.Drain = &drain
		for i := range c.Curve {
			c.Curve[i][1] = 10_000 + c.Curve[i][0]*drain.Value
		}
	case "sustained":
		if variant == "rest-json" {
			c.Survival = fixtureSurvival(3000, 2998)
		}
		fallthrough
	case "ramp":
		for place := range 60 {
			share := (float64(place) + 0.5) / 60
			offered := load.RatePerSecond + share*math.Max(0, load.RampTo-load.RatePerSecond)
			c.Course = append(c.Course, matrix.CoursePoint{
				Seconds: share * float64(load.DurationNS) / 1e9, Offered: new(offered), Throughput: math.Min(offered, capacity),
				MeanUS: new(10_400 + math.Max(0, offered-capacity)*40),
			})
		}
	}
	return c
}
