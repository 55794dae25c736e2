package advice

import (
	"math"
	"strings"
	"testing"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/advice/rank"
	"wirelab.dev/internal/judge/analysis"
	"wirelab.dev/internal/judge/analysis/compare"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// searching is two variants whose highest rates were searched for.
func searching() *analysis.Summary {
	s := &analysis.Summary{}
	sampleRun{
		part: "search", sizes: both(64), clients: []int{100}, variants: []string{"rest", "grpc"}, trials: 3, model: "search",
		mean: func(string, rank.Point) float64 { return 1000 }, p99: func(string, rank.Point) float64 { return 2000 },
	}.addTo(s)
	for i := range s.Cells {
		c := &s.Cells[i]
		c.Load.Goal = "p99<10ms"
		c.Search = &matrix.Search{Percentile: 99, LimitUS: 10_000, Kept: matrix.Figure{Value: 4000}, Missed: matrix.Figure{Value: 4040}, Threshold: matrix.Figure{Value: math.NaN()}}
		c.Search.Knee = matrix.RateKnee{Found: true, Rate: new(4020.0), Low: new(4000.0), High: new(4100.0), Confidence: new(0.95)}
		if c.Variant == "grpc" {
			c.Search.Kept = matrix.Figure{Value: 6000, Interval: &matrix.Interval{Low: 5900, High: 6100, Confidence: 0.95}}
			c.Search.Missed = matrix.Figure{Value: 6060}
			c.Search.Threshold = matrix.Figure{Value: 6030, Interval: &matrix.Interval{Low: 5800, High: 6300, Confidence: 0.95}}
			c.Search.Knee = matrix.RateKnee{Reason: "a knee needs 5 rates with 2 tries each; the search has 4 such rates"}
		}
	}
	s.Comparisons = []compare.Comparison{{
		Part: "search", A: "rest", B: "grpc", Place: record.Place{Payload: record.Payload{RequestBytes: 64, ResponseBytes: 64}, Clients: 100}, Metric: matrix.Throughput, Pairs: 3,
		Ratio:   matrix.Figure{Value: 0.667, Interval: &matrix.Interval{Low: 0.625, High: 0.714, Confidence: 0.95}},
		Verdict: compare.Slower,
	}}
	return s
}

func TestSearching(t *testing.T) { golden(t, "searching", searching()) }

func TestRatesThatNobodyCanTellApart(t *testing.T) {
	s := searching()
	s.Comparisons[0].Verdict = compare.Undecided
	if text := strings.Join(Advise(s), "\n"); !strings.Contains(text, "grpc 1.5× undecided (") {
		t.Errorf("no doubt about an undecided ratio of rates:\n%s", text)
	}
}

// loaded is cells of one load model, each with what it lost.
func loaded(load record.Load, lost ...int64) *analysis.Summary {
	s := &analysis.Summary{Planned: 3 * len(lost), Done: 3 * len(lost)}
	for i, n := range lost {
		c := matrix.Cell{
			Cell:   record.Cell{Part: load.Model, Variant: []string{"grpc", "rest-json"}[i%2], Place: record.Place{Workload: "users", Clients: 200 + i/2}, Load: load},
			Trials: 3, Valid: 3, WarmUp: matrix.Figure{Value: 10},
			Service:  matrix.Latencies{Mean: matrix.Figure{Value: 60_000}, P50: matrix.Figure{Value: 60_000 + float64(i)*1000}, P99: matrix.Figure{Value: 120_000}},
			Survival: matrix.Survival{Trials: 3, Requests: 3000, Succeeded: 3000 - n},
		}
		if n > 0 {
			c.Survival.Failures = []record.ErrorCount{{Class: "refused", Code: "Unavailable", Count: n}}
		}
		if load.Burst > 0 {
			c.Drain = &matrix.Figure{Value: 125_000 + float64(i)*1000}
		}
		s.Cells = append(s.Cells, c)
	}
	return s
}

func TestLoadsInWords(t *testing.T) {
	burst := record.Load{Model: "burst", Burst: 1000}
	steady := record.Load{Model: "sustained", RatePerSecond: 50, DurationNS: 60e9}
	for name, c := range map[string]struct {
		summary *analysis.Summary
		want    string
	}{
		"a burst": {
			loaded(burst, 0, 17),
			"grpc: a burst of 1,000 was answered in 125 ms; half were answered within 60 ms; no request was lost.\n" +
				"rest-json: a burst of 1,000 was answered in 126 ms; half were answered within 61 ms; 17 of 3,000 requests were lost (refused).",
		},
		"many bursts": {
			loaded(burst, 0, 0, 0, 0, 17, 0),
			"Bursts of 1,000, answered first by: grpc in 3; grpc with 202 clients: 17 of 3,000 requests were lost (refused).",
		},
		"a sustained load": {
			loaded(steady, 0, 1),
			"Sustained 50/s: answered rest-json 2,999 of 3,000 (refused).",
		},
		"many sustained loads": {
			loaded(steady, 0, 0, 0, 0, 0, 0),
			"Sustained 50/s: every request answered in 6 cells.",
		},
		"many, and one lost some": {
			loaded(steady, 0, 0, 0, 0, 0, 2),
			"Sustained 50/s: answered rest-json with 202 clients 2,998 of 3,000 (refused).",
		},
	} {
		t.Run(name, func(t *testing.T) {
			if text := strings.Join(Advise(c.summary), "\n"); !strings.Contains(text, c.want) {
				t.Errorf("want\n%s\nin\n%s", c.want, text)
			}
		})
	}
}

func TestCellsBeyondCapacityInWords(t *testing.T) {
	s := loaded(record.Load{Model: "open", RatePerSecond: 1040}, 0, 0)
	for i := range s.Cells {
		s.Cells[i].Valid = 0
	}
	s.Cells[0].Capacity = &matrix.Figure{Value: 1000}
	want := "Beyond capacity, so response times only show how long the overload lasted: grpc was offered 1,040/s and can serve about 1,000/s."
	if got := overloadSentence(s); len(got) != 1 || got[0] != want {
		t.Errorf("%q, want %q", got, want)
	}
	if text := strings.Join(Advise(s), "\n"); !strings.Contains(text, want) {
		t.Errorf("the advice does not say so:\n%s", text)
	}
}
