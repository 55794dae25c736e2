package analysis

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A server that takes 20 µs for a call of 10 MB takes 2 ms for a GB, and 1,000 calls a
// second carry 10 GB.
func TestBulkIsForAGigabyte(t *testing.T) {
	run := synthetic{seed: 1, repeats: 3, truths: []truth{{variant: "grpc", clients: 1, mean: time.Millisecond}}}
	carrying := func(bytes float64) *matrix.Bulk {
		records := run.records(t)
		for _, r := range records {
			r.Wire = &record.Wire{Calls: 1, Request: record.WireBytes{MessageBytes: 1000}, Response: record.WireBytes{MessageBytes: bytes - 1000}}
		}
		return summarize(t, records).Cells[0].Bulk
	}
	b := carrying(10e6)
	if b == nil || b.ServerCPU == nil || b.ServerCPU.Interval == nil {
		t.Fatalf("calls of 10 MB: %+v", b)
	}
	within(t, "seconds of CPU time a GB", b.ServerCPU.Value, 0.002, 0.01)
	within(t, "GB/s", b.Rate.Value, 10, 0.01)
	if b := carrying(1000); b != nil {
		t.Errorf("calls of 1,000 bytes are bulk: %+v", b)
	}
}
