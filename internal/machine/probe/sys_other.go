//go:build !linux

package probe

import (
	"fmt"
	"runtime"
	"time"

	"wirelab.dev/internal/machine/host"
)

func resourceUsage() (Usage, error) {
	return Usage{}, fmt.Errorf("read own resource usage: %w: it takes Linux, this is %s", host.ErrUnsupported, runtime.GOOS)
}

func processorTime(pid int) (time.Duration, error) {
	return 0, fmt.Errorf("read CPU clock of process %d: %w: it takes Linux, this is %s", pid, host.ErrUnsupported, runtime.GOOS)
}

func suspended() (int64, error) { return 0, nil }

// HugePagesDenied returns false: only Linux denies huge pages.
func HugePagesDenied() bool { return false }

func becomeSentinel(int) error {
	return fmt.Errorf("%w: it takes Linux, this is %s", host.ErrUnsupported, runtime.GOOS)
}

func sleepUntil(int64) {}

// descriptorCount returns 0: the number is not known here.
func descriptorCount(int) (int64, error) { return 0, nil }

func otherDescriptors(int64) int64 { return 0 }
