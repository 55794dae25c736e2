package lab

import (
	"context"
	"errors"
	"fmt"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/stack/catalog"
)

func (e *execution) newTrial(b *block, number int) *trial {
	t := &trial{lab: e.Lab, block: b, number: number, planned: e.plan[number], directory: e.into.Dir}
	if t.planned.Cell.Samples {
		t.samplesFile = e.into.SamplesFile(number)
	}
	t.learnt = e.learnt[t.cell()]
	return t
}

// run runs the trial. A worker's failure is in the record; an error ends the run.
func (t *trial) run(ctx context.Context) (*record.Record, error) {
	defer t.block.leaves(ctx, t)
	if err := t.block.awaitTurn(ctx, t); err != nil {
		return nil, err
	}
	r := t.record(time.Now())
	err := t.measure(ctx, r)
	if cause := context.Cause(ctx); cause != nil {
		return nil, cause
	}
	if err != nil {
		r.Failure = err.Error()
		if errors.Is(err, errRunMustStop) {
			return nil, err
		}
	}
	return r, nil
}

const (
	// serverStartTimeout limits the time until a server is ready.
	serverStartTimeout = 20 * time.Second
	// maxClientSilence limits the time between two events of a client.
	maxClientSilence = 30 * time.Second
)

// measure runs the two processes around one window and fills in the record.
func (t *trial) measure(ctx context.Context, r *record.Record) error {
	var err error
	if t.in, err = t.makeSurroundings(ctx); err != nil {
		return err
	}
	defer func() { _ = t.in.network.Close() }() // an error here comes too late to matter
	r.Limits = t.demand().limits(t.in.have)
	if t.in.stage == nil { // agents observe their own workers
		if t.observer, err = t.startObserver(); err != nil {
			return err
		}
		defer t.observer.Discard()
	}
	server, err := t.startServer(ctx, r)
	if err != nil {
		return err
	}
	drops := startCountingDrops(server.pid())
	calling, client, clientErr := t.runClient(ctx, r, server)
	drops(&r.Host)
	if remote, is := server.process.(worker.WindowUser); is && calling.Client != nil {
		remote.SetWindow(calling.Client.Window())
	}
	serverResult, serverErr := server.stop(ctx)
	r.Link = t.in.network.Stop() // not sooner: a server waits until it hears that its client is gone
	if err := errors.Join(serverErr, clientErr); err != nil {
		return err
	}
	if server.service != nil {
		t.service = server.pids() // also those that have started since
	}
	result := calling.Client

	t.recordFindings(r, server, serverResult, result)
	if t.in.stage != nil {
		t.recordAgentFindings(r, server, calling.Parts)
	}
	fillMeasurement(r, result)
	if r.Negotiated != nil {
		r.Negotiated.ServerCongestion = server.congestion
	}
	if t.learnt > 0 {
		r.WarmUp.LearntNS = new(int64(t.warmUpAtLeast()))
	}
	r.Client.CPUs, r.Server.CPUs = t.endCPUs(server)
	r.Client.Allocations, r.Server.Allocations = result.Allocations, serverResult.Allocations
	applyUsage(&r.Client, result.Usage, r)
	switch {
	case server.process != nil || server.outside != nil:
		t.applyServer(r, serverResult.Usage, result)
	case !t.isService(): // the report of a service always says that
		r.Warnings = append(r.Warnings, "the server at "+server.address+" was not started by wirelab: the cost of this server is unknown"+t.whyUnfound(server))
	}
	applyAllowance(&r.Client, result.Allowance)
	applyAllowance(&r.Server, serverResult.Allowance)
	if result.Usage != nil {
		r.Host.SuspendedNS = &result.Usage.SuspendedNS
	}
	warnAboutMemory(r)
	t.window = windowOf(result)
	t.block.ends(client.CPU() + server.cpuTime())
	t.machine, t.calls = server.machine, calling.Parts
	switch {
	case result.SamplesFailed != "":
		r.Warnings = append(r.Warnings, "the samples were not kept: "+result.SamplesFailed)
	case t.in.stage == nil: // a stage sets the file itself
		r.SamplesFile = t.samplesFile
	}
	return nil
}

