package load

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
)

// BenchmarkEngine is the engine's own cost a request: a closed loop over a
// stack that answers at once. It must stay at most 300 ns and 0 allocations.
func BenchmarkEngine(b *testing.B) { benchmarkEngine(b, Plan{}) }

// BenchmarkEngineLive shows what live figures cost a call beside that.
func BenchmarkEngineLive(b *testing.B) {
	benchmarkEngine(b, Plan{Live: true, Report: func(live.Progress) {}})
}

// BenchmarkEngineIntervals shows what intervals cost a call beside that.
func BenchmarkEngineIntervals(b *testing.B) {
	benchmarkEngine(b, Plan{Intervals: &Intervals{Every: time.Second, Report: func(Interval) {}}})
}

func benchmarkEngine(b *testing.B, p Plan) {
	b.ReportAllocs()
	p.Callers, p.Requests = []Caller{emptyCaller{}}, max(b.N, 1000)
	r, err := Run(b.Context(), p)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.End-r.Begin)/float64(r.Requests), "ns/request")
}

// BenchmarkOpenLoop keeps a constant schedule, and reports how late it sent: at 100,000 a second the median must stay
// under 5 µs. At 1,000 a second, waiting must leave most of a CPU free: spun is the share
// of a CPU that it takes.
func BenchmarkOpenLoop(b *testing.B) {
	for _, rate := range []struct {
		perSecond float64
		clients   int
	}{{1000, 50}, {100_000, 2}} {
		b.Run(fmt.Sprint(rate.perSecond), func(b *testing.B) {
			for b.Loop() {
				r, err := Run(b.Context(), Plan{
					Callers:  callers(rate.clients, emptyCaller{}),
					Duration: time.Second, Drain: time.Second,
					Open: &Arrivals{RatePerSecond: rate.perSecond},
				})
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(r.Pacing.SpunNS)/float64(r.End-r.Begin), "spun")
				b.ReportMetric(float64(r.Late.Quantile(0.5)), "late-p50-ns")
				b.ReportMetric(float64(r.Late.Quantile(0.99)), "late-p99-ns")
				b.ReportMetric(float64(r.Pacing.Queued)/float64(r.Requests), "queued")
			}
		})
	}
}

// The engine allocates for a trial, never for a request. (testing.AllocsPerRun
// would leave one processor to two clients that spin.)
func TestRequestsDoNotAllocate(t *testing.T) {
	for name, plan := range map[string]func(requests int) Plan{
		"closed loop": func(n int) Plan { return Plan{Callers: callers(2, emptyCaller{}), Requests: n} },
		"live": func(n int) Plan {
			return Plan{Callers: callers(2, emptyCaller{}), Requests: n, Live: true, Report: func(live.Progress) {}}
		},
		"intervals": func(n int) Plan {
			return Plan{Callers: callers(2, emptyCaller{}), Requests: n, Intervals: &Intervals{Every: time.Minute, Report: func(Interval) {}}}
		},
		"in-flight limit": func(n int) Plan {
			return Plan{Callers: callers(2, emptyCaller{}), Requests: n, InFlight: 1}
		},
		"open loop": func(n int) Plan {
			const rate = 50_000
			return Plan{
				Callers: callers(2, emptyCaller{}), Drain: time.Second, Open: &Arrivals{RatePerSecond: rate},
				Duration: time.Duration(n) * time.Second / rate,
			}
		},
	} {
		allocations := func(requests int) uint64 {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			r, err := Run(t.Context(), plan(requests))
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
			runtime.ReadMemStats(&after)
			return after.Mallocs - before.Mallocs
		}
		const more = 5000
		if few, many := allocations(100), allocations(100+more); many > few+more/10 {
			t.Errorf("%s: %v allocations for 100 requests, %v for %d more", name, few, many, more)
		}
	}
}
