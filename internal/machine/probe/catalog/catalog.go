// Package catalog lists the probes that look on from outside, and starts them.
package catalog

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// IsOutside reports whether a probe looks on from outside of the processes; others are in
// the worker.
func IsOutside(name string) bool {
	return record.IsProbe(name) && name != record.ProbeAllocations
}

// ErrInWorker means that a probe cannot look on from outside here, but that workers can do
// its work themselves, if they are written in Go.
var ErrInWorker = errors.New("only Go workers themselves can tell")

// inWorker adds ErrInWorker to the error of a probe for which it is so.
func inWorker(name string, err error) error {
	if name == record.ProbeCPU && errors.Is(err, host.ErrUnsupported) {
		return fmt.Errorf("%w: %w", ErrInWorker, err)
	}
	return err
}

// Ability is how a probe sees here. Its error wraps host.ErrUnsupported where it sees
// nothing, and says what it takes.
func Ability(name string) (probe.Ability, error) {
	if !IsOutside(name) {
		return probe.Ability{Method: "package runtime of Go workers"}, nil
	}
	watch, err := Start(name)
	if errors.Is(err, ErrInWorker) {
		return InWorker(err), nil
	}
	if err != nil {
		return probe.Ability{}, err
	}
	ability := watch.Ability()
	_, _ = watch.Stop(probe.Measured{}) // it has seen nothing, and says so
	return ability, nil
}

// InWorker is the ability of a worker that does a probe's work, as nothing else can.
func InWorker(why error) probe.Ability {
	return probe.Ability{
		Method:  fmt.Sprintf("runtime/pprof in the worker, %d a second, from its start to its end", probe.ProfilesPerSecond),
		Missing: []string{fmt.Sprintf("the kernel's part, and workers that are not Go's: %v", why)},
	}
}
