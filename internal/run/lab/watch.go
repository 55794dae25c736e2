package lab

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/worker"
)

// startWatch starts the trial's probe, if it has one that looks on from outside.
func (t *trial) startWatch() error {
	name := string(t.planned.Cell.Probe)
	if !probes.IsOutside(name) {
		return nil
	}
	watch, err := probes.Start(name)
	if errors.Is(err, probes.ErrInWorker) {
		t.inWorker = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", name, err)
	}
	t.watch = watch
	return nil
}

// watchProcess shows the probe the process of an end.
func (t *trial) watchProcess(end probe.End, pid int) error {
	if t.watch == nil {
		return nil
	}
	return t.watch.Process(end, pid)
}

// watchPort tells the probe where the server listens, if it wants to know.
func (t *trial) watchPort(s *server) error {
	if watch, wants := t.watch.(probe.PortWatch); wants {
		return watch.Listens(s.port())
	}
	return nil
}

// see ends the probe, and fills in what it saw in the window.
func (t *trial) see(r *record.Record, server *server, serving worker.ServerResult, client *worker.ClientResult) {
	if t.inWorker != nil {
		r.Server.Seen, r.Client.Seen = t.seenInWorker(serving.CPU), t.seenInWorker(client.CPU)
		return
	}
	if t.watch == nil {
		return
	}
	window := probe.Measured{
		Span:  probe.Span{BeginNS: client.BeginNS, EndNS: client.EndNS},
		Calls: client.Calls, Handled: serving.Handled, Port: server.port(),
	}
	findings, err := t.watch.Stop(window)
	t.watch = nil
	if err != nil {
		r.Warnings = append(r.Warnings, "the probe "+r.Probe+" saw nothing: "+err.Error())
		return
	}
	r.Server.Seen, r.Client.Seen, r.Life = seen(findings.Server), seen(findings.Client), findings.Life
}

// seenInWorker returns what a worker saw of itself, which may be nothing.
func (t *trial) seenInWorker(stacks *record.Stacks) *record.Seen {
	if stacks == nil {
		return &record.Seen{Missing: []string{fmt.Sprintf("all: %v", t.inWorker)}}
	}
	coverage := probes.InWorker(t.inWorker)
	return &record.Seen{Method: coverage.Method, Missing: coverage.Missing, Stacks: stacks}
}

// seen is absent where nothing was looked for at an end.
func seen(s record.Seen) *record.Seen {
	if s.Method == "" && len(s.Missing) == 0 {
		return nil
	}
	return &s
}

// stopWatch ends the probe of a trial that failed.
func (t *trial) stopWatch() {
	if t.watch != nil {
		_, _ = t.watch.Stop(probe.Measured{})
	}
}
