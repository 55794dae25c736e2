package report

import (
	"math"
	"slices"
	"strconv"
	"testing"
	"time"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/curves"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// fixtureRun is a run such as the kernel study gives: three stacks at five sizes
// and five concurrencies, a dense sweep, a limit; with a cell that is invalid,
// one that failed, and long warnings. Its figures follow a formula, so that a
// picture of them looks like one of measurements.
func fixtureRun(t *testing.T) *Run {
	t.Helper()
	summary := &analysis.Summary{
		Name:     "kernel-study",
		Title:    "Which wire for a small service on one machine?",
		Question: "How do plain TCP, REST over HTTP/1.1 and gRPC differ in latency, throughput and tail on this machine, and where do they break?",
		Started:  time.Date(2026, 11, 21, 5, 31, 0, 0, time.UTC),
		Status:   record.Done,
		Seed:     18446744073709551557, // more than a double holds
		Planned:  276, Done: 276, Invalid: 3, Failed: 3,
		Command: []string{"wirelab", "run", "kernel-study", "--quick", "-o", "results/kernel study"},
		Host:    fixtureHost(),
		Warnings: []string{
			"The server and the clients share a physical core (CPUs 0 and 1 are SMT siblings): there are not enough cores to keep them apart.",
			"The priority could not be raised (setpriority: permission denied); run as root or grant CAP_SYS_NICE, or accept that other processes may take the CPU in the middle of a trial.",
		},
	}
	for _, bytes := range []int{64, 256, 1 << 10, 4 << 10, 64 << 10} {
		for _, clients := range []int{1, 10, 50, 100, 500} {
			for _, stack := range []string{"tcp", "rest", "grpc"} {
				summary.Cells = append(summary.Cells, fixtureCell("matrix", stack, bytes, clients))
			}
		}
	}
	for _, kib := range []float64{0.5, 1, 1.5, 2, 3, 4, 6, 8, 12, 16, 24, 32, 64} {
		for _, stack := range []string{"tcp", "rest", "grpc"} {
			summary.Cells = append(summary.Cells, fixtureCell("sweep", stack, int(kib*1024), 1))
		}
	}
	plain := fixtureCell("tail", "tcp", 64<<10, 500)
	limited := fixtureCell("tail", "tcp:inflight=50", 64<<10, 500)
	limited.Load.InFlightLimit = 50
	waiting := fixtureLatencies(41000, 2.1, plain.Requests)
	whole := fixtureLatencies(44000, 1.9, plain.Requests)
	limited.Service, limited.Response, limited.Wait = fixtureLatencies(2900, 14, plain.Requests), &whole, &waiting
	limited.P99OverP50 = fixtureFigure(1.9)
	summary.Cells = append(summary.Cells, plain, limited)

	spoil(summary.Cells)
	fixtureJudgements(summary)
	return &Run{
		Summary: summary,
		Records: fixtureRecords(t),
		Answer: []string{
			"Proven fastest: tcp at 62 of 73 points, undecided at 11 of 73 points.",
			"64 B, 1 client: tcp 58.2 µs; rest 1.7× (1.62 to 1.78), grpc 1.96× (1.9 to 2.02)",
			"Do: choose tcp up to 16 KiB, tcp or rest from 32 KiB (best mean response time).",
			"Trust: 271 of 276 trials valid; generator-bound in 9",
		},
		Advice: []string{
			"tcp is the fastest of the three at 62 of 73 points: at 64 B with one client its mean is 0.51 (0.49 to 0.53) of gRPC's.",
			"From about 21 KiB on, rest answers one client sooner than tcp; the crossover is gradual, so do not choose by it.",
			"grpc holds its tail best: at 64 KiB and 500 clients its P99 is 1.4 times its P50, tcp's is 44 times. A limit of 50 requests in flight takes tcp to 1.9 for its callers, at 4 % less throughput.",
		},
		Directory: "results/kernel study",
	}
}

func fixtureHost() map[string]any {
	return map[string]any{
		"os": "linux", "arch": "amd64", "kernel": "6.18.2", "cpu_model": "AMD EPYC 9V74 <80-Core>", "cores": 2.0,
		"memory_bytes": 8.2e9, "virtualisation": "kvm", "governor": "performance", "clocksource": "tsc",
		"transparent_huge_pages": "madvise", "timer_hz": 250.0,
		"mitigations": map[string]any{"spectre_v2": "Mitigation: Retpolines", "meltdown": "Not affected"},
		"tcp":         map[string]any{"congestion_control": "cubic", "receive_memory": "4096 131072 6291456"},
		"go":          map[string]any{"version": "go1.26.8", "gomaxprocs": 2.0},
		"missing":     []any{"timer slack: permission denied"},
	}
}

var fixtureConnections = map[string]string{"tcp": "per-worker", "rest": "pool", "grpc": "shared"}

// fixtureCost says how each stack behaves: its time for a call at rest and for a byte, and the
// number of clients from which on calls queue.
var fixtureCost = map[string]struct{ base, perByte, knee, tail float64 }{
	"tcp":             {95, 0.0048, 9, 1.9},
	"rest":            {172, 0.0011, 8, 2.6},
	"grpc":            {186, 0.0062, 14, 1.25},
	"tcp:inflight=50": {95, 0.0048, 9, 1.5},
}

func fixtureCell(part, variant string, bytes, clients int) matrix.Cell {
	cost := fixtureCost[variant]
	stack := variant
	if len(variant) > 3 && variant[:4] == "tcp:" {
		stack = "tcp"
	}
	mean := (cost.base + cost.perByte*float64(bytes)) * math.Max(1, float64(clients)/cost.knee)
	tail := 1.5 + cost.tail*math.Log10(float64(clients)+1)
	if clients > 50 && stack == "tcp" {
		tail *= math.Max(1, math.Sqrt(float64(bytes)/1024))
	}
	tail = max(tail, 1.4)
	server, client := fixtureFigure(mean/3/math.Max(1, float64(clients)/20)), fixtureFigure(mean/4/math.Max(1, float64(clients)/20))
	cell := matrix.Cell{
		Cell: record.Cell{
			Part: part, Stack: stack, Variant: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: bytes, ResponseBytes: bytes}, Clients: clients},
			Connection: fixtureConnections[stack],
			Load:       record.Load{Model: "closed", RequestsPerClient: 1000},
		},
		Trials: 3, Valid: 3,
		Requests:   int64(3000 * clients),
		Throughput: fixtureFigure(float64(clients) / mean * 1e6),
		Service:    fixtureLatencies(mean/(1+tail/20), tail, int64(3000*clients)),
		P99OverP50: fixtureFigure(tail),
		InFlight:   fixtureFigure(float64(clients) * 0.98),
		WarmUp:     fixtureFigure(250),
		ClientCPU:  &client, ServerCPU: &server, Opened: matrix.Figure{Value: float64(clients)},
		Connections: matrix.Connections{Want: clients},
	}
	cell.Key = cell.Cell.Key()
	for trial := range 3 {
		wobble := 1 + 0.03*float64(trial-1)
		cell.Repeats = append(cell.Repeats, matrix.Repeat{
			Trial: trial + 1, Valid: true, Throughput: new(cell.Throughput.Value * wobble),
			P50: new(cell.Service.P50.Value / wobble), P99: new(cell.Service.P99.Value / wobble), MeanUS: new(cell.Service.Mean.Value / wobble),
		})
	}
	for _, quantile := range []float64{0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.92, 0.95, 0.97, 0.99, 0.995, 0.998, 0.999, 1} {
		if quantile < 1 && cell.Requests < stats.LeastCountForQuantile(quantile) {
			continue
		}
		cell.Curve = append(cell.Curve, matrix.CurvePoint{quantile, fixtureQuantile(cell.Service.P50.Value, tail, quantile)})
	}
	for step := range 40 {
		us := math.Exp2((math.Floor(math.Log2(cell.Service.P50.Value)*12) + float64(step) - 9.5) / 12)
		away := math.Log2(us / cell.Service.P50.Value)
		cell.Density = append(cell.Density, matrix.CurvePoint{us, 0.12 * math.Exp(-away*away*4)})
	}
	for stretch := range 30 {
		wobble := 1 + 0.04*math.Sin(float64(stretch))
		cell.Course = append(cell.Course, matrix.CoursePoint{Seconds: 0.1 * (float64(stretch) + 0.5), Throughput: cell.Throughput.Value * wobble, MeanUS: new(cell.Service.Mean.Value / wobble), P99US: new(3 * cell.Service.Mean.Value / wobble), ClientCores: new(0.4 * wobble), ServerCores: new(0.8 * wobble)})
	}
	return cell
}

