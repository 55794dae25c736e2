package curves

import (
	"math"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

// A WarmUpNeed holds how much warm-up would have been enough.
type WarmUpNeed struct {
	Part    string `json:"part"`
	Variant string `json:"variant"`
	record.Payload
	Clients     int            `json:"clients"`
	Trials      int            `json:"trials"`
	Settled     int            `json:"settled"`            // of them
	Needed      *matrix.Figure `json:"needed_ms"`          // from the first request; null if none settled
	NeededCalls *matrix.Figure `json:"needed_requests"`    // of all clients together
	FirstOver   *matrix.Figure `json:"first_over_settled"` // mean of the first tenth of a second over the settled one
}

// firstMoments is the time after the first request that is compared with the steady state, to
// show what a measurement without warm-up would include.
const firstMoments = 100 * time.Millisecond

// FindWarmUpNeeds finds, for each cell, when its trials became steady.
func FindWarmUpNeeds(points []*matrix.Point) []WarmUpNeed {
	var needs []WarmUpNeed
	for _, p := range points {
		switch p.Cell.Load.Model {
		case "burst", "ramp", "search":
			continue // these loads have no steady state
		}
		need := WarmUpNeed{Part: p.Cell.Part, Variant: p.Cell.Variant, Payload: p.Cell.Payload, Clients: p.Cell.Clients}
		followed := matrix.Filter(p.Valid(), func(t matrix.Trial) bool { return len(t.Intervals) > 0 })
		settled := matrix.Filter(followed, func(t matrix.Trial) bool { return t.WarmUp.EnoughNS != nil && t.WarmUp.EnoughRequests != nil })
		if len(followed) == 0 {
			continue
		}
		need.Trials, need.Settled = len(followed), len(settled)
		need.Needed = matrix.Known(settled, func(t matrix.Trial) float64 { return matrix.Number(t.WarmUp.EnoughNS) / 1e6 })
		need.NeededCalls = matrix.Known(settled, func(t matrix.Trial) float64 { return matrix.Number(t.WarmUp.EnoughRequests) })
		need.FirstOver = matrix.Known(settled, func(t matrix.Trial) float64 { return firstOverSettled(t.Intervals, *t.WarmUp.EnoughNS) })
		needs = append(needs, need)
	}
	return needs
}

// firstOverSettled divides the mean service time of the first moments by the mean service time
// of the steady state.
func firstOverSettled(course []record.Interval, enoughNS int64) float64 {
	begin := course[0].StartNS
	var first, settled record.Interval
	for _, i := range course {
		if i.StartNS-begin < int64(firstMoments) {
			first.Requests += i.Requests
			first.SumNS += i.SumNS
		}
		if i.StartNS-begin >= enoughNS {
			settled.Requests += i.Requests
			settled.SumNS += i.SumNS
		}
	}
	if first.Requests == 0 || settled.Requests == 0 || settled.SumNS == 0 {
		return math.NaN()
	}
	mean := func(i record.Interval) float64 { return float64(i.SumNS) / float64(i.Requests) }
	return mean(first) / mean(settled)
}
