package probe

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// resourceUsage reads the kernel's account of the calling process, but for its
// memory: see selfReader.readPeak.
func resourceUsage() (Usage, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return Usage{}, fmt.Errorf("read own resource usage: %w", err)
	}
	return Usage{
		UserNS:              usage.Utime.Nano(),
		SystemNS:            usage.Stime.Nano(),
		VoluntarySwitches:   usage.Nvcsw,
		InvoluntarySwitches: usage.Nivcsw,
		MinorFaults:         usage.Minflt,
		MajorFaults:         usage.Majflt,
	}, nil
}

// processorTime reads the CPU clock of any process, exact to the nanosecond,
// with that of its ended threads, and without special rights.
func processorTime(pid int) (time.Duration, error) {
	// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) of
	// include/linux/posix-timers_types.h, as clock_getcpuclockid(3) does it.
	const scheduled = 2
	clock := int32(^pid<<3 | scheduled)
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		return 0, fmt.Errorf("read CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(now.Nano()), nil
}
