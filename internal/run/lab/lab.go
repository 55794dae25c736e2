// Package lab carries out a plan: for each trial it places and starts a server and a client
// process, waits for their measurements, judges whether the trial is valid, and appends one record.
//
//	scenario ── Plan ──> plan ──> block, block, … ──> records
//
// One block of trials runs at a time. Mostly it is a single trial; with slices, it is the variants
// of a point, which are alive together and loaded in turn (block). Compared cells are interleaved:
// the plan's order is a shuffle, repeat by repeat, from the recorded seed. Each trial is measured
// once, whatever disturbs it: the judge refuses the figures that a disturbance spoiled.
//
// This package must not compare cells, nor know how a record is shown.
package lab

import (
	"cmp"
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
	// Worker is the command of a worker: the program and its arguments.
	Worker []string
	// Rebuilt maps a limit of small objects to the command of a worker whose Go runtime was
	// rebuilt with this limit.
	Rebuilt map[int][]string
	// Peers maps names to the commands of workers in other languages.
	Peers map[string][]string
	// Targets are the addresses of running servers, by variant or stack.
	Targets map[string]string
	// Definitions define the user's own services, by variant.
	Definitions map[string]string
	// Also names more processes of the user's service. They and their descendants are no neighbours,
	// and their cost is part of the service's cost.
	Also []int
	// Trust says which certificates clients over TLS accept from the servers at Targets.
	Trust     secure.Trust
	Placement host.Placement
	Nice      int
	Seed      uint64
	// Observers follow the run; each event goes to all of them, in order.
	Observers []live.Observer
	// Live adds figures of the calls to the progress of trials.
	Live bool
	// Fleet, if not nil, runs the ends on other machines.
	Fleet Fleet
	// Remote, if not nil, ends the run early, or pauses it.
	Remote *RunControls
	// Staging, if not nil, may change how a worker is launched: package selftest
	// disturbs trials with it, to test the judge.
	Staging func(worker.Role, *worker.Launch)
	// Series records the calls second by second, which costs each client some nanoseconds per call.
	Series bool
	// Anchored measures the anchor before and during the trials (record.AnchorReading).
	Anchored bool
	// Unwatched leaves the sentinels out, to measure what they cost.
	Unwatched bool

	learnt neededWarmUps
	calls  map[string]knownCalls // by the key of the cell
	drain  time.Duration         // limits the wait for calls that outlast the window

	began      time.Time     // when the anchor was first read
	anchorTook time.Duration // time of all its readings
}

// workerNice is the nice value of workers: the highest priority.
const workerNice = -20

// maxDrain limits the wait for calls that outlast the window.
const maxDrain = 10 * time.Second

// New makes a lab on this machine. worker is the command of its workers.
func New(worker []string) *Lab {
	// Workers inherit the limit. If it cannot be raised and is too low, connections fail, and
	// the record names the limit.
	_, _ = host.RaiseFileLimit()
	return &Lab{Worker: worker, Placement: host.Place(host.ReadTopology()), Nice: workerNice, drain: maxDrain}
}

// ManifestOrder returns the trials of a plan as the manifest lists them.
func ManifestOrder(plan []scenario.PlannedCell) []record.PlannedTrial {
	order := make([]record.PlannedTrial, len(plan))
	blocks := map[[2]int]int{} // by repeat and Planned.Block
	for i, t := range plan {
		order[i] = record.PlannedTrial{Trial: i, Repeat: t.Repeat, Cell: recordedCell(t.Cell).Key()}
		if t.Block != 0 {
			key := [2]int{t.Repeat, t.Block}
			if blocks[key] == 0 {
				blocks[key] = 1 + i
			}
			order[i].Block = blocks[key]
		}
	}
	return order
}

// Cells returns the cells of a plan's records, in the plan's order, without trials with a probe.
func (l *Lab) Cells(plan []scenario.PlannedCell) []record.Cell {
	var cells []record.Cell
	for _, p := range plan {
		if p.Cell.Probe == "" {
			cells = append(cells, (&trial{lab: l, planned: p}).cell())
		}
	}
	return cells
}

