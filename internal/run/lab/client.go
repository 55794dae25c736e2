package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"time"

	"wirelab.dev/internal/base/failure"
	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/run/worker/body"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/service/reach"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// runClient starts the client, waits for its result, and ends it, while a sentinel watches.
func (t *trial) runClient(ctx context.Context, r *record.Record, server *server) (result worker.Result, process worker.End, seen watched, _ error) {
	spec, err := t.callingSpec(r, server)
	if err != nil {
		return result, nil, seen, fmt.Errorf("%w: %w", errCannotGoOn, err)
	}
	calls := spec.Client.CallsFile
	if calls != "" {
		defer func() { _ = os.RemoveAll(filepath.Dir(calls)) }() // it is in the folder for temporary files
	}
	var watchFailed error
	var outside *worker.Outsider
	process, err = t.launch(ctx, worker.Launch{
		Name:    "client " + r.Cell.Variant,
		Command: t.program(catalog.ClientPeer),
		Spec:    spec,
		In:      t.surroundings(t.lab.Placement.Client, (*link.Network).EnterClient),
		Silence: clientSilence,
		OnStart: func(pid int) {
			watchFailed = t.watchProcess(probe.Client, pid)
			if calls != "" {
				outside = worker.OutsideOf(pid)
			}
		},
		OnProgress: func(p live.Progress) { t.lab.observe(p) },
	})
	if err != nil {
		return result, nil, seen, err
	}
	r.Warnings = append(r.Warnings, process.Warnings()...)
	sentinel := t.startSentinel(server.process, process)
	defer func() { seen.cpus, seen.cost = sentinel.Stop(ctx) }()
	t.lab.Remote.attach(process)
	defer t.lab.Remote.attach(nil)
	result, err = process.Result(ctx)
	costs := outside.LookBack()
	if err = errors.Join(err, watchFailed); err != nil {
		process.Kill()
		return result, process, seen, err
	}
	if ready, err := process.Ready(ctx); err == nil {
		r.Client.Version, r.Client.GoMaxProcs = ready.Runtime, ready.GoMaxProcs
		r.Settings = tuning.Join(r.Settings, tuning.At(tuning.Client, ready.Settings))
	}
	if err := process.Stop(); err != nil {
		return result, process, seen, err
	}
	if result.Client == nil {
		return result, process, seen, fmt.Errorf("client %s: its result lacks the part `client`", r.Cell.Variant)
	}
	costs.AddTo(result.Client)
	return result, process, seen, nil
}

// callingSpec returns the spec of the trial's client. A peer writes its calls to a file, in a folder
// of its own that runClient removes.
func (t *trial) callingSpec(r *record.Record, server *server) (worker.Spec, error) {
	spec := t.spec(worker.ClientRole, server.address)
	spec.Client = t.clientSpec(r)
	spec.Client.RootPEM, spec.Client.SkipVerify = string(server.trust.RootPEM), server.trust.SkipVerify
	p, foreign := catalog.ClientPeer(t.planned.Cell.Variant)
	if !foreign {
		return spec, nil
	}
	spec.Stack = catalog.ForPeer(t.planned.Cell.Variant, p, peer.Client).String()
	folder, err := os.MkdirTemp("", "wirelab-calls-")
	spec.Client.CallsFile = filepath.Join(folder, "calls")
	return spec, err
}

func (t *trial) clientSpec(r *record.Record) *worker.ClientSpec {
	cell, load := t.planned.Cell, r.Cell.Load
	model, arrivals := cell.Load.Model, cell.Load.Arrivals
	if model == scenario.Sustained { // an open loop in the worker contract
		model, arrivals = scenario.Open, scenario.Constant
	}
	spec := &worker.ClientSpec{
		Clients:    cell.Clients,
		Connection: r.Cell.Connection,
		Seed:       t.lab.seed(t.planned.Repeat),
		Sources:    t.demand().sources(t.in.have),
		Live:       t.lab.Live,
		Load: worker.Load{
			Model:             model,
			RequestsPerClient: load.RequestsPerClient + load.TotalRequests/cell.Clients,
			ExtraRequests:     load.TotalRequests % cell.Clients,
			RampTo:            load.RampTo,
			Burst:             load.Burst,
			GoalQuantile:      cell.Load.Goal.Percentile / 100,
			GoalNS:            int64(cell.Load.Goal.Limit),
			DurationNS:        load.DurationNS,
			RatePerSecond:     load.RatePerSecond,
			Arrivals:          string(arrivals),
			InFlightLimit:     load.InFlightLimit,
			WarmUpAtLeastNS:   int64(t.warmUpAtLeast()),
			WarmUpAtMostNS:    int64(cell.WarmUp.AtMost),
			DrainNS:           int64(t.lab.drain),
		},
	}
	if t.samplesFile != "" {
		spec.SamplesFile = filepath.Join(t.directory, t.samplesFile)
	}
	return spec
}

const (
	// answerSoon is the wait for a target's answer before looking what listens there.
	answerSoon = 1500 * time.Millisecond
	// answerLate is the wait if the listener may speak the wanted protocol.
	answerLate = 5 * time.Second
	// triesOfTarget is the number of calls of a target that fails at once: a target that fails
	// now and then can be measured.
	triesOfTarget = 3
)

// TryTargets calls each server that is a target of the plan once. It returns the first fault in
// the plan's order, or nil. It ends when ctx ends.
func (l *Lab) TryTargets(ctx context.Context, plan []scenario.Planned) *reach.Fault {
	var targets []*trial
	seen := map[string]bool{}
	for _, planned := range plan {
		t := &trial{lab: l, planned: planned}
		if name := planned.Cell.Variant.String(); t.target() != "" && !seen[name] {
			seen[name] = true
			targets = append(targets, t)
		}
	}
	faults := make([]*reach.Fault, len(targets))
	var trying sync.WaitGroup
	for i, t := range targets {
		trying.Go(func() { faults[i] = t.tryTarget(ctx) })
	}
	trying.Wait()
	return cmp.Or(faults...)
}

// tryTarget calls the trial's target. If the answer is late and may be right, it waits longer.
func (t *trial) tryTarget(ctx context.Context) *reach.Fault {
	work, _ := workloads.Work(t.planned.Cell.Workload)
	err := t.callTarget(ctx, answerSoon+work)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	fault := &reach.Fault{Variant: t.planned.Cell.Variant, Address: t.target(), Found: reach.LookAt(ctx, t.target())}
	if isLate(err) && fault.MayBeRight() {
		if err = t.callTarget(ctx, answerLate+work); err == nil || ctx.Err() != nil {
			return nil
		}
	}
	fault.Err, fault.Class = err, failure.Of(err)
	return fault
}

// callTarget makes one call, and repeats it if it fails before its time is over.
func (t *trial) callTarget(ctx context.Context, patience time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	spec := t.spec(worker.ClientRole, t.target())
	spec.Probe = ""
	spec.Client = &worker.ClientSpec{
		Clients: 1, Connection: t.connection().String(), Seed: t.lab.seed(1),
		RootPEM: string(t.lab.Trust.RootPEM), SkipVerify: t.lab.Trust.SkipVerify,
	}
	var err error
	for range triesOfTarget {
		if err = body.Try(ctx, &spec); err == nil || ctx.Err() != nil || failure.Of(err) == failure.Refused {
			return err
		}
	}
	return err
}

// isLate reports whether a call failed only because there was no answer yet.
func isLate(err error) bool {
	class := failure.Of(err)
	return class == failure.Deadline || class == failure.HandshakeTimeout
}
