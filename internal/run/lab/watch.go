package lab

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/run/worker"
)

// startWatch starts the trial's probe, if it observes from outside.
func (t *trial) startWatch() error {
	name := string(t.planned.Cell.Probe)
	if !probes.RunsOutsideWorker(name) {
		return nil
	}
	watch, err := probes.Start(name)
	if errors.Is(err, probes.ErrOnlyInWorker) {
		t.inWorker = err
		return nil
	}
	if err != nil {
		return fmt.Errorf("probe %s: %w", name, err)
	}
	t.watch = watch
	return nil
}

// watchProcess makes the probe observe the process of an end.
func (t *trial) watchProcess(end probe.End, pid int) error {
	if t.watch == nil {
		return nil
	}
	return t.watch.AddProcess(end, pid)
}

// watchPort passes the server's port to the probe, if the probe uses ports.
func (t *trial) watchPort(s *server) error {
	if watch, wants := t.watch.(probe.PortWatch); wants {
		return watch.SetServerPort(s.port())
	}
	return nil
}

// recordFindings ends the probe, and records what it found in the window.
func (t *trial) recordFindings(r *record.Record, server *server, serving worker.ServerResult, client *worker.ClientResult) {
	if t.inWorker != nil {
		r.Server.Seen, r.Client.Seen = t.workerFindings(serving.CPU), t.workerFindings(client.CPU)
		return
	}
	if t.watch == nil {
		return
	}
	window := probe.MeasuredWindow{
		Span:  probe.Span{BeginNS: client.BeginNS, EndNS: client.EndNS},
		Calls: client.Calls, Handled: serving.Handled, Port: server.port(),
	}
	findings, err := t.watch.Stop(window)
	t.watch = nil
	if err != nil {
		r.Warnings = append(r.Warnings, "the probe "+r.Probe+" has no findings: "+err.Error())
		return
	}
	r.Server.Seen, r.Client.Seen, r.Life = nilIfUnobserved(findings.Server), nilIfUnobserved(findings.Client), findings.Life
}

// workerFindings returns a worker's findings about itself, which may be nil.
func (t *trial) workerFindings(stacks *record.Stacks) *record.Seen {
	if stacks == nil {
		return &record.Seen{Missing: []string{fmt.Sprintf("all findings: %v", t.inWorker)}}
	}
	coverage := probes.WorkerCoverage(t.inWorker)
	return &record.Seen{Method: coverage.Method, Missing: coverage.Missing, Stacks: stacks}
}

// nilIfUnobserved returns nil for an end that was not observed.
func nilIfUnobserved(s record.Seen) *record.Seen {
	if s.Method == "" && len(s.Missing) == 0 {
		return nil
	}
	return &s
}

// stopWatch ends the probe of a trial that failed.
func (t *trial) stopWatch() {
	if t.watch != nil {
		_, _ = t.watch.Stop(probe.MeasuredWindow{})
	}
}
