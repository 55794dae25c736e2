package lab

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/live"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack/catalog"
)

// server is the trial's server: a worker, or a given address.
type server struct {
	process worker.End // nil for a given address
	address string
	trust   secure.Trust
	// congestion is the congestion control of its sockets, as far as it is known.
	congestion string
	// outside reads the cost of a peer, or of a service at a given address. It is nil for
	// wirelab's own worker, which reads its own cost, and for a service on another machine.
	outside *worker.Outsider
	spent   time.Duration   // by a service at a given address, while it was seen
	machine *worker.Machine // of a server on another, once it has stopped
}

// startServer starts the server and waits until it listens.
func (t *trial) startServer(ctx context.Context, r *record.Record) (*server, error) {
	if address := t.target(); address != "" {
		given := &server{address: address, trust: t.lab.Trust}
		if t.isService() {
			given.outside = t.findService(address)
		}
		return given, nil
	}
	process, err := t.launch(ctx, worker.Launch{
		Name:    "server " + r.Cell.Variant,
		Command: t.serverProgram(),
		Spec:    t.serverSpec(),
		In:      t.in.server(t.lab),
	})
	if err != nil {
		return nil, err
	}
	r.Warnings = append(r.Warnings, process.Warnings()...)
	ctx, cancel := context.WithTimeoutCause(ctx, serverPatience, fmt.Errorf("it was not ready within %v", serverPatience))
	defer cancel()
	ready, err := process.Ready(ctx)
	if err != nil {
		process.Kill()
		return nil, err
	}
	if err := t.watchProcess(probe.Server, ready.PID); err != nil {
		process.Kill()
		return nil, err
	}
	r.Server.Version, r.Server.GoMaxProcs = ready.Runtime, ready.GoMaxProcs
	r.Settings = tuning.At(tuning.Server, ready.Settings)
	listening := &server{process: process, address: ready.Address, congestion: ready.Congestion, trust: secure.Trust{RootPEM: []byte(ready.RootPEM)}}
	if err := t.watchPort(listening); err != nil {
		process.Kill()
		return nil, err
	}
	if _, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign && t.in.stage == nil { // agents look themselves
		listening.outside = worker.OutsideOf(ready.PID)
	}
	return listening, nil
}

// stop ends the server and returns what it measured of itself: nothing for a given
// address. A server that died during the trial is an error here.
func (s *server) stop(ctx context.Context) (worker.ServerResult, error) {
	var nothing worker.ServerResult
	seen := s.outside.LookBack()
	if s.process == nil {
		if seen.Usage != nil {
			s.spent = seen.Usage.CPU()
		}
		return worker.ServerResult{Usage: seen.Usage, Allowance: seen.Allowance}, nil
	}
	if ctx.Err() != nil {
		s.process.Kill()
		return nothing, context.Cause(ctx)
	}
	if err := s.process.Stop(); err != nil {
		return nothing, err
	}
	result, err := s.process.Result(ctx)
	if err != nil || result.Server == nil {
		return nothing, err
	}
	told := *result.Server
	s.machine = result.Machine
	seen.AddToServer(&told)
	return told, nil
}

// pid returns the server's process number. If it is unknown, as that of a given address, pid
// returns wirelab's own, which is in the same network.
func (s *server) pid() int {
	if s.process == nil && s.outside != nil {
		return s.outside.PID
	}
	if s.process == nil {
		return os.Getpid()
	}
	return s.process.PID() // 0 on another machine
}

// port returns the port that the server listens on.
func (s *server) port() int {
	_, text, err := net.SplitHostPort(s.address)
	if err != nil {
		return 0
	}
	port, _ := strconv.Atoi(text)
	return port
}

// cpu returns the CPU time of a server that has stopped, as far as it is known.
func (s *server) cpu() time.Duration {
	if s.process == nil {
		return s.spent
	}
	return s.process.CPU()
}

