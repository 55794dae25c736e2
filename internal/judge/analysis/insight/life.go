package insight

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// A Life divides the time of a call into stages.
type Life struct {
	Calls  int     `json:"calls"`   // calls whose stages were separated
	Untold int64   `json:"untold"`  // calls whose stages could not be separated
	Mean   float64 `json:"mean_us"` // mean time of a call
	Stages []Stage `json:"stages"`  // stages in order of time; their times add up to the mean
	// Bare is the mean time of the same processes' calls without the probe; null if unknown.
	Bare *float64 `json:"bare_us" jsonschema:"nullable"`
	// Cost is the time of a call with the probe, divided by the time without the probe.
	Cost *float64 `json:"cost" jsonschema:"nullable"`
}

// A Stage is a part of a call.
type Stage struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind" jsonschema:"enum=user,enum=kernel,enum=waking,enum=scheduling,enum=handler,enum=mixed"` // where the time is spent
	End    string   `json:"end" jsonschema:"enum=client,enum=server,enum="`                                              // the end where the time is spent; empty means both ends
	Mean   float64  `json:"mean_us"`
	Error  float64  `json:"error_us"`                     // standard error of the mean over the calls of this run
	Median float64  `json:"median_us"`                    // mean time in calls near the median
	P99    *float64 `json:"p99_us" jsonschema:"nullable"` // mean time in calls near P99; null with fewer than 1,000 calls
}

// kindOf returns the kind of a stage. Package life sets the names of stages.
func kindOf(stage string) string {
	switch {
	case stage == "handler":
		return "handler"
	case strings.HasPrefix(stage, "wake "):
		return "waking"
	case strings.HasSuffix(stage, ": schedule"):
		return "scheduling"
	case strings.HasPrefix(stage, "send "), strings.HasPrefix(stage, "receive "):
		return "kernel"
	case strings.HasSuffix(stage, "code"):
		return "user"
	}
	return "mixed"
}

// stageEnd returns the end of the wire at which a stage takes place, or "" for both.
func stageEnd(stage string) string {
	switch {
	case strings.HasPrefix(stage, "client: "), stage == "send request", stage == "wake client", stage == "receive answer":
		return ClientEnd
	case strings.HasPrefix(stage, "server: "), stage == "send answer", stage == "wake server", stage == "receive request", stage == "handler":
		return ServerEnd
	}
	return ""
}

// newLife averages the stages over the calls of all passes. It returns nil without calls.
func newLife(passes []*record.Record) *Life {
	l := &Life{}
	var calls [][]int64
	var stages []string
	var traced, bare []float64
	for _, r := range passes {
		if r.Life == nil || (stages != nil && !slices.Equal(stages, r.Life.Stages)) {
			continue
		}
		stages = r.Life.Stages
		calls = append(calls, r.Life.Calls...)
		l.Untold += r.Life.Untold
		if r.Life.TracedNS != nil && r.Life.BareNS != nil {
			traced, bare = append(traced, *r.Life.TracedNS), append(bare, *r.Life.BareNS)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if sum := sumOf(bare); sum > 0 {
		l.Bare, l.Cost = new(sum/float64(len(bare))/1e3), new(sumOf(traced)/sum)
	}
	l.Calls = len(calls)
	slices.SortFunc(calls, func(a, b []int64) int { return cmp.Compare(sumOf(a), sumOf(b)) })
	median, p99 := callsAround(calls, 0.5, 0.05), callsAround(calls, 0.99, 0.005)
	for i, name := range stages {
		times := func(of [][]int64) []float64 {
			return lists.Map(of, func(call []int64) float64 { return float64(call[i]) / 1e3 })
		}
		mean, variance := stat.PopMeanVariance(times(calls), nil)
		s := Stage{
			Name: name, Kind: kindOf(name), End: stageEnd(name),
			Mean: mean, Error: math.Sqrt(variance / float64(len(calls))), Median: stat.Mean(times(median), nil),
		}
		if len(calls) >= leastCallsForP99 {
			s.P99 = new(stat.Mean(times(p99), nil))
		}
		l.Mean += s.Mean
		l.Stages = append(l.Stages, s)
	}
	return l
}

// leastCallsForP99 is the least number of calls for P99: then ten calls are slower than P99.
const leastCallsForP99 = 1000

// callsAround returns the calls near a quantile, because a single call may not be typical.
func callsAround(calls [][]int64, quantile, width float64) [][]int64 {
	n := float64(len(calls))
	first, last := int(n*(quantile-width)), int(math.Ceil(n*(quantile+width)))
	return calls[max(0, first):min(len(calls), max(last, first+1))]
}

func sumOf[N int64 | float64](values []N) (sum N) {
	for _, v := range values {
		sum += v
	}
	return sum
}
