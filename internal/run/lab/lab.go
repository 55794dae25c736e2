// Package lab carries out a plan: for each trial it places and starts a server
// and a client process, waits for what they measured, judges whether the trial
// may be believed, and appends one record.
//
//	scenario ── Plan ──> plan ── queue ──> trial, trial, … ──> records
//	                              ↑ set back      │
//	                              └───────────────┘ what only the machine spoiled
//
// One trial runs at a time, and one stack is alive at a time. Compared cells
// are interleaved: the plan's order is a shuffle, block by block, from the
// recorded seed. A trial that only the machine spoiled, or too short a warm-up, is measured
// again later (queue).
//
// This package must not compare cells, nor know how a record is shown.
package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/secure"
)

// Order is the plan as a manifest holds it.
func Order(plan []scenario.Planned) []record.PlannedTrial {
	order := make([]record.PlannedTrial, len(plan))
	for i, t := range plan {
		order[i] = record.PlannedTrial{Trial: i, Repeat: t.Repeat, Cell: recordedCell(t.Cell).Key()}
	}
	return order
}

// Cells returns the cells that the records of a plan will have, in its order. It leaves out
// cells that are only profiled.
func (l *Lab) Cells(plan []scenario.Planned) []record.Cell {
	var cells []record.Cell
	for _, p := range plan {
		if p.Cell.Probe == "" {
			cells = append(cells, (&trial{lab: l, planned: p}).cell())
		}
	}
	return cells
}

// A Lab runs trials.
type Lab struct {
	// Worker is the program, with its arguments, that reads a spec.
	Worker []string
	// Rebuilt holds Workers whose Go runtime has another limit of small objects, by that limit.
	Rebuilt map[int][]string
	// Peers are servers in other languages, by their names.
	Peers map[string][]string
	// Targets are the addresses of servers that already run, by variant or stack;
	// their trials start no server.
	Targets map[string]string
	// Trust says which certificates clients over TLS accept from the servers at Targets.
	Trust     secure.Trust
	Placement host.Placement
	Nice      int
	Seed      uint64
	// Observers follow the run; each event goes to all of them, in order.
	Observers []live.Observer
	// Patience bounds the time spent on trials that only the machine spoils. The zero value
	// records such trials as they are.
	Patience Patience
	// Live adds figures of the calls to the progress of trials.
	Live bool
	// Fleet, if not nil, runs the ends on other machines.
	Fleet Fleet
	// Remote, if not nil, ends the run early, or pauses it.
	Remote *Remote
	// Staging, if not nil, may change how a worker is launched: package selftest
	// falsifies trials with it, to see what the judge says.
	Staging func(worker.Role, *worker.Launch)
	// Unwatched leaves the sentinels out, to measure what they cost.
	Unwatched bool

	learnt lessons
	used   time.Duration // of the patience, by earlier calls of Run
	drain  time.Duration // bounds the wait for calls that outlast the window
}

// priority is the nice value of workers: the highest priority.
const priority = -20

// New makes a lab on this machine whose workers are the given program.
func New(worker []string) *Lab {
	// Workers inherit it. One that cannot be raised shows, if it matters, as
	// connections that fail, and by its name.
	_, _ = host.RaiseFileLimit()
	topology := host.Describe().Topology
	return &Lab{Worker: worker, Placement: host.Place(topology, host.Want{}), Nice: priority, Patience: UsualPatience, drain: drainAtMost}
}

// Run runs the trials of the plan that are not done yet, and appends a record as each
// ends. It returns early, and nil, where Remote ended it. If ctx ends, it abandons the running trial and returns ctx's cause; the run
// holds all earlier trials, and knows which of them were set back. A longer plan may be
// run when one has ended; the patience is for all of them together.
func (l *Lab) Run(ctx context.Context, plan []scenario.Planned, run *record.Run) error {
	e, err := l.execution(plan, run)
	if err != nil {
		return err
	}
	return e.run(ctx)
}

// launch starts a worker, on this machine or on the stage.
func (t *trial) launch(ctx context.Context, launch worker.Launch) (worker.End, error) {
	if t.lab.Staging != nil {
		t.lab.Staging(launch.Spec.Role, &launch)
	}
	if t.in.stage != nil {
		return t.in.stage.Start(ctx, launch)
	}
	process, err := worker.Start(launch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errCannotGoOn, err)
	}
	return process, nil
}

func (l *Lab) observe(e live.Event) {
	for _, observer := range l.Observers {
		observer(e)
	}
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
	t.learnt = l.learnt[r.Cell]
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
	r.Checks = check.Judge(r, check.Default())
	l.learn(r)
	return r, nil
}

// errCannotGoOn is wrapped by errors that every further trial would meet too.
var errCannotGoOn = errors.New("the run cannot go on")

// seed returns the seed of a trial's client and link. It is the same for all cells of a
// repeat, so that compared cells get the same requests at the same times.
func (l *Lab) seed(repeat int) uint64 { return l.Seed + uint64(repeat) }
