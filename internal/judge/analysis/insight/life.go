package insight

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"wirelab.dev/internal/data/record"
)

// A Life divides the time of single calls, one at a time, into stages.
type Life struct {
	Calls  int     `json:"calls"`  // calls whose stages were separated
	Untold int64   `json:"untold"` // calls whose stages could not be separated
	Mean   float64 `json:"mean_us"`
	Stages []Stage `json:"stages"` // in order of time; they add up to the mean
	// Bare is the mean of the same processes' calls without the probe; null if it always ran.
	Bare *float64 `json:"bare_us" jsonschema:"nullable"`
	// Cost is the time of a call with the probe divided by the time without it.
	Cost *float64 `json:"cost" jsonschema:"nullable"`
}

// A Stage is a part of a call.
type Stage struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind" jsonschema:"enum=user,enum=kernel,enum=waking,enum=scheduling,enum=handler,enum=mixed"` // where the time is spent
	End    string   `json:"end" jsonschema:"enum=client,enum=server,enum="`                                              // end of the wire; empty for both
	Mean   float64  `json:"mean_us"`
	Error  float64  `json:"error_us"`                     // one standard error of the mean over the calls; runs may differ by more
	Median float64  `json:"median_us"`                    // mean over the calls around the median
	P99    *float64 `json:"p99_us" jsonschema:"nullable"` // mean over the calls around P99; null with fewer than 1,000 calls
}

// The kinds of stages.
const (
	InUser     = "user"
	InKernel   = "kernel"
	Waking     = "waking"
	Scheduling = "scheduling"
	InHandler  = "handler"
	Mixed      = "mixed"
)

// kindOf returns the kind of a stage by its name, which package life sets.
func kindOf(stage string) string {
	switch {
	case stage == "handler":
		return InHandler
	case strings.HasPrefix(stage, "wake "):
		return Waking
	case strings.HasSuffix(stage, ": schedule"):
		return Scheduling
	case strings.HasPrefix(stage, "send "), strings.HasPrefix(stage, "receive "):
		return InKernel
	case strings.HasSuffix(stage, "code"):
		return InUser
	}
	return Mixed
}

// stageEnd returns the end at which a stage takes place. A message counts as received as soon as
// its data reach the receiver's socket.
func stageEnd(stage string) string {
	switch {
	case strings.HasPrefix(stage, "client: "), stage == "send request", stage == "wake client", stage == "receive answer":
		return ClientEnd
	case strings.HasPrefix(stage, "server: "), stage == "send answer", stage == "wake server", stage == "receive request", stage == "handler":
		return ServerEnd
	}
	return ""
}

// newLife sums up the calls of all passes.
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
	mean := meanStages(calls)
	errors := stageErrors(calls, mean)
	median := meanStages(around(calls, 0.5, 0.05))
	var p99 []float64
	if len(calls) >= leastForP99 {
		p99 = meanStages(around(calls, 0.99, 0.005))
	}
	for i, name := range stages {
		s := Stage{Name: name, Kind: kindOf(name), End: stageEnd(name), Mean: mean[i], Error: errors[i], Median: median[i]}
		if p99 != nil {
			s.P99 = new(p99[i])
		}
		l.Mean += s.Mean
		l.Stages = append(l.Stages, s)
	}
	return l
}

// leastForP99 is the number of calls with ten beyond P99, the usual minimum.
const leastForP99 = 1000

// around returns the calls near a quantile, because the stages of one call are not typical.
func around(calls [][]int64, quantile, width float64) [][]int64 {
	n := float64(len(calls))
	first, last := int(n*(quantile-width)), int(math.Ceil(n*(quantile+width)))
	return calls[max(0, first):min(len(calls), max(last, first+1))]
}

// meanStages returns the mean of each stage, in microseconds.
func meanStages(calls [][]int64) []float64 {
	means := make([]float64, len(calls[0]))
	for _, call := range calls {
		for i, ns := range call {
			means[i] += float64(ns)
		}
	}
	for i := range means {
		means[i] /= 1e3 * float64(len(calls))
	}
	return means
}

// stageErrors returns the standard errors of the means, in microseconds.
func stageErrors(calls [][]int64, means []float64) []float64 {
	errors := make([]float64, len(means))
	for _, call := range calls {
		for i, ns := range call {
			errors[i] += math.Pow(float64(ns)/1e3-means[i], 2)
		}
	}
	for i, squares := range errors {
		errors[i] = math.Sqrt(squares) / float64(len(calls))
	}
	return errors
}

func sumOf[N int64 | float64](values []N) (sum N) {
	for _, v := range values {
		sum += v
	}
	return sum
}
