package body

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"google.golang.org/grpc"

	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/gotrace"
	"wirelab.dev/internal/run/load"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/sockopt"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
	"wirelab.dev/internal/wire/workload"
	workloads "wirelab.dev/internal/wire/workload/catalog"
)

// shutdownGrace limits how long calls may still run after a server was asked to stop.
const shutdownGrace = 2 * time.Second

// NewServer makes a variant's server for a workload. If around is not nil, the workload registers
// its services with around(server) instead of the server.
func NewServer(variant string, w worker.Workload, around func(grpc.ServiceRegistrar) grpc.ServiceRegistrar) (stack.Server, error) {
	s, err := wirelab().newTask(worker.Spec{Stack: variant, Workload: w})
	if err != nil {
		return nil, err
	}
	return s.newServer(around)
}

func (s *task) newServer(around func(grpc.ServiceRegistrar) grpc.ServiceRegistrar) (stack.Server, error) {
	if s.own == nil {
		return nil, fmt.Errorf("variant %s: wirelab has no server for a user's own service: start the service yourself", s.variant)
	}
	service, parameters, err := s.workload()
	if err != nil {
		return nil, err
	}
	server, err := s.own.NewServer(catalog.OwnOptions(s.variant))
	if err != nil {
		return nil, err
	}
	if around != nil {
		service.Register(around(server), parameters)
	} else {
		service.Register(server, parameters)
	}
	return server, nil
}

// workload returns the spec's workload and the workload's parameters, which it checks.
func (s *task) workload() (workload.Workload, workload.Parameters, error) {
	service, settings, err := workloads.FindIn(s.program.Workloads, s.Workload.Name)
	if err != nil {
		return nil, workload.Parameters{}, err
	}
	p := workload.Parameters{
		RequestBytes: s.Workload.RequestBytes, ResponseBytes: s.Workload.ResponseBytes, Settings: settings, Definition: s.Workload.Definition,
		PooledMessages: catalog.PoolsMessages(s.variant),
	}
	return service, p, service.Check(p)
}

// externalReadPeriod is the time between two readings of another process. It is long, since reading
// another process costs more than reading the own process.
const externalReadPeriod = 5 * probe.DefaultSamplingPeriod

// startTracing makes this process trace itself if the spec asks for it. Another program cannot.
func (s *task) startTracing(elsewhere bool) *gotrace.Recorder {
	if elsewhere || !s.Traces {
		return nil
	}
	const descriptor = 3 // see worker.Launch
	syscall.CloseOnExec(descriptor)
	return gotrace.StartRecorder(os.NewFile(descriptor, "traces"), s.MarkChance > 0)
}

// runServer serves until ctx ends, and then prints the server's measurements of itself. Of the controls, it
// only uses the turns.
func runServer(ctx context.Context, spec *task, controls *load.Controls, events *eventPrinter) error {
	var handled *instantRecorder
	if host, _, err := net.SplitHostPort(spec.Address); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			secure.AddAddress(ip) // clients on other machines use this address
		}
	}
	server, err := spec.newServer(func(to grpc.ServiceRegistrar) grpc.ServiceRegistrar {
		to, handled = spec.wrapRegistrar(to)
		return to
	})
	if err != nil {
		return err
	}
	address, err := server.Listen(sockopt.With(ctx, catalog.Socket(spec.variant)), spec.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	ready := worker.Ready{Address: address.String(), PID: os.Getpid()}
	reading, period := probe.ReadSelf, probe.DefaultSamplingPeriod
	external, elsewhere := server.(stack.ExternalServer)
	if elsewhere {
		ready.PID, ready.Runtime = external.PID(), external.Program()
		reading, period = func() (probe.Usage, error) { return probe.ReadProcess(ready.PID) }, externalReadPeriod
		spec.ProfileCPU = false
	}
	sampler, allocations := probe.StartSamplerWithTurns(probe.WithStoppedTime(reading), period, turnsOf(controls)), spec.watchAllocations()
	stacks, err := spec.profileCPU()
	if err != nil {
		return errors.Join(err, server.Close())
	}
	tracing := spec.startTracing(elsewhere)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends when the server is closed
	if ready.Settings, err = spec.serverSettings(elsewhere); err != nil {
		return errors.Join(err, server.Close())
	}
	switch {
	case elsewhere: // another program does not report its congestion control
	case spec.own.Info().QUIC:
		ready.Congestion = conn.QUICCongestion
	default:
		ready.Congestion = strings.Join(sockopt.InUse(), ",")
	}
	if secured, ok := server.(stack.TLSServer); ok {
		ready.RootPEM = string(secured.RootPEM())
	}
	if err := events.printReady(ready); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the server stopped before it was asked to stop: %w", err)
	case <-ctx.Done():
	}
	result := &worker.ServerResult{Allocations: allocations()}
	result.CPU, err = stacks()
	if err = errors.Join(err, tracing.Stop()); err != nil {
		return errors.Join(err, server.Close())
	}
	if handled != nil {
		result.Handled = handled.allCalls()
	}
	usage := sampler.Stop()
	result.Usage = &usage
	result.Allowance = allowanceOf(ready.PID)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shut down the server: %w", err)
	}
	return events.printEvent(worker.Event{Event: "result", Result: &worker.Result{Server: result}})
}