func fixtureFigure(value float64) matrix.Figure {
	return matrix.Figure{Value: value, Interval: &matrix.Interval{Low: value * 0.94, High: value * 1.08, Confidence: 0.95}}
}

func fixtureSurvival(requests, succeeded int64) matrix.Survival {
	share := float64(succeeded) / float64(requests)
	return matrix.Survival{Trials: 3, Requests: requests, Succeeded: succeeded, Share: &share}
}

func fixtureLatencies(p50, tail float64, requests int64) matrix.Latencies {
	at := func(quantile float64) matrix.Figure {
		if requests < stats.LeastCountForQuantile(quantile) {
			return matrix.Figure{Value: math.NaN()}
		}
		return fixtureFigure(fixtureQuantile(p50, tail, quantile))
	}
	return matrix.Latencies{
		Mean: fixtureFigure(p50 * (1 + tail/20)),
		P50:  at(0.5), P90: at(0.9), P95: at(0.95), P99: at(0.99), P999: at(0.999), P9999: at(0.9999),
		Max: matrix.Figure{Value: fixtureQuantile(p50, tail, 0.99999)},
	}
}

// fixtureQuantile grows with the nines, such that P99 is tail times the median.
func fixtureQuantile(p50, tail, quantile float64) float64 {
	nines := -math.Log10(1 - math.Min(quantile, 0.99999))
	return p50 * math.Pow(tail, (nines-math.Log10(2))/(2-math.Log10(2)))
}

