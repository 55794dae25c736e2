//go:build !linux

package catalog

import (
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
	"wirelab.dev/internal/machine/probe/life"
)

// start starts a probe that needs no kernel support.
func start(name string) (probe.Watch, error) {
	err := host.NeedsLinux("observe a worker from outside")
	if name == record.ProbeLife {
		return life.StartCoarseWatch(err), nil
	}
	return nil, err
}
