package main

import (
	"fmt"
	"io"
	"time"

	"wirelab.dev/internal/lab"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
)

// progress tells a person how a run goes: a plain line a trial where there is
// no terminal, and a live view where there is one.
type progress interface {
	lab.Observer
	close()
}

func newProgress(w io.Writer, s *scenario.Scenario, plan []scenario.Planned) progress {
	estimate := &estimate{plan: plan, began: time.Now()}
	if terminal := terminalOf(w); terminal.Width > 0 {
		return newLive(w, s.Title, estimate)
	}
	return &plain{w: w, estimate: estimate}
}

// plain prints a line when a trial ends.
type plain struct {
	w        io.Writer
	estimate *estimate
}

func (p *plain) TrialBegins(int, scenario.Planned) { p.estimate.begins() }
func (p *plain) TrialProgress(int, lab.Progress)   {}
func (p *plain) close()                            {}
func (p *plain) TrialEnds(number int, r *record.Record) {
	p.estimate.ends(number)
	fmt.Fprintf(p.w, "%d/%d %s, %s\n", number+1, len(p.estimate.plan), outcome(r), p.estimate.left(number+1))
}

// outcome is a trial's in a few words.
func outcome(r *record.Record) string {
	name := fmt.Sprintf("%s (repeat %d)", r.Cell.Key(), r.Repeat)
	switch {
	case r.Failure != "":
		return name + ": failed: " + r.Failure
	case !r.Valid():
		return name + ": invalid: " + firstInvalid(r)
	default:
		mean := time.Duration(0)
		if r.Service.Count > 0 {
			mean = time.Duration(r.Service.Sum / r.Service.Count)
		}
		return fmt.Sprintf("%s: %.0f requests/s, mean %v", name, r.ThroughputPerSecond(), mean.Round(100*time.Nanosecond))
	}
}

func firstInvalid(r *record.Record) string {
	for _, c := range r.Checks {
		if c.Level == record.Invalid {
			return c.Name + ", " + c.Detail
		}
	}
	return ""
}

// estimate foretells the time that is left, from how long the trials took that
// are done. Trials weigh what their cell is known to take: as long as a trial
// of the same cell took, or of one alike, or the mean of all.
type estimate struct {
	plan    []scenario.Planned
	began   time.Time
	started time.Time
	spent   map[string]time.Duration // by cell; the last trial's time
	total   time.Duration
	trials  int
}

func (e *estimate) begins() { e.started = time.Now() }

func (e *estimate) ends(number int) {
	took := time.Since(e.started)
	if e.spent == nil {
		e.spent = map[string]time.Duration{}
	}
	e.spent[e.plan[number].Cell.Key()] = took
	e.total += took
	e.trials++
}

// remaining is the time from the given trial on.
func (e *estimate) remaining(next int) (time.Duration, bool) {
	if e.trials == 0 {
		return 0, false
	}
	mean := e.total / time.Duration(e.trials)
	var sum time.Duration
	for _, t := range e.plan[min(next, len(e.plan)):] {
		if took, known := e.spent[t.Cell.Key()]; known {
			sum += took
		} else {
			sum += mean
		}
	}
	return sum, true
}

func (e *estimate) left(next int) string {
	left, known := e.remaining(next)
	switch {
	case !known:
		return "time left not known yet"
	case next >= len(e.plan):
		return fmt.Sprintf("took %v", time.Since(e.began).Round(time.Second))
	default:
		return fmt.Sprintf("about %v left", left.Round(time.Second))
	}
}
