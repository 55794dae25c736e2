package advice

import (
	"math"
	"slices"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// What is not known for want of requests is in no sentence, and the tail says so.
func TestTailsOfTooFewRequests(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	s.Comparisons = slices.DeleteFunc(s.Comparisons, func(c compare.Comparison) bool { return c.Metric == matrix.P99 })
	unknown := matrix.Figure{Value: math.NaN()}
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Requests, c.Service.P99, c.P99OverP50 = 400*int64(c.Valid), unknown, unknown
	}
	nan := math.NaN()
	s.Limits = []compare.LimitEffect{{
		Without: "tcp", Clients: 500, Limit: 50, MeanServiceRatio: matrix.Figure{Value: 0.1}, MeanResponseRatio: matrix.Figure{Value: 1},
		ThroughputRatio: matrix.Figure{Value: 0.98}, TailWithout: nan, TailWithService: 2, TailWithResponse: 2, P99WithoutUS: nan, P99WithUS: 3,
	}}
	burst := matrix.Cell{
		Cell:  record.Cell{Part: "burst", Variant: "tcp", Place: record.Place{Clients: 10}, Load: record.Load{Model: "burst", Burst: 10}},
		Valid: 1, Trials: 1, Requests: 10, Drain: &matrix.Figure{Value: 1000}, Survival: matrix.Survival{Requests: 10, Succeeded: 10},
	}
	burst.Service.P50 = unknown
	s.Cells = append(s.Cells, burst)
	text := strings.Join(Advise(s), "\n")
	holds(
		t, text,
		"compare: not measured: P99, which needs 1,000 requests per trial; measure longer.",
		"from the actual send, a call takes 0.1× as long as without the limit; with the wait for the limit, it takes 1× as long; throughput is 0.98× as high.",
		"a burst of 10 was answered in 1 ms; no request was lost",
	)
	holdsNone(t, text, "NaN")
	holdsNone(t, text, "P99, 64 B")
}

func TestTheTailNamesAStall(t *testing.T) {
	s := &analysis.Summary{}
	usual().addTo(s)
	holdsNone(t, strings.Join(Advise(s), "\n"), "stalled")
	for i := range s.Cells {
		s.Cells[i].Service.Stalls = []matrix.Stall{{Percentile: "p99", Repeats: []int{2}, Trials: 3, Longest: 40_000, Without: 1100}}
	}
	holds(t, strings.Join(Advise(s), "\n"), "(1 of 3 trials stalled, for up to 40 ms, and P99 of the other trials is 1.1 ms)")
}
