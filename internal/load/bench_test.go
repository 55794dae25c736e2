package load

import (
	"testing"
	"time"
)

// BenchmarkEngine is the engine's own cost a request: a closed loop over a
// stack that answers at once. It must stay at most 300 ns and 0 allocations.
func BenchmarkEngine(b *testing.B) {
	b.ReportAllocs()
	r, err := Run(b.Context(), Plan{Callers: []Caller{atOnce{}}, Requests: max(b.N, 1000)})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(r.End-r.Begin)/float64(r.Requests), "ns/request")
}

// BenchmarkOpenLoop keeps a constant schedule of 100,000 a second, and reports
// how late it sent: the median must stay under 5 µs.
func BenchmarkOpenLoop(b *testing.B) {
	for b.Loop() {
		r, err := Run(b.Context(), Plan{
			Callers:  []Caller{atOnce{}, atOnce{}},
			Duration: time.Second, Drain: time.Second,
			Open: &Arrivals{RatePerSecond: 100_000},
		})
		if err != nil {
			b.Fatal(err)
		}
		b.ReportMetric(float64(r.Late.Quantile(0.5)), "late-p50-ns")
		b.ReportMetric(float64(r.Late.Quantile(0.99)), "late-p99-ns")
		b.ReportMetric(float64(r.Queued)/float64(r.Requests), "queued")
	}
}
