package analysis

import (
	"cmp"
	"slices"
)

// Trace is a request that a tracing system was asked to follow.
type Trace struct {
	ID        string  `json:"id"`         // in 32 hexadecimal digits, as W3C Trace Context has it
	LatencyUS float64 `json:"latency_us"` // from the actual send to the answer
	AfterMS   float64 `json:"after_ms"`   // it was sent, from the begin of its trial's window
	Repeat    int     `json:"repeat"`     // the trial that it was sent in
	Failed    bool    `json:"failed"`
}

// shownTraces is how many traces a cell names.
const shownTraces = 10

// tracesOf are the traces of the slowest requests over trials, and how many there are in all.
func tracesOf(trials []trial) (slowest []Trace, count int64) {
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
