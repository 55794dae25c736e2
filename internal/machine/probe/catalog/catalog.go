// Package catalog lists the probes that observe processes from outside, and starts them.
package catalog

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// IsOutside reports whether a probe observes processes from outside, and not in the worker.
func IsOutside(name string) bool {
	return record.IsProbe(name) && name != record.ProbeAllocations
}

// ErrInWorker means that a probe works here only inside workers written in Go.
var ErrInWorker = errors.New("only Go workers can measure this themselves")

// Start starts a probe. Its error wraps host.ErrUnsupported if the machine allows no form of the
// probe, and ErrInWorker if workers can do its work themselves.
func Start(name string) (probe.Watch, error) {
	w, err := start(name)
	if name == record.ProbeCPU && errors.Is(err, host.ErrUnsupported) {
		err = fmt.Errorf("%w: %w", ErrInWorker, err)
	}
	return w, err
}

// Coverage returns how a probe works here. Its error wraps host.ErrUnsupported if it cannot.
func Coverage(name string) (probe.Coverage, error) {
	if !IsOutside(name) {
		return probe.Coverage{Method: "package runtime of Go workers"}, nil
	}
	watch, err := Start(name)
	if errors.Is(err, ErrInWorker) {
		return InWorker(err), nil
	}
	if err != nil {
		return probe.Coverage{}, err
	}
	coverage := watch.Coverage()
	_, _ = watch.Stop(probe.Measured{}) // without a window it has no findings, and fails
	return coverage, nil
}

// InWorker returns the coverage of a worker that does a probe's work itself; why says why it must.
func InWorker(why error) probe.Coverage {
	return probe.Coverage{
		Method:  fmt.Sprintf("runtime/pprof in the worker, %d times per second, from its start to its end", probe.ProfilesPerSecond),
		Missing: []string{fmt.Sprintf("the kernel's part, and workers that are not Go's: %v", why)},
	}
}