// observed fills in what was seen of the machines while the trial's block was measured.
func (t *trial) observed(ctx context.Context, r *record.Record) {
	if r.Failure != "" {
		return
	}
	if t.remark != "" {
		r.Warnings = append(r.Warnings, t.remark)
	}
	if t.in.stage != nil {
		if err := t.fillFleet(ctx, r); err != nil {
			r.Failure = err.Error()
		}
		return
	}
	applyGaps(r, t.block.seen.cpus, t.window)
	applyWaits(r, t.waits, t.window)
	t.block.watch.FillHostState(&r.Host, t.block.spent+t.block.seen.cost, t.block.services()...)
}

// applyServer records the server's cost in the window.
func (t *trial) applyServer(r *record.Record, usage *probe.Series, result *worker.ClientResult) {
	if usage == nil {
		r.Warnings = append(r.Warnings, "the cost of the server is unknown: its worker did not report it")
		return
	}
	window, err := usage.Between(result.CostSpan())
	if err != nil {
		r.Warnings = append(r.Warnings, "the cost of the server is unknown: "+err.Error())
		return
	}
	applyUsage(&r.Server, &window, r)
	if c := r.Course; c != nil && r.Pauses == 0 && len(r.Slices) == 0 {
		c.ServerCPUNS = usage.CPUPerInterval(result.BeginNS+c.BeginNS, c.StretchNS, len(c.Calls))
	}
}

// launch starts a worker, on this machine or on the stage.
func (t *trial) launch(ctx context.Context, launch worker.Launch) (worker.TrialEnd, error) {
	if t.lab.Staging != nil {
		t.lab.Staging(launch.Spec.Role, &launch)
	}
	if t.in.stage != nil {
		return t.in.stage.Start(ctx, launch)
	}
	process, err := worker.Start(launch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errRunMustStop, err)
	}
	return process, nil
}

func (t *trial) demand() trialDemand {
	cell := t.planned.Cell
	return trialDemand{
		clients: cell.Clients, connection: t.connection(), load: cell.Load,
		warmUp: time.Duration(cell.WarmUp.AtMost), delay: cell.Network.RoundTrip() / 2, naive: catalog.Naive(cell.Variant), apart: t.lab.Fleet != nil,
	}
}

// makeSurroundings makes the network that the cell asks for.
func (t *trial) makeSurroundings(ctx context.Context) (*surroundings, error) {
	asked := t.planned.Cell.Network
	if t.lab.Fleet != nil {
		return t.agentSurroundings(ctx)
	}
	if asked == (scenario.Network{}) {
		return &surroundings{have: host.ReadLimits()}, nil
	}
	if address := t.target(); address != "" {
		return nil, fmt.Errorf("the server at %s cannot join the trial's own network: leave out `network`, or let wirelab start the server", address)
	}
	network, err := link.New(linkSettings(asked, t.lab.seed(t.planned.Repeat)))
	if err != nil {
		return nil, fmt.Errorf("make the trial's network: %w", err)
	}
	s := &surroundings{network: network}
	if err := network.InClient(func() { s.have = host.ReadLimits() }); err != nil {
		return nil, errors.Join(err, network.Close())
	}
	return s, nil
}

// agentSurroundings returns the surroundings of a trial on a fleet's agents.
func (t *trial) agentSurroundings(ctx context.Context) (*surroundings, error) {
	if t.planned.Cell.Network != (scenario.Network{}) {
		return nil, errors.New("wirelab emulates no network between a fleet's machines: leave out `network` and --link")
	}
	stage, err := t.block.nextStage(ctx, t.planned.Cell.Clients)
	if errors.Is(err, ErrTooFewAgents) {
		return nil, fmt.Errorf("%w: %w", errRunMustStop, err)
	}
	if err != nil {
		return nil, err
	}
	return &surroundings{stage: stage, have: stage.Limits()}, nil
}

// processSurroundings returns the CPUs, the priority and the network for a process of the trial.
func (t *trial) processSurroundings(cpus []int, enter func(*link.Network) error) host.StartOptions {
	in := host.StartOptions{CPUs: cpus, Nice: t.lab.Nice}
	if t.in.network != nil {
		in.Enter = func() error { return enter(t.in.network) }
	}
	return in
}

