//go:build !linux

package catalog

import (
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// start starts a probe that needs no kernel support: none.
func start(string) (probe.Watch, error) { return nil, host.NeedsLinux("observe a worker from outside") }
