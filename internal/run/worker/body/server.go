package body

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/congestion"
	"wirelab.dev/internal/wire/conn"
	"wirelab.dev/internal/wire/secure"
	"wirelab.dev/internal/wire/stack"
	"wirelab.dev/internal/wire/stack/catalog"
)

// shutdownGrace is the time that running calls may take when a server stops.
const shutdownGrace = 2 * time.Second

// NewServer makes the server of a variant with a workload's services on it.
func NewServer(variant string, w worker.Workload) (stack.Server, error) {
	return newServer(variant, w, nil)
}

// newServer also notes the handlers' instants, if it is to.
func newServer(variant string, w worker.Workload, handled *instants) (stack.Server, error) {
	v, s, err := find(variant)
	if err != nil {
		return nil, err
	}
	service, parameters, err := findWorkload(w, v)
	if err != nil {
		return nil, err
	}
	server, err := s.NewServer(catalog.OwnOptions(v))
	if err != nil {
		return nil, err
	}
	if handled != nil {
		service.Register(notedRegistrar{server, handled}, parameters)
	} else {
		service.Register(server, parameters)
	}
	return server, nil
}

// startSampler samples the process that serves, which is mostly this one.
func startSampler(server stack.Server) *probe.Sampler {
	external, ok := server.(stack.ExternalServer)
	if !ok {
		return probe.StartSampler(probe.WithStops(probe.Self), probe.DefaultPeriod)
	}
	other := func() (probe.Usage, error) { return probe.OfProcess(external.PID()) }
	return probe.StartSampler(probe.WithStops(other), otherPeriod)
}

// processOf returns the number of the process that serves.
func processOf(server stack.Server) int {
	if external, ok := server.(stack.ExternalServer); ok {
		return external.PID()
	}
	return os.Getpid()
}

// usedCongestion tells the congestion control of a server that listens; empty if it is in
// another process, which does not tell.
func usedCongestion(s stack.Stack, server stack.Server) string {
	if _, elsewhere := server.(stack.ExternalServer); elsewhere {
		return ""
	}
	if s.Info().QUIC {
		return conn.QUICCongestion
	}
	return strings.Join(congestion.InUse(), ",")
}

// otherPeriod is the time between two readings of another process, which cost more.
const otherPeriod = 5 * probe.DefaultPeriod

// runServer serves until ctx ends, and then reports what it measured of itself.
func runServer(ctx context.Context, spec *task, events *emitter) error {
	noise := spinBefore()
	handled := spec.noteInstants()
	if host, _, err := net.SplitHostPort(spec.Address); err == nil {
		if ip := net.ParseIP(host); ip != nil && !ip.IsUnspecified() {
			secure.AlsoFor(ip) // clients of other machines know the server by it
		}
	}
	server, err := newServer(spec.Stack, spec.Workload, handled)
	if err != nil {
		return err
	}
	variant, s, err := find(spec.Stack)
	if err != nil {
		return err
	}
	address, err := server.Listen(congestion.With(ctx, catalog.Congestion(variant)), spec.Address)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", spec.Address, err)
	}
	sampler, allocations := startSampler(server), spec.watchAllocations()
	if _, elsewhere := server.(stack.ExternalServer); elsewhere {
		spec.ProfileCPU = false
	}
	stacks, err := spec.profileCPU()
	if err != nil {
		return errors.Join(err, server.Close())
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve() }() // ends with the server
	ready := worker.Ready{Address: address.String(), PID: processOf(server)}
	if ready.Settings, err = spec.serverSettings(server); err != nil {
		return errors.Join(err, server.Close())
	}
	ready.Congestion = usedCongestion(s, server)
	if secured, ok := server.(stack.TLSServer); ok {
		ready.RootPEM = string(secured.RootPEM())
	}
	if external, ok := server.(stack.ExternalServer); ok {
		ready.Runtime = external.Program()
	}
	if err := events.ready(ready); err != nil {
		return errors.Join(err, server.Close())
	}
	select {
	case err := <-ended:
		return fmt.Errorf("the server stopped by itself: %w", err)
	case <-ctx.Done():
	}
	result := &worker.ServerResult{Noise: noise, Allocations: allocations()}
	if result.CPU, err = stacks(); err != nil {
		return errors.Join(err, server.Close())
	}
	if handled != nil {
		result.Handled = handled.all()
	}
	usage := sampler.Stop()
	result.Usage = &usage
	result.Allowance = allowance(processOf(server))
	spinAfter(noise)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("shut down: %w", err)
	}
	return events.emit(worker.Event{Event: "result", Result: &worker.Result{Server: result}})
}
