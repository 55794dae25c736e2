//go:build !linux

package price

import (
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// Measure returns an error: probes need Linux.
func Measure(func() (probe.Watch, error)) (Prices, error) {
	return Prices{}, host.NeedsLinux("measure the cost of a probe")
}
