package lab

import (
	"context"
	"errors"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

const (
	// serverPatience limits the start of a server.
	serverPatience = 20 * time.Second
	// clientSilence limits the time between two events of a client.
	clientSilence = 30 * time.Second
	// drainAtMost limits the wait for calls that outlast the window.
	drainAtMost = 10 * time.Second
)

// trial is one trial while it runs.
type trial struct {
	lab         *Lab
	number      int
	planned     scenario.Planned
	directory   string
	samplesFile string        // relative to directory; empty: not kept
	learnt      time.Duration // the warm-up that earlier trials of the cell were seen to need
	in          *surroundings
	watch       probe.Watch // nil: the trial has no probe that looks on from outside
	inWorker    error       // why the workers themselves do what such a probe would
}

// record returns the trial's record with its set-up only.
func (t *trial) record(started time.Time) *record.Record {
	r := &record.Record{
		Version: record.Version,
		Trial:   t.number,
		Repeat:  t.planned.Repeat,
		Started: started,
		Probe:   string(t.planned.Cell.Probe),
		Cell:    t.cell(),
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

// recordedCell returns the part of a record's cell that follows from the scenario alone: all
// but the connection, the load and the target.
func recordedCell(cell scenario.Cell) record.Cell {
	return record.Cell{
		Part:    cell.Part,
		Stack:   cell.Variant.Stack,
		Variant: cell.Variant.String(),
		Place:   record.Place{Workload: cell.Workload, Payload: record.Payload{RequestBytes: int(cell.Size.Request), ResponseBytes: int(cell.Size.Response)}, Clients: cell.Clients},
		Network: recordedNetwork(cell.Network),
	}
}

// connection returns the cell's mode, or the stack's default.
func (t *trial) connection() scenario.Connection {
	cell := t.planned.Cell
	s, err := catalog.Find(cell.Variant.Stack)
	if err != nil {
		return cell.Connection // the worker will say that there is no such stack
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

// measure runs the two processes around one window and fills in the record.
func (t *trial) measure(ctx context.Context, r *record.Record) error {
	watch := host.StartWatch()

	var err error
	if t.in, err = t.surround(ctx); err != nil {
		return err
	}
	defer func() { _ = t.in.close() }() // its error comes too late to matter
	r.Limits = t.demand().limits(t.in.have)
	if err := t.startWatch(); err != nil {
		return err
	}
	defer t.stopWatch()
	server, err := t.startServer(ctx, r)
	if err != nil {
		return err
	}
	drops := countDrops(server.pid())
	calling, client, watched, clientErr := t.runClient(ctx, r, server)
	drops(&r.Host)
	r.Link = t.in.linked()
	serverResult, serverErr := server.stop(ctx)
	if err := errors.Join(serverErr, clientErr); err != nil {
		return err
	}
	result := calling.Client

	t.see(r, server, serverResult, result)
	fill(r, result)
	if r.Negotiated != nil {
		r.Negotiated.ServerCongestion = server.congestion
	}
	if t.learnt > 0 {
		r.WarmUp.LearntNS = new(int64(t.warmUpAtLeast()))
	}
	r.Client.CPUs, r.Server.CPUs = t.placed(server)
	r.Client.Allocations, r.Server.Allocations = result.Allocations, serverResult.Allocations
	applyUsage(&r.Client, result.Usage, r.WindowNS)
	switch {
	case server.process != nil:
		t.applyServer(r, serverResult.Usage, result)
	case server.outside != nil:
		t.applyServer(r, serverResult.Usage, result)
	case !t.isService(): // the report of a service says so anyway
		r.Warnings = append(r.Warnings, "the server at "+server.address+" was not started by wirelab: its cost is unknown")
	}
	applyAllowance(&r.Client, result.Allowance)
	applyAllowance(&r.Server, serverResult.Allowance)
	if result.Usage != nil {
		r.Host.SuspendedNS = &result.Usage.SuspendedNS
	}
	warnOfMemory(r)
	fillNoise(&r.Host, serverResult.Noise, result.Noise)
	if t.in.stage != nil {
		if err := t.fillFleet(ctx, r, server, serverResult, calling.Parts); err != nil {
			return err
		}
	} else {
		applyGaps(r, watched.cpus, window{result.BeginNS, result.EndNS})
		watch.Fill(&r.Host, client.CPU()+server.cpu()+watched.cost)
	}
	switch {
	case result.SamplesFailed != "":
		r.Warnings = append(r.Warnings, "the samples were not kept: "+result.SamplesFailed)
	case t.in.stage == nil: // in which each client has its own
		r.SamplesFile = t.samplesFile
	}
	return nil
}

// applyServer cuts the window out of the server's series.
func (t *trial) applyServer(r *record.Record, usage *probe.Series, result *worker.ClientResult) {
	if usage == nil {
		r.Warnings = append(r.Warnings, "the cost of the server is unknown: its worker did not report it")
		return
	}
	window, err := usage.Between(result.BeginNS, result.EndNS)
	if err != nil {
		r.Warnings = append(r.Warnings, "the cost of the server is unknown: "+err.Error())
		return
	}
	applyUsage(&r.Server, &window, r.WindowNS)
	if c := r.Course; c != nil && r.Pauses == 0 {
		c.ServerCPUNS = usage.Stretches(result.BeginNS+c.BeginNS, c.StretchNS, len(c.Calls))
	}
}

// inFlight returns the variant's limit; the variant was checked with the scenario.
func (t *trial) inFlight() int {
	limit, _ := catalog.InFlight(t.planned.Cell.Variant)
	return limit
}
