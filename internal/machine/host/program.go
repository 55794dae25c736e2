package host

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// LastingProgram returns a path by which this process can start its own program as long as it
// lives. `go run` removes the program that it made, but the kernel keeps what runs.
func LastingProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program: %w", err)
	}
	const running = "/proc/self/exe" // of a child too, until it starts another
	if _, err := os.Stat(running); err == nil && strings.HasPrefix(own, filepath.Join(os.TempDir(), "go-build")) {
		return running, nil
	}
	return own, nil
}

// InWords describes the machine in one line.
func (info *Info) InWords() string {
	return fmt.Sprintf("%s with %d CPUs, %s %s, Go %s", info.CPUModel, len(info.Topology.Allowed), info.OS, info.Kernel, strings.TrimPrefix(info.Go.Version, "go"))
}
