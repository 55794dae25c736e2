// Package catalog lists and starts the probes that observe processes from outside.
package catalog

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/gotrace"
)

// RunsOutsideWorker reports whether a probe observes a worker's process from outside.
func RunsOutsideWorker(name string) bool {
	return record.IsProbe(name) && name != record.ProbeAllocations
}

// NeedsOneMachine reports whether a probe needs both ends of a connection on one machine.
func NeedsOneMachine(name string) bool { return name == record.ProbeLife }

// ErrOnlyInWorker means that this probe works only inside workers written in Go on this machine.
var ErrOnlyInWorker = errors.New("only Go workers can measure this themselves")

// Start starts a probe. If the machine does not allow the probe, the error wraps
// host.ErrUnsupported. If Go workers can measure the same figures themselves, it wraps
// ErrOnlyInWorker.
func Start(name string) (probe.Watch, error) {
	w, err := start(name)
	if name == record.ProbeLife && errors.Is(err, host.ErrUnsupported) {
		return gotrace.Start(false, fmt.Errorf("the kernel's part of the stages: %w", err))
	}
	if name == record.ProbeCPU && errors.Is(err, host.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", ErrOnlyInWorker, err)
	}
	return w, err
}

// Coverage returns how a probe works on this machine. If it does not work, the error wraps
// host.ErrUnsupported.
func Coverage(name string) (probe.Coverage, error) {
	if !RunsOutsideWorker(name) {
		return probe.Coverage{Method: "package runtime of Go workers"}, nil
	}
	watch, err := Start(name)
	if errors.Is(err, ErrOnlyInWorker) {
		return WorkerCoverage(err), nil
	}
	if err != nil {
		return probe.Coverage{}, err
	}
	coverage := watch.Coverage()
	_, _ = watch.Stop(probe.MeasuredWindow{}) // fails, because no window was measured
	return coverage, nil
}

// WorkerCoverage describes a CPU profile that a worker makes of itself. why says why the probe
// cannot observe the worker from outside.
func WorkerCoverage(why error) probe.Coverage {
	return probe.Coverage{
		Method:  fmt.Sprintf("runtime/pprof in the worker, %d times per second, from its start to its end", probe.ProfileSamplesPerSecond),
		Missing: []string{fmt.Sprintf("stacks in the kernel, and stacks of workers not written in Go: %v", why)},
	}
}