// runClient starts the client, waits for its result, and ends it. Meanwhile a
// sentinel watches the CPUs of both ends.
func (t *trial) runClient(ctx context.Context, r *record.Record, server *server) (result worker.Result, process worker.End, seen watched, _ error) {
	spec, written, err := t.callingSpec(r, server)
	if err != nil {
		return result, nil, seen, fmt.Errorf("%w: %w", errCannotGoOn, err)
	}
	defer written.remove()
	var watchFailed error
	var outside *worker.Outsider
	process, err = t.launch(ctx, worker.Launch{
		Name:    "client " + r.Cell.Variant,
		Command: t.clientProgram(),
		Spec:    spec,
		In:      t.in.client(t.lab),
		Silence: clientSilence,
		OnStart: func(pid int) {
			watchFailed = t.watchProcess(probe.Client, pid)
			if written != nil {
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

// worker returns the program of the trial's ends.
func (t *trial) worker() []string {
	if limit := catalog.SmallObject(t.planned.Cell.Variant); limit != 0 {
		return t.lab.Rebuilt[limit]
	}
	return t.lab.Worker
}

func (t *trial) spec(role worker.Role, address string) worker.Spec {
	cell := t.planned.Cell
	return worker.Spec{
		Contract: worker.Contract,
		Role:     role,
		Stack:    cell.Variant.String(),
		Workload: worker.Workload{
			Name:          cell.Workload,
			RequestBytes:  int(cell.Size.Request),
			ResponseBytes: int(cell.Size.Response),
			Definition:    cell.Definition,
		},
		Address: address,
		Probe:   string(cell.Probe),
		// Only the probe of CPU time can be in the worker in place of outside.
		ProfileCPU: t.inWorker != nil,
	}
}

func (t *trial) clientSpec(r *record.Record) *worker.ClientSpec {
	cell, load := t.planned.Cell, r.Cell.Load
	spec := &worker.ClientSpec{
		Clients:    cell.Clients,
		Connection: r.Cell.Connection,
		Seed:       t.lab.seed(t.planned.Repeat),
		Sources:    t.demand().sources(t.in.have),
		Live:       t.lab.Live,
		Load: worker.Load{
			Model:             workerModel(cell.Load.Model),
			RequestsPerClient: load.RequestsPerClient + load.TotalRequests/cell.Clients,
			ExtraRequests:     load.TotalRequests % cell.Clients,
			RampTo:            load.RampTo,
			Burst:             load.Burst,
			GoalQuantile:      cell.Load.Goal.Percentile / 100,
			GoalNS:            int64(cell.Load.Goal.Limit),
			DurationNS:        load.DurationNS,
			RatePerSecond:     load.RatePerSecond,
			Arrivals:          workerArrivals(cell.Load),
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

// workerModel returns the load model of the worker contract, where a sustained load is an open
// loop.
func workerModel(m scenario.LoadModel) scenario.LoadModel {
	if m == scenario.Sustained {
		return scenario.Open
	}
	return m
}

func workerArrivals(l scenario.Load) string {
	if l.Model == scenario.Sustained {
		return string(scenario.Constant)
	}
	return string(l.Arrivals)
}

// recordedLoad returns the cell's load; the in-flight limit is an option of every
// variant, and carried out by the load engine.
func recordedLoad(cell scenario.Cell, inFlight int) record.Load {
	l := cell.Load
	recorded := record.Load{
		Model:         string(l.Model),
		DurationNS:    int64(l.Duration),
		RatePerSecond: l.Rate,
		RampTo:        l.To,
		Arrivals:      string(l.Arrivals),
		InFlightLimit: inFlight,
	}
	switch l.Model {
	case scenario.Burst:
		recorded.Burst = l.Requests
	case scenario.Search:
		recorded.Goal = l.Goal.String()
	default:
		recorded.RequestsPerClient, recorded.TotalRequests = l.Requests, l.Total
	}
	return recorded
}