// spoil makes one cell invalid, one partly so, one failed, and one unmeasured in
// its CPU time.
func spoil(cells []matrix.Cell) {
	find := func(key string) *matrix.Cell {
		return &cells[slices.IndexFunc(cells, func(c matrix.Cell) bool { return c.Key == key })]
	}
	invalid := find("matrix/rest/echo/64KiB/c=500")
	invalid.Valid, invalid.Requests = 0, 0
	for i := range invalid.Repeats {
		invalid.Repeats[i].Valid = false
	}
	invalid.Findings = []matrix.Finding{
		{Name: "generator-bound", Level: record.Invalid, Trials: 3, Detail: "the client process used 99 % of the CPU that it was given (limit 90 %): the figures are the generator's, not the server's"},
		{Name: "noisy-neighbour", Level: record.Warning, Trials: 1, Detail: "other processes took 7 % of the CPU time in the window (limit 5 %)"},
	}
	invalid.Warnings = []string{"443 of 500 connections were opened within the window, because the pool had closed them for being idle"}
	blankFigures(invalid)

	failed := find("matrix/grpc/echo/64KiB/c=500")
	failed.Valid, failed.Requests, failed.Repeats = 0, 0, nil
	failed.Failure = "server worker grpc died: exit status 2; it said last: fatal error: runtime: out of memory <at mmap> & gave up"
	failed.ClientCPU, failed.ServerCPU = nil, nil
	blankFigures(failed)

	partly := find("matrix/tcp/echo/1KiB/c=100")
	partly.Valid = 2
	partly.Repeats[1].Valid = false
	partly.Findings = []matrix.Finding{{Name: "noisy-neighbour", Level: record.Warning, Trials: 1, Detail: "other processes took 6 % of the CPU time in the window (limit 5 %)"}}
	partly.Errors = 17
	partly.ErrorKinds = []record.ErrorCount{{Code: "DeadlineExceeded", Count: 17, Example: "context deadline exceeded after 10s"}}
	partly.Survival = fixtureSurvival(partly.Requests, partly.Requests-17)
	partly.Survival.Failures = partly.ErrorKinds

	unmeasured := find("matrix/rest/echo/64B/c=1")
	unmeasured.ClientCPU, unmeasured.ServerCPU = nil, nil
	unmeasured.P99OverP50.Interval = nil
}

// blankFigures sets the figures that analysis leaves empty in a cell without a valid trial. The NaN
// is a test that it does not reach JSON.
func blankFigures(c *matrix.Cell) {
	c.Throughput, c.InFlight, c.WarmUp, c.Opened = matrix.Figure{}, matrix.Figure{}, matrix.Figure{}, matrix.Figure{}
	c.Service = matrix.Latencies{}
	c.P99OverP50 = matrix.Figure{Value: math.NaN()}
	c.Curve, c.Density, c.Course = nil, nil, nil
}