// placement returns the CPUs on which a cell's client and server run.
func (l *Lab) placement(c scenario.Cell) host.Placement {
	switch {
	case catalog.SharesCPUs(c):
		return l.Placement.Shared()
	case catalog.CPUs(c.Variant) == catalog.OneCPU:
		return l.Placement.OneEach()
	}
	return l.Placement
}

// endCPUs returns the CPUs of both ends. nil means unknown, for example with several clients.
func (t *trial) endCPUs(s *server) (client, server []int) {
	at := t.lab.placement(t.planned.Cell)
	switch {
	case t.in.stage == nil && s.process == nil:
		return at.Client, nil
	case t.in.stage == nil:
		return at.Client, at.Server
	case s.machine != nil:
		return nil, s.machine.CPUs
	}
	return nil, nil
}

// fillFleet records the machines of the fleet and the measurements of each client.
func (t *trial) fillFleet(ctx context.Context, r *record.Record) error {
	r.Host = record.HostState{}
	if m := t.machine; m != nil {
		r.Host = m.State
		if t.window.whyUnwatched(m.Watched) == "" {
			r.Server.Gaps = t.window.sumGaps(m.Watched)
			t.window.addLost(r.Slices, m.Watched)
		}
	}
	r.Fleet = &record.Fleet{}
	for _, p := range t.calls {
		one, err := t.fleetClient(r, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Agent, err)
		}
		r.Fleet.Clients = append(r.Fleet.Clients, one)
		r.Fleet.OpenedApartNS = max(r.Fleet.OpenedApartNS, one.BeginNS)
	}
	if err := t.in.stage.End(ctx, r); err != nil {
		return err
	}
	if r.SamplesFile != "" { // the stage has written this file
		r.SamplesFile = t.samplesFile
	}
	return nil
}

// machines returns the readings of the machines of a fleet's trial.
func (t *trial) machines() []*worker.MachineReadings {
	all := []*worker.MachineReadings{t.machine}
	for _, p := range t.calls {
		all = append(all, p.Result.Machine)
	}
	return all
}

// fleetClient returns the record of one client of a trial, and of its machine.
func (t *trial) fleetClient(r *record.Record, p worker.ClientPart) (record.FleetClient, error) {
	c := p.Result.Client
	own := &record.Record{Cell: t.cell(), WindowNS: c.EndNS - c.BeginNS}
	fillMeasurement(own, c)
	own.Client.Version, own.Client.GoMaxProcs = p.Ready.Runtime, p.Ready.GoMaxProcs
	if m := p.Result.Machine; m != nil {
		own.Client.CPUs, own.Host = m.CPUs, m.State
		if w := windowOf(c); len(m.Watched) > 0 && w.whyUnwatched(m.Watched) == "" {
			own.Client.Gaps = w.sumGaps(m.Watched)
			w.addLost(r.Slices, m.Watched)
		}
	}
	applyUsage(&own.Client, c.Usage, own)
	applyAllowance(&own.Client, c.Allowance)
	if c.Usage != nil {
		own.Host.SuspendedNS = &c.Usage.SuspendedNS
	}
	times := c.Service
	if c.Response != nil {
		times = *c.Response
	}
	latencies, err := times.Decode()
	if err != nil {
		return record.FleetClient{}, err
	}
	connections := own.Connections
	connections.Connect, connections.Handshake, connections.FirstByte = nil, nil, nil
	one := record.FleetClient{
		Agent: record.Agent{Name: p.Agent}, Clients: p.Clients,
		BeginNS: c.BeginNS - t.window[0].beginNS, WindowNS: own.WindowNS,
		Requests: c.Requests, Completed: c.Completed, Straddling: c.Straddling,
		StraddlingNS: c.StraddlingNS, BacklogNS: c.BacklogNS, InFlight: c.InFlight, Active: c.Active,
		ServiceNS: c.Service.Sum, P50NS: int64(latencies.Quantile(0.5)), P99NS: int64(latencies.Quantile(0.99)), MaxNS: times.Max,
		WarmUp: c.WarmUp, Pacing: c.Pacing, Process: own.Client, Connections: connections, Engine: own.Engine, Host: own.Host,
	}
	for _, f := range c.Failures {
		one.Failed += f.Count
	}
	return one, nil
}
