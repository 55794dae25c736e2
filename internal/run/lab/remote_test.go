package lab

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
)

// presser does something, once, when the window of a trial is open.
type presser struct {
	once  sync.Once
	press func()
	ended int
}

func (p *presser) observe(e live.Event) {
	switch e := e.(type) {
	case live.Progress:
		if e.Fraction > 0 {
			p.once.Do(p.press)
		}
	case live.Ended:
		p.ended++
	}
}

// hours is a scenario of two trials that take an hour each.
func hours(t *testing.T) *scenario.Scenario {
	s := oneCell(t, "tcp")
	s.Parts[0].Load = scenario.Load{Model: scenario.Closed, Duration: scenario.Duration(time.Hour)}
	s.Parts[0].WarmUp = scenario.WarmUp{}
	s.Parts[0].Repeats = 2
	return s
}

// A run that is ended early has the running trial, with the figures of a shorter window,
// and not the rest of the plan.
func TestARunEndsEarly(t *testing.T) {
	l, s := newLab(t), hours(t)
	l.Remote = &RunControls{}
	seen := &presser{press: l.Remote.End}
	l.Observers = []live.Observer{seen.observe}
	run := create(t, s)
	if err := l.Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	if seen.ended != 1 {
		t.Fatalf("%d trials ended, want the one that ran", seen.ended)
	}
	r := only(t, run)
	said := slices.ContainsFunc(r.Warnings, func(w string) bool { return strings.Contains(w, " of the planned 1h0m0s") })
	if r.Failure != "" || !r.EndedEarly || r.Requests == 0 || !said {
		t.Errorf("failure %q, ended early %v, %d requests, warnings %q", r.Failure, r.EndedEarly, r.Requests, r.Warnings)
	}
}

// A trial that is told to end before its window opened says that nothing was measured.
func TestARunEndsBeforeItsWindow(t *testing.T) {
	l, s := newLab(t), hours(t)
	s.Parts[0].WarmUp = scenario.WarmUp{AtLeast: scenario.Duration(time.Hour), AtMost: scenario.Duration(time.Hour)}
	l.Remote = &RunControls{}
	l.Observers = []live.Observer{func(e live.Event) {
		if _, begun := e.(live.Begun); begun {
			l.Remote.End()
		}
	}}
	run := create(t, s)
	if err := l.Run(t.Context(), s.Plan(), run); err != nil {
		t.Fatal(err)
	}
	if r := only(t, run); !strings.Contains(r.Failure, "before its window opened") || r.Valid() {
		t.Errorf("failure %q, valid %v", r.Failure, r.Valid())
	}
}

// only is the run's only record.
func only(t *testing.T, run *record.Run) *record.Record {
	t.Helper()
	var all []*record.Record
	for r, err := range run.Records() {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &r)
	}
	if len(all) != 1 {
		t.Fatalf("%d records, want 1", len(all))
	}
	return all[0]
}

// A live view gets the CPU time of the client, which grows.
func TestLiveFiguresHaveTheClientsCost(t *testing.T) {
	l, s := newLab(t), hours(t)
	l.Live, l.Remote = true, &RunControls{}
	var costs []time.Duration
	l.Observers = []live.Observer{func(e live.Event) {
		if p, is := e.(live.Progress); is && p.ClientCPU > 0 {
			if costs = append(costs, p.ClientCPU); costs[len(costs)-1] > costs[0] {
				l.Remote.End()
			}
		}
	}}
	if err := l.Run(t.Context(), s.Plan(), create(t, s)); err != nil {
		t.Fatal(err)
	}
	if len(costs) < 2 {
		t.Errorf("the client's CPU time was reported as %v", costs)
	}
}