// Run runs the trials of the plan that are not done yet, and appends a record as each trial ends.
// If Remote ended the run, it returns nil early. If ctx ends, it abandons the running trial and
// returns ctx's cause. Run may be called again with a longer plan.
func (l *Lab) Run(ctx context.Context, plan []scenario.PlannedCell, run *record.Run) error {
	e, err := l.newExecution(plan, run)
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

// seed returns the seed for a trial's client and link. All cells of a repeat have the same seed,
// so that compared cells get the same requests at the same times.
func (l *Lab) seed(repeat int) uint64 { return l.Seed + uint64(repeat) }

// neededWarmUps maps a cell to the longest warm-up that one of its trials needed. It has only the
// cells with a trial whose window opened too early.
type neededWarmUps map[record.Cell]time.Duration

func (l *Lab) learnWarmUp(r *record.Record) {
	needed, more := check.WarmUpNeeded(r, check.DefaultLimits())
	if !more || needed <= l.learnt[r.Cell] {
		return
	}
	if l.learnt == nil {
		l.learnt = neededWarmUps{}
	}
	l.learnt[r.Cell] = needed
}

// knownCalls holds what a trial without a probe showed of a cell's calls.
type knownCalls struct {
	slow time.Duration // the 99th percentile
	rate float64       // per second
}

// learnCalls learns from a trial how long the cell's calls take, before a probe follows them.
func (l *Lab) learnCalls(r *record.Record) {
	times, err := cmp.Or(r.Response, &r.Service).Decode()
	if err != nil || r.Probe != "" || times.Count() == 0 || r.WindowNS <= 0 {
		return
	}
	if l.calls == nil {
		l.calls = map[string]knownCalls{}
	}
	l.calls[r.Cell.Key()] = knownCalls{times.Quantile(0.99), float64(r.Completed) / time.Duration(r.WindowNS).Seconds()}
}

// trial is one trial while it runs.
type trial struct {
	lab         *Lab
	block       *block
	number      int
	planned     scenario.PlannedCell
	directory   string
	samplesFile string        // relative to directory; empty: the samples are not kept
	learnt      time.Duration // the warm-up that earlier trials of the cell needed
	in          *surroundings
	calls       []worker.ClientPart     // of each client of a fleet
	machine     *worker.MachineReadings // of the server of a fleet
	remark      string                  // about the trial's slices, for the record
	observer    *worker.Observer        // nil: the trial has no probe that observes processes of this machine
	unobserved  []string                // what the probe does not observe of a user's service, and why

	hasTurn, rests, left bool            // its state in the block
	window               window          // what was measured; empty if the trial failed
	ancestors            []int           // processes of the user's service that were found before the trial
	shared               []int           // those of them that also serve other trials of the block
	service              []int           // processes of its server, if they are on this machine
	waits                *probe.Readings // how long its ends waited for a CPU; nil if they are not on this machine
}

// record returns a record that contains only the trial's set-up.
func (t *trial) record(started time.Time) *record.Record {
	r := &record.Record{
		Version: record.Version, Trial: t.number, Repeat: t.planned.Repeat, Started: started,
		Probe: string(t.planned.Cell.Probe), Cell: t.cell(),
	}
	if work, known := workloads.SimulatedWork(t.planned.Cell.Workload); known {
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
		return cell.Connection // the worker will report the unknown stack
	}
	return catalog.ConnectionOf(s, cell.Variant, cell.Connection)
}

// target returns the address of the already running server to measure, or "".
func (t *trial) target() string {
	variant := t.planned.Cell.Variant
	if address, ok := t.lab.Targets[variant.String()]; ok {
		return address
	}
	return t.lab.Targets[variant.Stack]
}

// inFlight returns the variant's in-flight limit. The scenario's check has checked the variant.
func (t *trial) inFlight() int {
	limit, _ := catalog.InFlight(t.planned.Cell.Variant)
	return limit
}

// isService reports whether the trial calls a service of the user's own.
func (t *trial) isService() bool { return t.planned.Cell.Variant.Stack == service.StackName }

// warmUpAtLeast returns the shortest warm-up of the trial: the scenario's minimum, or a longer one
// that earlier trials of the cell needed. It is never above the scenario's maximum.
func (t *trial) warmUpAtLeast() time.Duration {
	w := t.planned.Cell.WarmUp
	return min(max(time.Duration(w.AtLeast), t.learnt), max(time.Duration(w.AtMost), time.Duration(w.AtLeast)))
}

// errRunMustStop is wrapped by errors that every further trial would meet, too.
var errRunMustStop = errors.New("the run cannot go on")
