// Package catalog lists the probes that look on from outside, and starts them.
package catalog

import (
	"wirelab.dev/internal/probe"
	"wirelab.dev/internal/record"
)

// IsOutside reports whether a probe looks on from outside of the processes; others are in
// the worker.
func IsOutside(name string) bool {
	return record.IsProbe(name) && name != record.ProbeAllocations
}

// Try reports whether a probe works here: its error wraps host.ErrUnsupported, and says
// what it takes, where it does not.
func Try(name string) error {
	if !IsOutside(name) {
		return nil
	}
	watch, err := Start(name)
	if err != nil {
		return err
	}
	_, _ = watch.Stop(probe.Measured{}) // it has seen nothing, and says so
	return nil
}
