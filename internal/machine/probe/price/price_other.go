//go:build !linux

package price

import (
	"fmt"

	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// Measure fails.
func Measure(func() (probe.Watch, error)) (Prices, error) {
	return Prices{}, fmt.Errorf("measure what a probe costs: %w: it takes Linux", host.ErrUnsupported)
}
