// Package lab carries out a plan: for each trial it places and starts a server
// and a client process, waits for what they measured, judges whether the trial
// may be believed, and appends one record.
//
//	scenario ── Plan ──> plan ── Lab.Run ──> trial, trial, … ──> records
//
// One trial runs at a time, and one stack is alive at a time. Compared cells
// are interleaved: the plan's order is a shuffle, block by block, from the
// recorded seed.
//
// This package must not compare cells, nor know how a record is shown.
package lab

import (
	"context"
	"errors"
	"time"

	"wirelab.dev/internal/host"
	"wirelab.dev/internal/judge"
	"wirelab.dev/internal/record"
	"wirelab.dev/internal/scenario"
	"wirelab.dev/internal/secure"
)

// Order is the plan as a manifest holds it.
func Order(plan []scenario.Planned) []record.PlannedTrial {
	order := make([]record.PlannedTrial, len(plan))
	for i, t := range plan {
		order[i] = record.PlannedTrial{Trial: i, Repeat: t.Repeat, Cell: recordedCell(t.Cell).Key()}
	}
	return order
}

// Lab is where trials are run.
type Lab struct {
	// Worker is the program, with its arguments, that reads a spec.
	Worker []string
	// Targets are the addresses of servers that already run, by variant or stack;
	// their trials start no server.
	Targets map[string]string
	// Trust is what clients over TLS accept from the servers at Targets.
	Trust     secure.Trust
	Placement host.Placement
	Nice      int
	Seed      uint64
	Observer  Observer // may be nil

	drain time.Duration // bounds the wait for calls that outlast the window
}

// Observer follows a run. Its methods are called from one goroutine at a time and must
// be quick, because a trial is running.
type Observer interface {
	TrialBegins(trial record.PlannedTrial)
	TrialProgress(number int, p Progress)
	TrialEnds(number int, r *record.Record)
}

// Progress is how far a trial has come.
type Progress struct {
	Warming  bool
	Done     int64
	Fraction float64
}

// priority is the nice value of workers: the highest priority.
const priority = -20

// New makes a lab on this machine whose workers are the given program.
func New(worker []string) *Lab {
	// Workers inherit it. One that cannot be raised shows, if it matters, as
	// connections that fail, and by its name.
	_, _ = host.RaiseFileLimit()
	topology := host.Describe().Topology
	return &Lab{Worker: worker, Placement: host.Place(topology, host.Want{}), Nice: priority, drain: drainAtMost}
}

// Run runs the trials of the plan that are not done yet, and appends a record as each
// ends. If ctx ends, it abandons the running trial and returns ctx's cause; the run
// holds all earlier trials.
func (l *Lab) Run(ctx context.Context, plan []scenario.Planned, run *record.Run) error {
	order := Order(plan)
	for number, trial := range plan {
		if run.Done(number) {
			continue
		}
		if err := context.Cause(ctx); err != nil {
			return err
		}
		l.observe(func(o Observer) { o.TrialBegins(order[number]) })
		r, err := l.runWithRetry(ctx, number, trial, run)
		if err != nil {
			return err
		}
		if err := run.Append(*r); err != nil {
			return err
		}
		l.observe(func(o Observer) { o.TrialEnds(number, r) })
	}
	return nil
}

func (l *Lab) observe(call func(Observer)) {
	if l.Observer != nil {
		call(l.Observer)
	}
}

// runWithRetry runs a trial, and runs it once more if only the machine spoiled it. The
// CPU time that others took decides that, never the figures, so that no result is
// preferred for what it shows. The record of a second trial says so.
func (l *Lab) runWithRetry(ctx context.Context, number int, planned scenario.Planned, run *record.Run) (*record.Record, error) {
	r, err := l.trial(ctx, number, planned, run)
	if err != nil {
		return nil, err
	}
	why, spoiled := judge.SpoiledByMachine(r.Checks)
	if !spoiled || r.Profile != "" { // a profile does not depend on how fast things went
		return r, nil
	}
	again, err := l.trial(ctx, number, planned, run)
	if err != nil {
		return nil, err
	}
	again.Warnings = append(again.Warnings, "measured a second time: at first "+why)
	return again, nil
}

// trial runs one trial. If a worker fails, the record has a failure; an error means that
// the run cannot go on.
func (l *Lab) trial(ctx context.Context, number int, planned scenario.Planned, run *record.Run) (*record.Record, error) {
	t := &trial{lab: l, number: number, planned: planned, directory: run.Dir}
	if planned.Cell.Samples {
		t.samplesFile = run.SamplesFile(number)
	}
	started := time.Now()
	r := t.record(started)
	err := t.measure(ctx, r)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		r.Failure = err.Error()
		if errors.Is(err, errCannotGoOn) {
			return nil, err
		}
	}
	r.TookNS = int64(time.Since(started))
	r.Checks = judge.Judge(r, judge.Default())
	return r, nil
}

// errCannotGoOn is wrapped by errors that every further trial would meet too.
var errCannotGoOn = errors.New("the run cannot go on")

// seed returns the seed of a trial's client. It is the same for all cells of a repeat, so
// that compared cells get the same requests at the same times.
func (l *Lab) seed(repeat int) uint64 { return l.Seed + uint64(repeat) }
