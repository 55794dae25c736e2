package syscalls

import (
	"errors"
	"fmt"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// Start counts in the best way that the machine allows.
func Start() (probe.Watch, error) {
	census, err := startCensus()
	if err == nil {
		return census, nil
	}
	if !errors.Is(err, host.ErrUnsupported) {
		return nil, err
	}
	tracepoints, err2 := startTracepoints()
	if err2 == nil {
		tracepoints.lacks("the times of calls, and calls of other names: %w", err)
		return tracepoints, nil
	}
	if !errors.Is(err2, host.ErrUnsupported) {
		return nil, err2
	}
	procfs, err3 := startProcfs()
	if err3 == nil {
		procfs.lacks("calls by name, and their times: %w", err)
		return procfs, nil
	}
	return nil, fmt.Errorf("%w; tracepoints: %w; /proc: %w", err, err2, err3)
}
