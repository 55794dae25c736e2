package lab

import (
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// What one trial of a cell was seen to need is the least of the next, up to the longest
// warm-up; what was steady, and other cells, teach nothing.
func TestWarmUpIsLearntFromEarlierTrialsOfTheCell(t *testing.T) {
	drifting := &record.Record{Cell: record.Cell{Variant: "tcp", Place: record.Place{Clients: 1}, Load: record.Load{Model: "closed"}}, WindowNS: 1e9}
	drifting.Active, drifting.WarmUp = 1, record.WarmUp{TookNS: 100e6, Settled: true, Method: "MSER-5"}
	for i := range 200 {
		drifting.Intervals = append(drifting.Intervals, record.Interval{StartNS: int64(i) * 5e6, TookNS: 5e6, Requests: int64(500 + 2*i + i%7)})
	}
	steady := *drifting
	steady.Cell.Variant, steady.Intervals = "grpc", nil

	l := &Lab{}
	l.learnWarmUp(drifting)
	l.learnWarmUp(&steady)
	cell := scenario.Cell{WarmUp: scenario.WarmUp{AtLeast: scenario.Duration(200 * time.Millisecond), AtMost: scenario.Duration(900 * time.Millisecond)}}
	for variant, want := range map[string]time.Duration{"tcp": 900 * time.Millisecond, "grpc": 200 * time.Millisecond} {
		of := drifting.Cell
		of.Variant = variant
		one := &trial{planned: scenario.PlannedCell{Cell: cell}, learnt: l.learnt[of]}
		if got := one.warmUpAtLeast(); got != want {
			t.Errorf("%s: at least %v, want %v", variant, got, want)
		}
	}
	if l.learnt[drifting.Cell] <= 1100*time.Millisecond {
		t.Errorf("a window of 1 s that drifts to its end needs %v", l.learnt[drifting.Cell])
	}
	none := &trial{planned: scenario.PlannedCell{Cell: scenario.Cell{}}, learnt: time.Second}
	if got := none.warmUpAtLeast(); got != 0 {
		t.Errorf("a scenario without warm-up gets %v", got)
	}
}
