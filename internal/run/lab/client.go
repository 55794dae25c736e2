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

// runClient starts the client, waits for its result, and ends it when the clients of the block have
// their results.
func (t *trial) runClient(ctx context.Context, r *record.Record, server *server) (result worker.Result, process worker.TrialEnd, _ error) {
	spec, err := t.clientWorkerSpec(r, server)
	if err != nil {
		return result, nil, fmt.Errorf("%w: %w", errRunMustStop, err)
	}
	calls := spec.Client.CallsFile
	if calls != "" {
		defer func() { _ = os.RemoveAll(filepath.Dir(calls)) }() // the file has a temporary folder of its own
	}
	var watchFailed error
	var outside *worker.OutsideReader
	clientPID := 0 // 0 on another machine
	var seconds []record.Second
	process, err = t.launch(ctx, worker.Launch{
		Name:    "client " + r.Cell.Variant,
		Command: t.workerCommand(catalog.ClientPeer),
		Spec:    spec,
		Traces:  t.observer.TraceFile(probe.Client),
		In:      t.processSurroundings(t.lab.placement(t.planned.Cell).Client, (*link.Network).EnterClient),
		Silence: maxClientSilence,
		OnStart: func(pid int) {
			watchFailed, clientPID = t.observer.AddProcess(probe.Client, pid), pid
			if calls != "" {
				outside = worker.ReadCostOfProcess(pid)
			}
		},
		OnReady: server.outside.ReadNow, // its load begins now
		OnProgress: func(p live.Progress) {
			if t.lab.Live && clientPID != 0 {
				p.ServerCPU = server.outside.Spent()
				if used, err := probe.ReadProcess(clientPID); err == nil {
					p.ClientCPU = used.CPU()
				}
			}
			t.block.progress(t, p)
		},
		OnInterval: func(i worker.Interval) { seconds = append(seconds, record.Second(i)) },
	})
	if err != nil {
		return result, nil, err
	}
	r.Warnings = append(r.Warnings, process.Warnings()...)
	t.block.joins(&member{trial: t, server: server.process, client: process}, server.pids())
	t.lab.Remote.attachClient(process)
	defer t.lab.Remote.detachClient(process)
	result, err = process.Result(ctx)
	t.block.leaves(ctx, t)
	costs := outside.StopReading()
	if err = errors.Join(err, watchFailed); err != nil {
		process.Kill()
		return result, process, err
	}
	if ready, err := process.Ready(ctx); err == nil {
		r.Client.Version, r.Client.GoMaxProcs = ready.Runtime, ready.GoMaxProcs
		r.Settings = tuning.Join(r.Settings, tuning.SettingsOf(tuning.Client, ready.Settings))
	}
	if err := process.Stop(); err != nil {
		return result, process, err
	}
	if result.Client == nil {
		return result, process, fmt.Errorf("client %s: the result lacks the part `client`", r.Cell.Variant)
	}
	costs.AddToClient(result.Client)
	for i := range seconds {
		seconds[i].StartNS -= result.Client.BeginNS
	}
	r.Seconds = seconds
	return result, process, nil
}

// clientWorkerSpec returns the spec of the trial's client. A peer writes its calls to a file in a
// new folder, which runClient removes.
func (t *trial) clientWorkerSpec(r *record.Record, server *server) (worker.Spec, error) {
	spec := t.spec(worker.ClientRole, server.address)
	spec.Client = t.clientLoadSpec(r)
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

func (t *trial) clientLoadSpec(r *record.Record) *worker.ClientSpec {
	cell, load := t.planned.Cell, r.Cell.Load
	model, arrivals := cell.Load.Model, cell.Load.Arrivals
	if model == scenario.Sustained { // the worker contract calls this load an open loop
		model, arrivals = scenario.Open, scenario.Constant
	}
	spec := &worker.ClientSpec{
		Clients:    cell.Clients,
		Connection: r.Cell.Connection,
		Seed:       t.lab.seed(t.planned.Repeat),
		Sources:    t.demand().sources(t.in.have),
		Live:       t.lab.Live,
		Block:      t.block.isShared(),
		Load: worker.Load{
			Model:             model,
			RequestsPerClient: load.RequestsPerClient,
			Stages:            load.RateStages(),
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
	if model == scenario.Closed {
		spec.Load.RequestsPerClient += load.TotalRequests / cell.Clients
		spec.Load.ExtraRequests = load.TotalRequests % cell.Clients
	} else {
		spec.Load.TotalRequests = load.TotalRequests
	}
	if t.lab.Series {
		spec.IntervalNS = int64(time.Second)
	}
	if t.block.isShared() {
		spec.Load.DurationNS = int64(t.block.window)
	}
	if t.samplesFile != "" {
		spec.SamplesFile = filepath.Join(t.directory, t.samplesFile)
	}
	return spec
}

const (
	// firstAnswerTimeout limits the first wait for a target's answer. After it, tryTarget checks
	// what listens there.
	firstAnswerTimeout = 1500 * time.Millisecond
	// lateAnswerTimeout limits the second wait, if the listener may speak the wanted protocol.
	lateAnswerTimeout = 5 * time.Second
	// targetTries is the number of calls before a target counts as failed: a target that fails
	// only sometimes can be measured.
	targetTries = 3
)

// TryTargets calls each target server of the plan once. It returns the first fault in the plan's
// order, or nil. It ends early when ctx ends.
func (l *Lab) TryTargets(ctx context.Context, plan []scenario.PlannedCell) *reach.Fault {
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

// tryTarget calls the trial's target. If no answer comes, but the right server may listen there,
// it calls again and waits longer.
func (t *trial) tryTarget(ctx context.Context) *reach.Fault {
	work, _ := workloads.SimulatedWork(t.planned.Cell.Workload)
	err := t.callTarget(ctx, firstAnswerTimeout+work)
	if err == nil || ctx.Err() != nil {
		return nil
	}
	fault := &reach.Fault{Variant: t.planned.Cell.Variant, Address: t.target(), Found: reach.Probe(ctx, t.target())}
	if isLate(err) && fault.MayMatch() {
		if err = t.callTarget(ctx, lateAnswerTimeout+work); err == nil || ctx.Err() != nil {
			return nil
		}
	}
	fault.Err, fault.Class = err, failure.Of(err)
	return fault
}

// callTarget makes one call, and repeats the call if it fails before the patience is over.
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
	for range targetTries {
		if err = body.TryCall(ctx, &spec); err == nil || ctx.Err() != nil || failure.Of(err) == failure.Refused {
			return err
		}
	}
	return err
}

// isLate reports whether a call failed only because no answer came in time.
func isLate(err error) bool {
	class := failure.Of(err)
	return class == failure.Deadline || class == failure.HandshakeTimeout
}