func fixtureJudgements(s *analysis.Summary) {
	for _, bytes := range []int{64, 256, 1 << 10, 4 << 10, 64 << 10} {
		for _, variant := range []string{"tcp", "rest", "grpc"} {
			knee := curves.Knee{Part: "matrix", Variant: variant, Connection: fixtureConnections[variant], Payload: record.Payload{RequestBytes: bytes}, By: "throughput", Found: true, Clients: &matrix.Figure{
				Value: fixtureCost[variant].knee, Interval: &matrix.Interval{Low: 6, High: 18, Confidence: 0.95},
			}}
			tail := curves.Knee{Part: "matrix", Variant: variant, Connection: fixtureConnections[variant], Payload: record.Payload{RequestBytes: bytes}, By: "tail", Reason: "P99/P50 grows evenly with the concurrency: no bend stands out of its noise"}
			if variant == "tcp" {
				tail = curves.Knee{Part: "matrix", Variant: variant, Connection: fixtureConnections[variant], Payload: record.Payload{RequestBytes: bytes}, By: "tail", Found: true, Clients: &matrix.Figure{
					Value: 73, Interval: &matrix.Interval{Low: 50, High: 100, Confidence: 0.95},
				}}
			}
			s.Knees = append(s.Knees, knee, tail)
			if variant != "tcp" {
				s.Comparisons = append(s.Comparisons, compare.Comparison{
					Part: "matrix", A: "tcp", B: variant, Place: record.Place{Workload: "echo", Payload: record.Payload{RequestBytes: bytes, ResponseBytes: bytes}, Clients: 1},
					Load: record.Load{Model: "closed", RequestsPerClient: 1000}, Metric: matrix.Mean, Pairs: 3,
					Ratio: fixtureFigure(0.55), P: math.NaN(), Verdict: compare.Faster, Margin: 0.05,
				})
			}
		}
	}
	s.Crossovers = []curves.Crossover{
		{Part: "sweep", A: "tcp", B: "rest", Clients: 1, Bytes: fixtureFigure(20800), Kind: "gradual", SizeBefore: 16 << 10, SizeAfter: 24 << 10, Before: 0.9, After: 1.06},
		{Part: "sweep", A: "grpc", B: "rest", Clients: 1, Bytes: matrix.Figure{Value: 2500}, Kind: "indistinct", SizeBefore: 2 << 10, SizeAfter: 3 << 10, Before: 0.999, After: 1.002},
	}
	s.Limits = []compare.LimitEffect{{
		Part: "tail", Without: "tcp", With: "tcp:inflight=50", Payload: record.Payload{RequestBytes: 64 << 10}, Clients: 500, Limit: 50,
		ThroughputRatio: fixtureFigure(0.96), MeanServiceRatio: fixtureFigure(0.11), MeanResponseRatio: fixtureFigure(1.02),
		TailWithout: 53, TailWithService: 14, TailWithResponse: 1.9,
		P99WithoutUS: 451000, P99WithUS: 83600,
	}}
	for _, variant := range []string{"tcp", "rest", "grpc"} {
		need := curves.WarmUpNeed{
			Part: "matrix", Variant: variant, Payload: record.Payload{RequestBytes: 64}, Clients: 50, Trials: 3, Settled: 3,
			Needed: new(fixtureFigure(140)), NeededCalls: new(fixtureFigure(4100)), FirstOver: new(fixtureFigure(1.6)),
		}
		if variant == "grpc" {
			need.Settled, need.Needed, need.NeededCalls, need.FirstOver = 0, nil, nil, nil
		}
		s.WarmUps = append(s.WarmUps, need)
	}
}

// fixtureRecords are the trials of two cells, one trial of them invalid, and a
// third cell with a limit.
func fixtureRecords(t *testing.T) []*record.Record {
	t.Helper()
	var records []*record.Record
	for trial, variant := range []string{"tcp", "grpc", "tcp", "grpc", "tcp:buffers=pooled,inflight=50"} {
		r := &record.Record{
			Version: record.Version, Trial: trial, Repeat: trial/2 + 1,
			Cell:        fixtureCell("matrix", "tcp", 64, 50).Cell,
			Started:     time.Date(2026, 11, 21, 5, 31, 2*trial, 0, time.UTC),
			WindowNS:    int64(time.Second),
			Measurement: record.Measurement{Requests: 1000, Completed: 1000, Service: fixtureDistribution(t, time.Duration(100+trial)*time.Microsecond)},
			Client:      record.Process{GoMaxProcs: 1},
		}
		r.Cell.Variant = variant
		if trial == 3 {
			r.Checks = []record.Check{{Name: "generator-bound", Level: record.Invalid, Detail: "the client used all of its\nCPU"}}
		}
		if trial == 4 {
			response, wait := fixtureDistribution(t, 400*time.Microsecond), fixtureDistribution(t, 300*time.Microsecond)
			r.Response, r.Wait, r.Cell.Load.InFlightLimit = &response, &wait, 50
		}
		records = append(records, r)
	}
	return records
}

func fixtureDistribution(t *testing.T, median time.Duration) latency.Distribution {
	t.Helper()
	recorder := latency.NewRecorder()
	defer recorder.Close()
	for i := range 1000 {
		recorder.Record(int64(median) / 500 * int64(i+1))
	}
	distribution, err := latency.NewHistogram(recorder).Distribution()
	if err != nil {
		t.Fatalf("fixture of %s: %v", strconv.Quote(median.String()), err)
	}
	return distribution
}
