package lab

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"wirelab.dev/internal/base/tuning"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/link"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/peer"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack/catalog"
)

// server is the trial's server: a worker, or a service that already runs at a given address.
type server struct {
	process worker.TrialEnd // nil for a given address
	address string
	trust   secure.Trust
	// congestion is the congestion control of the server's sockets, or "" if unknown.
	congestion string
	// outside reads the cost of a peer, or of a service at a given address. It is nil for a
	// service on another machine, and for wirelab's own worker, which measures its own cost.
	outside *worker.OutsideReader
	service *serviceFamily          // of a service at a given address; nil if it is unknown
	watched []int                   // processes of it that a probe observes
	spent   time.Duration           // by a service at a given address, during the readings
	machine *worker.MachineReadings // of a server on another machine, once it has stopped
}

// startServer starts the server and waits until it listens.
func (t *trial) startServer(ctx context.Context, r *record.Record) (*server, error) {
	if address := t.target(); address != "" {
		given := &server{address: address, trust: t.lab.Trust}
		switch found := newServiceFamily(t.block.watch.Processes(), t.ancestors, t.shared...); {
		case len(found.last) > 0:
			given.service, given.outside = found, worker.ReadCostOf(found.ancestors[0], found.read)
		case len(t.ancestors) > 0 && t.isService():
			r.Warnings = append(r.Warnings, "the CPU time of the service is unknown: the same processes serve both versions")
		}
		t.watchService(given)
		return given, nil
	}
	process, err := t.launch(ctx, worker.Launch{
		Name:    "server " + r.Cell.Variant,
		Command: t.workerCommand(catalog.ServerPeer),
		Spec:    t.serverSpec(),
		Traces:  t.observer.TraceFile(probe.Server),
		In:      t.processSurroundings(t.lab.placement(t.planned.Cell).Server, (*link.Network).EnterServer),
	})
	if err != nil {
		return nil, err
	}
	r.Warnings = append(r.Warnings, process.Warnings()...)
	ctx, cancel := context.WithTimeoutCause(ctx, serverStartTimeout, fmt.Errorf("the server was not ready within %v", serverStartTimeout))
	defer cancel()
	ready, err := process.Ready(ctx)
	if err != nil {
		process.Kill()
		return nil, err
	}
	if err := t.observer.AddProcess(probe.Server, ready.PID); err != nil {
		process.Kill()
		return nil, err
	}
	r.Server.Version, r.Server.GoMaxProcs = ready.Runtime, ready.GoMaxProcs
	r.Settings = tuning.SettingsOf(tuning.Server, ready.Settings)
	listening := &server{process: process, address: ready.Address, congestion: ready.Congestion, trust: secure.Trust{RootPEM: []byte(ready.RootPEM)}}
	if err := t.observer.SetServerPort(listening.port()); err != nil {
		process.Kill()
		return nil, err
	}
	if _, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign && t.in.stage == nil { // agents look there themselves
		listening.outside = worker.ReadCostOfProcess(ready.PID)
	}
	return listening, nil
}

// stop ends the server and returns its measurements of itself. For a given address, it returns only
// the readings from outside. If the server died during the trial, stop returns an error.
func (s *server) stop(ctx context.Context) (worker.ServerResult, error) {
	var nothing worker.ServerResult
	seen := s.outside.StopReading()
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

// pid returns the server's process number. If this number is unknown, it returns wirelab's own
// process number: wirelab is then in the same network as the server.
func (s *server) pid() int {
	switch {
	case s.process != nil:
		return s.process.PID() // 0 on another machine
	case s.outside != nil:
		return s.outside.PID
	}
	return os.Getpid()
}

// pids returns the processes of the server, or nil if they are not on this machine.
func (s *server) pids() []int {
	switch {
	case s.service != nil:
		return s.service.processes()
	case s.process == nil || s.process.PID() == 0:
		return nil
	}
	return host.ReadProcessTable().Family(s.process.PID())
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

// cpuTime returns the CPU time of a server that has stopped, or 0 if it is unknown.
func (s *server) cpuTime() time.Duration {
	if s.process == nil {
		return s.spent
	}
	return s.process.CPU()
}

// workerCommand returns the command that starts an end of the trial. peerOf returns the end's peer.
func (t *trial) workerCommand(peerOf func(scenario.Variant) (peer.Peer, bool)) []string {
	if p, foreign := peerOf(t.planned.Cell.Variant); foreign {
		return t.lab.Peers[p.Name]
	}
	if p, carried := catalog.Carrier(t.planned.Cell.Variant); carried {
		return t.lab.Peers[p.Name]
	}
	if limit := catalog.SmallObject(t.planned.Cell.Variant); limit != 0 {
		return t.lab.Rebuilt[limit]
	}
	return t.lab.Worker
}

// serverSpec returns the spec of the trial's server.
func (t *trial) serverSpec() worker.Spec {
	spec := t.spec(worker.ServerRole, t.in.listenAddress())
	if p, foreign := catalog.ServerPeer(t.planned.Cell.Variant); foreign {
		spec.Stack = catalog.ForPeer(t.planned.Cell.Variant, p, peer.Server).String()
	}
	return spec
}

func (t *trial) spec(role worker.Role, address string) worker.Spec {
	cell := t.planned.Cell
	return worker.Spec{
		Contract: worker.Contract, Role: role, Stack: cell.Variant.String(),
		Workload: worker.Workload{
			Name: cell.Workload, Definition: cmp.Or(t.lab.Definitions[cell.Variant.String()], cell.Definition),
			RequestBytes: int(cell.Size.Request), ResponseBytes: int(cell.Size.Response),
		},
		Address: address, Probe: string(cell.Probe),
		// The probe of CPU time is the only probe that can run in the worker instead of outside.
		ProfileCPU: t.observer.InWorker(),
		MarkChance: t.markChance(),
	}
}
