// Package lab carries out a plan: for each trial it places and starts a server
// and a client process, waits for their measurements, judges whether the trial
// is valid, and appends one record.
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
	"time"

	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/judge/check"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/service"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// A Lab runs trials.
type Lab struct {
	// Worker is the program, with its arguments, that reads a spec.
	Worker []string
	// Rebuilt maps a limit of small objects to the Worker whose Go runtime was rebuilt with it.
	Rebuilt map[int][]string
	// Peers are servers in other languages, by their names.
	Peers map[string][]string
	// Targets are the addresses of running servers, by variant or stack.
	Targets map[string]string
	// Trust says which certificates clients over TLS accept from the servers at Targets.
	Trust     secure.Trust
	Placement host.Placement
	Nice      int
	Seed      uint64
	// Observers follow the run; each event goes to all of them, in order.
	Observers []live.Observer
	// Patience bounds the time spent on trials that only the machine spoils; 0: none.
	Patience Patience
	// Live adds figures of the calls to the progress of trials.
	Live bool
	// Fleet, if not nil, runs the ends on other machines.
	Fleet Fleet
	// Remote, if not nil, ends the run early, or pauses it.
	Remote *Remote
	// Staging, if not nil, may change how a worker is launched: package selftest
	// disturbs trials with it, to test the judge.
	Staging func(worker.Role, *worker.Launch)
	// Unwatched leaves the sentinels out, to measure what they cost.
	Unwatched bool

	learnt lessons
	used   time.Duration // of the patience, by earlier calls of Run
	drain  time.Duration // bounds the wait for calls that outlast the window
}

// priority is the nice value of workers: the highest priority.
const priority = -20

// drainAtMost limits the wait for calls that outlast the window.
const drainAtMost = 10 * time.Second

// New makes a lab on this machine whose workers are the given program.
func New(worker []string) *Lab {
	// Workers inherit the limit. If it cannot be raised and matters, connections fail, and
	// the record names it.
	_, _ = host.RaiseFileLimit()
	topology := host.Describe().Topology
	return &Lab{Worker: worker, Placement: host.Place(topology), Nice: priority, Patience: UsualPatience, drain: drainAtMost}
}

// Order returns the plan in the form of a manifest.
func Order(plan []scenario.Planned) []record.PlannedTrial {
	order := make([]record.PlannedTrial, len(plan))
	for i, t := range plan {
		order[i] = record.PlannedTrial{Trial: i, Repeat: t.Repeat, Cell: recordedCell(t.Cell).Key()}
	}
	return order
}

// Cells returns the cells of a plan's records, in the plan's order, without the profiled ones.
func (l *Lab) Cells(plan []scenario.Planned) []record.Cell {
	var cells []record.Cell
	for _, p := range plan {
		if p.Cell.Probe == "" {
			cells = append(cells, (&trial{lab: l, planned: p}).cell())
		}
	}
	return cells
}

// Run runs the trials of the plan that are not done yet, and appends a record as each ends. It
// returns nil early if Remote ended it. If ctx ends, it abandons the running trial and returns
// ctx's cause. A longer plan may be run after one has ended: the patience is shared by all of
// them.
func (l *Lab) Run(ctx context.Context, plan []scenario.Planned, run *record.Run) error {
	e, err := l.execution(plan, run)
	if err != nil {
		return err
	}
	return e.run(ctx)
}

func (l *Lab) observe(e live.Event) {
	for _, observer := range l.Observers {
		observer(e)
	}
}

// seed returns the seed of a trial's client and link. It is the same for all cells of a
// repeat, so that compared cells get the same requests at the same times.
func (l *Lab) seed(repeat int) uint64 { return l.Seed + uint64(repeat) }

// lessons holds, by cell, the longest warm-up that a trial turned out to need, if the judge found
// that its window opened too early.
type lessons map[record.Cell]time.Duration

func (l *Lab) learn(r *record.Record) {
	needed, more := check.WarmUpNeeded(r, check.Default())
	if !more || needed <= l.learnt[r.Cell] {
		return
	}
	if l.learnt == nil {
		l.learnt = lessons{}
	}
	l.learnt[r.Cell] = needed
}

// trial is one trial while it runs.
type trial struct {
	lab         *Lab
	number      int
	planned     scenario.Planned
	directory   string
	samplesFile string        // relative to directory; empty: not kept
	learnt      time.Duration // the warm-up that earlier trials of the cell turned out to need
	in          *surroundings
	watch       probe.Watch // nil: the trial has no probe that observes from outside
	inWorker    error       // why the workers themselves do the work of such a probe
}

// record returns the trial's record with its set-up only.
func (t *trial) record(started time.Time) *record.Record {
	r := &record.Record{
		Version: record.Version, Trial: t.number, Repeat: t.planned.Repeat, Started: started,
		Probe: string(t.planned.Cell.Probe), Cell: t.cell(),
	}
	if work, known := workloads.Work(t.planned.Cell.Workload); known {
		r.WorkNS = (*int64)(&work)
	}
	return r
}

// cell returns the cell in the form of the record.
func (t *trial) cell() record.Cell {
	cell := recordedCell(t.planned.Cell)
	cell.Connection = t.connection().String()
	cell.Load = recordedLoad(t.planned.Cell, t.inFlight())
	cell.Target = t.target()
	if t.lab.Fleet != nil {
		cell.Agents = t.lab.Fleet.Agents(cell.Clients)
	}
	return cell
}

// connection returns the cell's mode, or the stack's default.
func (t *trial) connection() scenario.Connection {
	cell := t.planned.Cell
	s, err := catalog.Find(cell.Variant.Stack)
	if err != nil {
		return cell.Connection // the worker will report that there is no such stack
	}
	return catalog.ConnectionOf(s, cell.Variant, cell.Connection)
}

// target returns the foreign server to use, if any.
func (t *trial) target() string {
	variant := t.planned.Cell.Variant
	if address, ok := t.lab.Targets[variant.String()]; ok {
		return address
	}
	return t.lab.Targets[variant.Stack]
}

// inFlight returns the variant's limit; the variant was checked with the scenario.
func (t *trial) inFlight() int {
	limit, _ := catalog.InFlight(t.planned.Cell.Variant)
	return limit
}

// isService reports whether the trial calls a service of the user's own.
func (t *trial) isService() bool { return t.planned.Cell.Variant.Stack == service.Stack }

// warmUpAtLeast returns the least warm-up of the trial: the scenario's, or the one that earlier
// trials of the cell needed, up to the longest that the scenario allows.
func (t *trial) warmUpAtLeast() time.Duration {
	w := t.planned.Cell.WarmUp
	return min(max(time.Duration(w.AtLeast), t.learnt), max(time.Duration(w.AtMost), time.Duration(w.AtLeast)))
}

// errCannotGoOn is wrapped by errors that would stop every further trial too.
var errCannotGoOn = errors.New("the run cannot go on")
