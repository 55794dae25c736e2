package lab

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/data/scenario"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/machine/probe/gotrace"
	"wirelab.dev/internal/run/crowd"
	"wirelab.dev/internal/run/worker"
	"wirelab.dev/internal/wire/service"
)

// startObserver starts the probe of a cell. Calls of several clients, or to a service, are followed by
// execution traces.
func (t *trial) startObserver() (*worker.Observer, error) {
	c := t.planned.Cell
	if c.Probe == record.ProbeLife && (c.Clients > 1 || c.Variant.Stack == service.StackName) {
		return worker.ObserveTraces(t.markChance() > 0)
	}
	return worker.StartObserver(string(c.Probe))
}

// mostTracedCalls is the greatest number of calls in a trace that has no pauses.
const mostTracedCalls = 1_000_000

// markChance returns the chance of a mark if the calls of a cell are too long for turns of tracing, or
// else 0.
func (t *trial) markChance() float64 {
	known, c := t.lab.calls[t.cell().Key()], t.planned.Cell
	window := time.Duration(max(c.Load.Duration, scenario.Duration(time.Second))).Seconds()
	if c.Probe != record.ProbeLife || known.slow < gotrace.LongCall || known.rate*(window+time.Duration(c.WarmUp.AtMost).Seconds()) > mostTracedCalls {
		return 0
	}
	return gotrace.ChanceOf(known.rate * window)
}

// findServers returns the processes of a server that wirelab did not start, if it is on this machine.
func (t *trial) findServers() []int {
	address := t.target()
	switch {
	case t.isService():
		return findService(t.lab.Definitions[t.planned.Cell.Variant.String()], address, t.lab.Also)
	case address == "" || t.lab.Fleet != nil || !IsOwnAddress(address):
		return nil
	}
	network := "tcp"
	if strings.HasSuffix(t.planned.Cell.Variant.Stack, "h3") {
		network = "udp"
	}
	return host.FindListeners(network, address)
}

// watchService makes the probe observe the processes of a user's service. What cannot be observed goes
// into t.unobserved, and the trial goes on with the client alone.
func (t *trial) watchService(s *server) {
	if !t.observer.Watches() {
		return
	}
	s.watched = s.service.processes()
	if len(s.watched) > 0 && t.isService() {
		t.observer.WatchRequests(s.port())
	}
	for _, pid := range s.watched {
		// A process may have ended since it was found.
		if err := t.observer.AddProcess(probe.Server, pid); err != nil && !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
			t.unobserved = append(t.unobserved, fmt.Sprintf("process %d of the service: %v", pid, err))
		}
	}
	if len(s.watched) == 0 {
		what := "the server"
		if t.isService() {
			what = "the service"
		}
		t.unobserved = append(t.unobserved, what+t.whyUnfound(s))
	}
}

// whyUnfound says why the processes of a server that wirelab did not start are unknown.
func (t *trial) whyUnfound(s *server) string {
	switch {
	case len(t.ancestors) > 0:
		return ", because the same processes serve several variants: measure one variant at a time"
	case !filepath.IsAbs(s.address) && !IsOwnAddress(s.address):
		return fmt.Sprintf(": %s is on another machine; run wirelab there", s.address)
	case t.isService():
		return fmt.Sprintf(": the processes that listen on %s were not found, as those of another user or of a container; run as root, or name them with --also PID", s.address)
	}
	return fmt.Sprintf(": the processes that listen on %s were not found, as those of another user or of a container; run as root", s.address)
}

// describeUnobserved returns what the probe did not observe of a service, and why.
func (t *trial) describeUnobserved(s *server) []string {
	missing := t.unobserved
	if len(s.watched) == 0 {
		return missing
	}
	started, running := s.service.startedSince(s.watched)
	if what := t.observer.Unfollowed(); what != "" && started > 0 {
		missing = append(missing, fmt.Sprintf("%d processes that the service started meanwhile: %s", started, what))
	}
	if !running {
		missing = append(missing, "the end of the window: all processes of the service that ran at its beginning have ended")
	}
	return missing
}

// recordFindings ends the probe, and records what it found in the window.
func (t *trial) recordFindings(r *record.Record, server *server, serving worker.ServerResult, client *worker.ClientResult) {
	if t.observer == nil {
		return
	}
	window := probe.MeasuredWindow{Span: client.Window(), Calls: client.Calls, Handled: serving.Handled, Port: server.port()}
	var unobserved []string
	if t.observer.Watches() {
		unobserved = t.describeUnobserved(server)
	}
	findings := t.observer.Stop(window, func(end probe.End) *record.Stacks {
		if end == probe.Server {
			return serving.CPU
		}
		return client.CPU
	})
	findings.Server.Missing = append(findings.Server.Missing, unobserved...)
	r.Server.Seen, r.Client.Seen, r.Life = nilIfUnobserved(findings.Server), nilIfUnobserved(findings.Client), findings.Life
}

// recordAgentFindings records what the agents' probes found, each of its own worker.
func (t *trial) recordAgentFindings(r *record.Record, server *server, clients []worker.ClientPart) {
	if !probes.RunsOutsideWorker(string(t.planned.Cell.Probe)) {
		return
	}
	r.Client.Seen = crowd.MergeSeen(clients)
	switch m := server.machine; {
	case server.process == nil:
		r.Server.Seen = &record.Seen{Missing: []string{fmt.Sprintf("the service: agents observe only the workers that they start, and not what listens on %s; run wirelab there, without a fleet", server.address)}}
	case m == nil || m.Seen == nil:
		r.Server.Seen = &record.Seen{Missing: []string{"all figures: the server's agent sent none"}}
	default:
		r.Server.Seen = m.Seen
	}
}

// nilIfUnobserved returns nil for an end that was not observed.
func nilIfUnobserved(s record.Seen) *record.Seen {
	if s.Method == "" && len(s.Missing) == 0 {
		return nil
	}
	return &s
}
