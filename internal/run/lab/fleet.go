package lab

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"wirelab.dev/internal/base/latency"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/run/worker"
)

// A Fleet runs the ends of trials with agents on other machines.
type Fleet interface {
	// Stage takes agents for a trial whose client has that number of callers, and compares
	// their clocks with this machine's.
	Stage(ctx context.Context, callers int) (Stage, error)
	// Agents returns the number of agents that share that number of callers.
	Agents(callers int) int
}

// ErrTooFewAgents is wrapped by the error of a stage that every further trial would meet, too.
var ErrTooFewAgents = errors.New("too few agents")

// A Stage starts the ends of a trial.
type Stage interface {
	// Address returns the address for a server to listen at.
	Address() string
	// Limits returns the lowest limits of the machines that have clients.
	Limits() host.Limits
	// Start starts an end, as worker.Start does. A client may be one of several machines
	// together: its result then has parts. Instants of results are on this machine's clock.
	Start(ctx context.Context, l worker.Launch) (worker.End, error)
	// End compares the clocks again, and fills in who the agents were, and the paths of their
	// samples.
	End(ctx context.Context, r *record.Record) error
}

// onStage takes the agents of a trial.
func (t *trial) onStage(ctx context.Context) (*surroundings, error) {
	if t.planned.Cell.Network != (scenario.Network{}) {
		return nil, errors.New("a fleet's machines have their own network, and no link is emulated between them: leave out `network` and --link")
	}
	if t.planned.Cell.Probe != "" {
		return nil, fmt.Errorf("probe %s: probes look on from the machine that the ends run on: leave it out, or measure without a fleet", t.planned.Cell.Probe)
	}
	stage, err := t.lab.Fleet.Stage(ctx, t.planned.Cell.Clients)
	if errors.Is(err, ErrTooFewAgents) {
		return nil, fmt.Errorf("%w: %w", errCannotGoOn, err)
	}
	if err != nil {
		return nil, err
	}
	return &surroundings{stage: stage, have: stage.Limits()}, nil
}

// placed returns the CPUs of both ends; nil: unknown, as with several clients.
func (t *trial) placed(s *server) (client, server []int) {
	switch {
	case t.in.stage == nil && s.process == nil:
		return t.lab.Placement.Client, nil
	case t.in.stage == nil:
		return t.lab.Placement.Client, t.lab.Placement.Server
	case s.machine != nil:
		return nil, s.machine.CPUs
	}
	return nil, nil
}

// fillFleet describes the machines, and what each client did.
func (t *trial) fillFleet(ctx context.Context, r *record.Record, s *server, serving worker.ServerResult, parts []worker.Part) error {
	machines := []*worker.Machine{s.machine}
	for _, p := range parts {
		machines = append(machines, p.Result.Machine)
	}
	worker.WithoutSiblings(machines...)
	r.Host = record.HostState{}
	if m := s.machine; m != nil {
		r.Host = m.State
		fillNoise(&r.Host, serving.Noise)
	}
	r.Fleet = &record.Fleet{}
	first := parts[0].Result.Client.BeginNS
	for _, p := range parts {
		first = min(first, p.Result.Client.BeginNS)
	}
	for _, p := range parts {
		one, err := t.fleetClient(p, first)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Agent, err)
		}
		r.Fleet.Clients = append(r.Fleet.Clients, one)
		r.Fleet.OpenedApartNS = max(r.Fleet.OpenedApartNS, one.BeginNS)
	}
	if m := s.machine; m != nil {
		w := window{first, first + r.WindowNS}
		if w.unwatched(m.Watched) == "" {
			r.Server.Gaps = w.gaps(m.Watched)
		}
	}
	if err := t.in.stage.End(ctx, r); err != nil {
		return err
	}
	for i := range r.Fleet.Clients {
		if path := &r.Fleet.Clients[i].SamplesFile; *path != "" {
			var err error
			if *path, err = filepath.Rel(t.directory, *path); err != nil {
				return err
			}
		}
	}
	return nil
}

// fleetClient returns the record of one client and of its machine.
func (t *trial) fleetClient(p worker.Part, first int64) (record.FleetClient, error) {
	c := p.Result.Client
	own := &record.Record{Cell: t.cell(), WindowNS: c.EndNS - c.BeginNS}
	fill(own, c)
	own.Client.Version, own.Client.GoMaxProcs = p.Ready.Runtime, p.Ready.GoMaxProcs
	if m := p.Result.Machine; m != nil {
		own.Client.CPUs, own.Host = m.CPUs, m.State
		if w := (window{c.BeginNS, c.EndNS}); len(m.Watched) > 0 && w.unwatched(m.Watched) == "" {
			own.Client.Gaps = w.gaps(m.Watched)
		}
	}
	applyUsage(&own.Client, c.Usage, own.WindowNS)
	applyAllowance(&own.Client, c.Allowance)
	fillNoise(&own.Host, c.Noise)
	if c.Usage != nil {
		own.Host.SuspendedNS = &c.Usage.SuspendedNS
	}
	times := c.Service
	if c.Response != nil {
		times = *c.Response
	}
	p50, p99, err := quantiles(times)
	if err != nil {
		return record.FleetClient{}, err
	}
	connections := own.Connections
	connections.Connect, connections.Handshake, connections.FirstByte = nil, nil, nil
	one := record.FleetClient{
		Agent: record.Agent{Name: p.Agent}, Clients: p.Clients,
		BeginNS: c.BeginNS - first, WindowNS: own.WindowNS,
		Requests: c.Requests, Completed: c.Completed, Straddling: c.Straddling,
		StraddlingNS: c.StraddlingNS, BacklogNS: c.BacklogNS, InFlight: c.InFlight, Active: c.Active,
		ServiceNS: c.Service.Sum, P50NS: p50, P99NS: p99, MaxNS: times.Max,
		WarmUp: c.WarmUp, Process: own.Client, Connections: connections, Engine: own.Engine, Host: own.Host,
	}
	if c.Pacing != nil {
		one.Pacing = c.Pacing
	}
	for _, f := range c.Failures {
		one.Failed += f.Count
	}
	return one, nil
}

func quantiles(d latency.Distribution) (p50, p99 int64, err error) {
	h, err := d.Decode()
	if err != nil {
		return 0, 0, err
	}
	return int64(h.Quantile(0.5)), int64(h.Quantile(0.99)), nil
}
