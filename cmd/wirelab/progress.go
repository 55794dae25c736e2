package main

import (
	"fmt"
	"io"
	"time"

	"wirelab.dev/internal/lab"
	"wirelab.dev/internal/record"
)

// progress tells a person how a run goes: a plain line a trial where there is
// no terminal, and a live view where there is one.
type progress interface {
	lab.Observer
	close()
}

func newProgress(w io.Writer, title string, order []record.PlannedTrial) progress {
	estimate := &estimate{order: order, began: time.Now(), spent: map[string]time.Duration{}}
	if terminalOf(w).Width > 0 {
		return newLive(w, title, estimate)
	}
	return &plain{w: w, estimate: estimate}
}

// plain prints a line when a trial ends.
type plain struct {
	w        io.Writer
	estimate *estimate
}

func (p *plain) TrialBegins(record.PlannedTrial) { p.estimate.begins() }
func (p *plain) TrialProgress(int, lab.Progress) {}
func (p *plain) close()                          {}
func (p *plain) TrialEnds(number int, r *record.Record) {
	p.estimate.ends(number)
	left := fmt.Sprintf("about %v left", p.estimate.remaining(number+1).Round(time.Second))
	if number+1 == len(p.estimate.order) {
		left = fmt.Sprintf("took %v", time.Since(p.estimate.began).Round(time.Second))
	}
	fmt.Fprintf(p.w, "%d/%d %s, %s\n", number+1, len(p.estimate.order), outcome(r), left)
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

// estimate estimates the time that is left from how long the finished trials
// took.
type estimate struct {
	order   []record.PlannedTrial
	began   time.Time                // the run
	started time.Time                // the running trial
	spent   map[string]time.Duration // by the last trial of each cell
	total   time.Duration
	trials  int
}

func (e *estimate) begins() { e.started = time.Now() }

func (e *estimate) ends(number int) {
	took := time.Since(e.started)
	e.spent[e.order[number].Cell] = took
	e.total += took
	e.trials++
}

// remaining is the time that the trials from the given one on will take: each as
// long as the last of its cell, or the mean of all trials if its cell had none.
// One trial at least must have ended.
func (e *estimate) remaining(next int) time.Duration {
	var sum time.Duration
	for _, t := range e.order[next:] {
		if took, ok := e.spent[t.Cell]; ok {
			sum += took
		} else {
			sum += e.total / time.Duration(e.trials)
		}
	}
	return sum
}
