package probe

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// resourceUsage reads all figures except the memory: see selfReader.readMemory.
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

// processorTime reads the CPU clock of any process: exact, ended threads included.
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

// HugePagesDenied reports whether this process may use no transparent huge pages, because the
// program that started it set PR_SET_THP_DISABLE (prctl(2)).
func HugePagesDenied() bool {
	denied, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	return err == nil && denied != 0
}

// suspended returns how long the machine has slept since it started, to a millisecond:
// CLOCK_BOOTTIME goes on while the machine sleeps, CLOCK_MONOTONIC stops (clock_gettime(2)).
func suspended() (int64, error) {
	const tries, quick = 4, 10 * time.Microsecond
	var slept time.Duration
	for range tries { // the thread may lose its CPU between the readings
		var before, all, after unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
			return 0, fmt.Errorf("read monotonic clock: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &all); err != nil {
			return 0, fmt.Errorf("read boot clock: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
			return 0, fmt.Errorf("read monotonic clock: %w", err)
		}
		slept = time.Duration(all.Nano() - before.Nano())
		if time.Duration(after.Nano()-before.Nano()) < quick {
			break
		}
	}
	return int64(max(0, slept).Round(time.Millisecond)), nil
}

// becomeSentinel pins the calling thread, which is not used afterwards. It asks for timers that
// the kernel does not delay to save wakings (PR_SET_TIMERSLACK).
func becomeSentinel(cpu int) error {
	if err := host.PinThread([]int{cpu}); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// sleepUntil sleeps in the kernel without Go's scheduler, which would delay the thread after the
// sleep. A signal, such as Go's own, does not end the sleep.
func sleepUntil(instantNS int64) {
	until := unix.NsecToTimespec(instantNS)
	for {
		_, _, errno := unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
			uintptr(unsafe.Pointer(&until)), 0, 0, 0)
		if errno != unix.EINTR {
			return
		}
	}
}

// descriptorCount returns the number of open descriptors of the calling process,
// read through a descriptor of /proc/self/fd. It is 0 if the kernel does not count them.
func descriptorCount(folder int) (int64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(folder, &stat); err != nil {
		return 0, fmt.Errorf("count descriptors: %w", err)
	}
	return stat.Size, nil
}

// otherDescriptors counts the open descriptors that are not sockets. open is the number of all.
// The kernel gives out the lowest free number, so they lie close together; the search is still
// bounded.
func otherDescriptors(open int64) int64 {
	var stat unix.Stat_t
	var found, others int64
	for descriptor := 0; found < open && int64(descriptor) < 2*open+1024; descriptor++ {
		if unix.Fstat(descriptor, &stat) != nil {
			continue // not open
		}
		found++
		if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
			others++
		}
	}
	return others
}
