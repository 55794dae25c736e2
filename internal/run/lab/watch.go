package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

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

// watchService makes the probe observe the processes of a user's service. What cannot be observed goes
// into t.unobserved, and the trial goes on with the client alone.
func (t *trial) watchService(s *server) {
	if t.watch == nil {
		return
	}
	s.watched = s.service.processes()
	for _, pid := range s.watched {
		// A process may have ended since it was found.
		if err := t.watch.AddProcess(probe.Server, pid); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.unobserved = append(t.unobserved, fmt.Sprintf("process %d of the service: %v", pid, err))
		}
	}
	switch {
	case len(s.watched) > 0:
	case !filepath.IsAbs(s.address) && !IsOwnAddress(s.address):
		t.unobserved = append(t.unobserved, fmt.Sprintf("the service: %s is on another machine; run wirelab there", s.address))
	default:
		t.unobserved = append(t.unobserved, fmt.Sprintf("the service: the processes that listen on %s were not found, as those of another user or of a container; run as root, or name them with --also PID", s.address))
	}
}

// describeUnobserved returns what the probe did not observe of a service, and why.
func (t *trial) describeUnobserved(s *server) []string {
	missing := t.unobserved
	if len(s.watched) == 0 {
		return missing
	}
	started, running := s.service.startedSince(s.watched)
	if what := t.watch.Coverage().Unfollowed; what != "" && started > 0 {
		missing = append(missing, fmt.Sprintf("%d processes that the service started meanwhile: %s", started, what))
	}
	if !running {
		missing = append(missing, "the end of the window: all processes of the service that ran at its beginning have ended")
	}
	return missing
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
		Span:  probe.Span{BeginNS: client.BeginNS, EndNS: client.EndNS, Alone: client.Outside != nil && *client.Outside == 0},
		Calls: client.Calls, Handled: serving.Handled, Port: server.port(),
	}
	unobserved := t.describeUnobserved(server)
	findings, err := t.watch.Stop(window)
	t.watch = nil
	if err != nil {
		findings = probe.Findings{}
		unobserved = append(unobserved, "all figures: "+err.Error())
	}
	findings.Server.Missing = append(findings.Server.Missing, unobserved...)
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
