package analysis

import (
	"slices"
	"testing"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/judge/analysis/matrix"
)

func TestWarningOfAllTrialsIsShownOnce(t *testing.T) {
	records := versus(1, 3, 1.1, 1, 10).records(t)
	for i, r := range records {
		r.Warnings = []string{"no priority"}
		r.Checks = append(r.Checks, record.Check{Name: "stolen-cpu", Level: record.Unknown, Detail: "not known"})
		if i == 0 {
			r.Warnings = append(r.Warnings, "a hiccup")
		}
	}
	s := summarize(t, records)
	want := []string{`the check "stolen-cpu" has no result: not known`, "no priority"}
	if !slices.Equal(s.Warnings, want) {
		t.Errorf("the run's warnings are %q", s.Warnings)
	}
	for _, c := range s.Cells {
		var own []string
		if c.Cell == records[0].Cell {
			own = []string{"a hiccup (1 of 3 trials)"}
		}
		if !slices.Equal(c.Warnings, own) || len(c.Findings) != 0 {
			t.Errorf("%s: warnings %q, findings %v", c.Key, c.Warnings, c.Findings)
		}
	}
}

func TestFindingsComeWorstFirst(t *testing.T) {
	records := versus(1, 3, 1.1, 1).records(t)
	for i, r := range records {
		r.Checks = []record.Check{
			{Name: "settled", Level: record.Warning, Detail: "not settled"},
			{Name: "noise", Level: record.Unknown, Detail: r.Cell.Variant},
		}
		if i < 2 {
			r.Checks = append(r.Checks, record.Check{Name: "errors", Level: record.Invalid, Detail: "5 of 10"})
		}
	}
	for _, c := range summarize(t, records).Cells {
		var got []matrix.Finding
		got = append(got, c.Findings...)
		want := []matrix.Finding{
			{Name: "errors", Level: record.Invalid, Trials: 1, Detail: "5 of 10"},
			{Name: "settled", Level: record.Warning, Trials: 3, Detail: "not settled"},
			{Name: "noise", Level: record.Unknown, Trials: 3, Detail: c.Variant},
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %+v", c.Key, got)
		}
	}
}

func TestFailedTrialsAreNamed(t *testing.T) {
	records := versus(1, 3, 1.1, 1).records(t)
	cell := records[1].Cell
	records[1] = &record.Record{Version: 1, Trial: 1, Repeat: 1, Cell: cell, Failure: "the server died", Checks: []record.Check{{Name: "measured", Level: record.Invalid}}}
	s := summarize(t, records)
	c := s.Cells[0]
	if s.Failed != 1 || s.Invalid != 0 || c.Failure != "the server died" || c.Valid != 2 || len(c.Findings) != 0 {
		t.Errorf("%d failed, %d invalid; %q, %d valid, %v", s.Failed, s.Invalid, c.Failure, c.Valid, c.Findings)
	}
}

// The course settles after 300 ms. Its first 100 ms were half as fast.
func TestTheWarmUpThatWouldHaveBeenEnough(t *testing.T) {
	records := versus(1, 3, 1.1, 1).records(t)
	for _, r := range records {
		for i := range 20 {
			slow := int64(1)
			if i < 2 {
				slow = 2
			}
			r.Intervals = append(r.Intervals, record.Interval{StartNS: int64(i-5) * 50e6, TookNS: 50e6, Requests: 1000 / slow, SumNS: 50e6})
		}
		if r.Cell.Variant == "tcp" {
			enough, requests := int64(300*time.Millisecond), int64(5000)
			r.WarmUp.EnoughNS, r.WarmUp.EnoughRequests = &enough, &requests
		}
	}
	s := summarize(t, records)
	if len(s.WarmUps) != 2 {
		t.Fatalf("%d warm-ups", len(s.WarmUps))
	}
	tcp, rest := s.WarmUps[0], s.WarmUps[1]
	if tcp.Trials != 3 || tcp.Settled != 3 || rest.Trials != 3 || rest.Settled != 0 {
		t.Errorf("tcp %+v, rest %+v", tcp, rest)
	}
	within(t, "needed", tcp.Needed.Value, 300, 1e-9)
	within(t, "requests", tcp.NeededCalls.Value, 5000, 1e-9)
	within(t, "first over settled", tcp.FirstOver.Value, 2, 1e-9)
}
