package insight

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/stat"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/data/record"
)

// A Life divides the time of a call into stages.
type Life struct {
	Calls  int     `json:"calls"`   // calls whose stages were separated
	Untold int64   `json:"untold"`  // calls whose stages could not be separated
	Mean   float64 `json:"mean_us"` // mean time of a call
	Stages []Stage `json:"stages"`  // stages that took time, in the order of a call; their times add up to the mean
	// Bare is the mean time of the same processes' calls without the probe; null if unknown.
	Bare *float64 `json:"bare_us" jsonschema:"nullable"`
	// Cost is the time of a call with the probe, divided by the time without the probe.
	Cost *float64 `json:"cost" jsonschema:"nullable"`
	// Unread is the mean number of requests that a user's service had not read; null if unknown.
	Unread *float64 `json:"unread" jsonschema:"nullable"`
	// Unacknowledged is the mean number of its connections with a part of an answer that is not acknowledged.
	Unacknowledged *float64 `json:"unacknowledged" jsonschema:"nullable"`
}

// A Stage is a part of a call.
type Stage struct {
	Name  string  `json:"name"`
	Kind  string  `json:"kind" jsonschema:"enum=user,enum=kernel,enum=waking,enum=scheduling,enum=waiting,enum=collector,enum=handler,enum=mixed"` // where the time is spent
	End   string  `json:"end" jsonschema:"enum=client,enum=server,enum="`                                                                          // the end where the time is spent; empty means both ends
	Mean  float64 `json:"mean_us"`
	Error float64 `json:"error_us"` // standard error of the mean over the calls of this run
}

// livesOf returns the passes' calls that have the same stages as those of the first pass.
func livesOf(passes []*record.Record) (stages []string, lives []*record.Life) {
	for _, r := range passes {
		if r.Life == nil || (stages != nil && !slices.Equal(stages, r.Life.Stages)) {
			continue
		}
		stages = r.Life.Stages
		lives = append(lives, r.Life)
	}
	return stages, lives
}

// newLife averages the stages over the calls of all passes. It returns nil without calls.
func newLife(passes []*record.Record) *Life {
	l := &Life{}
	var calls [][]int64
	var traced, bare, unread, unacknowledged []float64
	stages, lives := livesOf(passes)
	for _, life := range lives {
		calls = append(calls, life.Calls...)
		l.Untold += life.Untold
		if life.Unread != nil && life.Unacknowledged != nil {
			unread, unacknowledged = append(unread, *life.Unread), append(unacknowledged, *life.Unacknowledged)
		}
		if life.TracedNS != nil && life.BareNS != nil {
			traced, bare = append(traced, *life.TracedNS), append(bare, *life.BareNS)
		}
	}
	if len(calls) == 0 {
		return nil
	}
	if sum := sumOf(bare); sum > 0 {
		l.Bare, l.Cost = new(sum/float64(len(bare))/1e3), new(sumOf(traced)/sum)
	}
	if len(unread) > 0 {
		l.Unread, l.Unacknowledged = new(sumOf(unread)/float64(len(unread))), new(sumOf(unacknowledged)/float64(len(unread)))
	}
	l.Calls = len(calls)
	for i, name := range stages {
		times := lists.Map(calls, func(call []int64) float64 { return float64(call[i]) / 1e3 })
		mean, variance := stat.PopMeanVariance(times, nil)
		if mean == 0 {
			continue
		}
		l.Mean += mean
		l.Stages = append(l.Stages, Stage{
			Name: name, Kind: kindOf(name), End: stageEnd(name),
			Mean: mean, Error: math.Sqrt(variance / float64(len(calls))),
		})
	}
	return l
}

func sumOf[N int64 | float64](values []N) (sum N) {
	for _, v := range values {
		sum += v
	}
	return sum
}
