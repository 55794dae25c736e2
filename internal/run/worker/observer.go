package worker

import (
	"errors"
	"fmt"
	"os"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/probe"
	probes "wirelab.dev/internal/machine/probe/catalog"
	"wirelab.dev/internal/machine/probe/gotrace"
)

// An Observer runs a probe that observes workers of this machine. nil observes nothing.
type Observer struct {
	watch    probe.Watch // nil if the workers observe themselves
	inWorker error       // why the workers observe themselves; nil if they do not
}

// A WindowUser is a TrialEnd whose probe runs on another machine. SetWindow must be called before Stop:
// a server's probe does not know the measured window.
type WindowUser interface {
	SetWindow(window probe.Span)
}

// StartObserver starts a probe. It returns nil for a probe that only works inside workers, and for "".
func StartObserver(name string) (*Observer, error) {
	if !probes.RunsOutsideWorker(name) {
		return nil, nil
	}
	watch, err := probes.Start(name)
	switch {
	case errors.Is(err, probes.ErrOnlyInWorker):
		return &Observer{inWorker: err}, nil
	case err != nil:
		return nil, fmt.Errorf("probe %s: %w", name, err)
	}
	return &Observer{watch: watch}, nil
}

// ObserveTraces returns an observer that follows calls, many at a time, by the execution traces of
// both workers, in turns or of the whole time.
func ObserveTraces(whole bool) (*Observer, error) {
	watch, err := gotrace.Start(whole, nil)
	if err != nil {
		return nil, err
	}
	return &Observer{watch: watch}, nil
}

// InWorker reports whether the workers must sample their own CPU time (Spec.ProfileCPU).
func (o *Observer) InWorker() bool { return o != nil && o.inWorker != nil }

// TraceFile returns the file into which a worker must write its execution traces, or nil.
func (o *Observer) TraceFile(end probe.End) *os.File {
	if o.Watches() {
		if traces, reads := o.watch.(probe.TraceReader); reads {
			return traces.TraceFile(end)
		}
	}
	return nil
}

// Watches reports whether the observer observes processes from outside.
func (o *Observer) Watches() bool { return o != nil && o.watch != nil }

// AddProcess starts to observe a process of the server or the client.
func (o *Observer) AddProcess(end probe.End, pid int) error {
	if !o.Watches() {
		return nil
	}
	return o.watch.AddProcess(end, pid)
}

// SetServerPort passes the server's port to the probe, if the probe uses ports.
func (o *Observer) SetServerPort(port int) error {
	if !o.Watches() {
		return nil
	}
	if watch, wants := o.watch.(probe.PortWatch); wants {
		return watch.SetServerPort(port)
	}
	return nil
}

// WatchRequests makes the probe count the requests that the service at a port has not read, if it can.
func (o *Observer) WatchRequests(port int) {
	if watch, counts := o.watch.(probe.RequestWatch); counts {
		watch.WatchRequests(port)
	}
}

// Unfollowed says what is not observed of the processes that an observed process starts.
func (o *Observer) Unfollowed() string { return o.watch.Coverage().Unfollowed }

// Stop ends the probe and returns its findings. If the probe fails, they say why. profile returns the
// CPU profile of a worker that observed itself, or nil.
func (o *Observer) Stop(window probe.MeasuredWindow, profile func(probe.End) *record.Stacks) (findings probe.Findings) {
	switch {
	case o.InWorker():
		for _, end := range []probe.End{probe.Server, probe.Client} {
			*findings.ForEnd(end) = o.describeProfile(profile(end))
		}
	case o.Watches():
		var err error
		if findings, err = o.watch.Stop(window); err != nil {
			failed := record.Seen{Missing: []string{"all figures: " + err.Error()}}
			findings = probe.Findings{Server: failed, Client: failed}
		}
		o.watch = nil
	}
	return findings
}

func (o *Observer) describeProfile(stacks *record.Stacks) record.Seen {
	if stacks == nil {
		return record.Seen{Missing: []string{fmt.Sprintf("all findings: %v", o.inWorker)}}
	}
	coverage := probes.WorkerCoverage(o.inWorker)
	return record.Seen{Method: coverage.Method, Missing: coverage.Missing, Stacks: stacks}
}

// Discard ends the probe without findings.
func (o *Observer) Discard() {
	if o.Watches() {
		_, _ = o.watch.Stop(probe.MeasuredWindow{}) // fails, because no window was measured
		o.watch = nil
	}
}
