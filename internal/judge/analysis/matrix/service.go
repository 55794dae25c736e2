package matrix

import (
	"cmp"
	"slices"
	"time"

	"wirelab.dev/internal/base/lists"
	"wirelab.dev/internal/base/stats"
	"wirelab.dev/internal/data/record"
)

// messageTimes returns the times of single messages in streams, or nil if no trial has them.
func messageTimes(trials []Trial) *CallTimes {
	timed := Filter(trials, func(t Trial) bool { return t.messages.count > 0 })
	if len(timed) == 0 {
		return nil
	}
	m := &CallTimes{Times: poolTimes(timed, func(t Trial) times { return t.messages }).Latencies()}
	for _, t := range timed {
		m.Requests += t.messages.count
	}
	return m
}

// callTimes returns the times of calls for each name or address, in the first trial's order.
func callTimes(trials []Trial, of func(Trial) ([]record.NamedCalls, []times)) []CallTimes {
	var all []CallTimes
	calls := func(t Trial) []record.NamedCalls { named, _ := of(t); return named }
	for _, first := range calls(trials[0]) {
		at := func(t Trial) int {
			return slices.IndexFunc(calls(t), func(n record.NamedCalls) bool { return n.Name == first.Name })
		}
		having := Filter(trials, func(t Trial) bool { return at(t) >= 0 })
		one := CallTimes{
			Name: first.Name, Stage: first.Stage,
			Throughput: FigureOver(having, func(t Trial) float64 {
				return float64(calls(t)[at(t)].CompletedWell) / t.timeOf(first.Stage).Seconds()
			}),
			Times: poolTimes(having, func(t Trial) times { _, timed := of(t); return timed[at(t)] }).Latencies(),
		}
		for _, t := range having {
			one.Requests += calls(t)[at(t)].Requests
			one.Failed += calls(t)[at(t)].Failed
		}
		all = append(all, one)
	}
	return all
}

// timeOf returns the part of a stage that is in the window, or the window if the stage is 0.
func (t Trial) timeOf(stage int) time.Duration {
	left := time.Duration(t.WindowNS)
	for i, s := range t.Cell.Load.RateStages() {
		if i+1 == stage {
			return min(left, s.Length)
		}
		if stage > 0 {
			left -= s.Length
		}
	}
	return left
}

const (
	// leastStandstill is the shortest time, in seconds, that counts as a standstill.
	leastStandstill = 0.05
	// standstillShare is the share of the usual rate below which a service stands still.
	// standstillCalls is the least usual number of calls per interval. With fewer, intervals may be
	// empty by chance.
	standstillShare, standstillCalls = 0.1, 10
)

// Standstills counts the periods in which almost no call was answered without failure. longest is the approximate length of the
// longest period in seconds.
func (c *Cell) Standstills() (count int, longest float64) {
	window := slices.DeleteFunc(slices.Clone(c.Course), func(p CoursePoint) bool { return p.Seconds <= 0 })
	if len(window) < leastPoints {
		return 0, 0
	}
	rates := lists.Map(window, func(p CoursePoint) float64 { // of calls that did not fail
		if p.FailedShare == nil {
			return p.Throughput
		}
		return p.Throughput * (1 - *p.FailedShare)
	})
	each := window[1].Seconds - window[0].Seconds
	// An outage may be longer than half the window.
	usual := stats.Median(slices.DeleteFunc(slices.Clone(rates), func(rate float64) bool { return rate == 0 }))
	if usual*each < standstillCalls {
		return 0, 0
	}
	isStill := func(i int) bool {
		expected := usual
		if offered := window[i].Offered; offered != nil { // at the begin of a ramp, few calls are due
			expected = min(usual, *offered)
		}
		return expected*each >= standstillCalls && rates[i] < standstillShare*expected
	}
	for took, i := 0.0, 0; i <= len(rates); i++ {
		if i < len(rates) && isStill(i) {
			took += each
			continue
		}
		if took >= leastStandstill {
			count, longest = count+1, max(longest, took)
		}
		took = 0
	}
	return count, longest
}

// tracesOf returns the traces of the slowest requests, and the number of all traces.
func tracesOf(trials []Trial) (slowest []Trace, count int64) {
	for _, t := range trials {
		count += t.Traced
		for _, one := range t.Traces {
			slowest = append(slowest, Trace{
				ID: one.ID, LatencyUS: float64(one.ServiceNS) / 1e3, AfterMS: float64(one.AfterNS) / 1e6,
				Repeat: t.Repeat, Failed: one.Failed,
			})
		}
	}
	slices.SortStableFunc(slowest, func(a, b Trace) int { return cmp.Compare(b.LatencyUS, a.LatencyUS) })
	return slowest[:min(len(slowest), shownTraces)], count
}

// A Trace is a request that wirelab asked a tracing system to record.
type Trace struct {
	ID        string  `json:"id"`         // 32 hexadecimal digits of W3C Trace Context
	LatencyUS float64 `json:"latency_us"` // from the actual send to the answer
	AfterMS   float64 `json:"after_ms"`   // time from the beginning of the trial's window to the send
	Repeat    int     `json:"repeat"`     // repeat of the request's trial
	Failed    bool    `json:"failed"`
}

// shownTraces is the largest number of traces that a cell lists.
const shownTraces = 10
