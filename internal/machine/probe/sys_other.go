//go:build !linux

package probe

import (
	"fmt"
	"time"

	"wirelab.dev/internal/machine/host"
)

func resourceUsage() (Usage, error) {
	return Usage{}, host.NeedsLinux("read the resource usage of this process")
}

func processorTime(pid int) (time.Duration, error) {
	return 0, host.NeedsLinux(fmt.Sprintf("read CPU clock of process %d", pid))
}

func suspendedTime() (ns, calls int64, err error) { return 0, 0, nil }

// HugePagesDenied returns false, because only Linux can disable huge pages.
func HugePagesDenied() bool { return false }

func prepareSentinelThread(int) error { return host.NeedsLinux("watch a CPU") }

func sleepUntil(int64) {}

// descriptorCount returns 0, which means unknown.
func descriptorCount(int) (int64, error) { return 0, nil }

func countNonSockets(int64) (others, calls int64) { return 0, 0 }
