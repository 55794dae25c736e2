//go:build !linux

package catalog

import (
	"fmt"
	"runtime"

	"wirelab.dev/internal/host"
	"wirelab.dev/internal/probe"
)

// Start fails.
func Start(name string) (probe.Watch, error) {
	return nil, fmt.Errorf("probe %s: %w: it takes Linux, this is %s", name, host.ErrUnsupported, runtime.GOOS)
}
