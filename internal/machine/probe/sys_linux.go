package probe

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// resourceUsage reads CPU times, switches and faults. selfReader.readMemory reads the memory.
func resourceUsage() (Usage, error) {
	var usage unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &usage); err != nil {
		return Usage{}, fmt.Errorf("read the resource usage of this process: %w", err)
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

func processorTime(pid int) (time.Duration, error) {
	// MAKE_PROCESS_CPUCLOCK(pid, CPUCLOCK_SCHED) in include/linux/posix-timers_types.h;
	// clock_getcpuclockid(3) computes the same.
	const scheduled = 2
	clock := int32(^pid<<3 | scheduled)
	var now unix.Timespec
	if err := unix.ClockGettime(clock, &now); err != nil {
		return 0, fmt.Errorf("read CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(now.Nano()), nil
}

// HugePagesDenied reports whether the program that started this process disabled transparent huge
// pages with PR_SET_THP_DISABLE (prctl(2)).
func HugePagesDenied() bool {
	denied, err := unix.PrctlRetInt(unix.PR_GET_THP_DISABLE, 0, 0, 0, 0)
	return err == nil && denied != 0
}

// suspendedTime returns for how long the machine was suspended since it started, in nanoseconds
// rounded to milliseconds. During a suspension, CLOCK_MONOTONIC stops and CLOCK_BOOTTIME continues
// (clock_gettime(2)). calls is the number of system calls that this took.
func suspendedTime() (ns, calls int64, err error) {
	const tries, quick = 4, 10 * time.Microsecond
	var slept time.Duration
	for range tries { // try again if the thread was interrupted between the readings
		var before, all, after unix.Timespec
		calls += 3
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &before); err != nil {
			return 0, calls, fmt.Errorf("read monotonic clock: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &all); err != nil {
			return 0, calls, fmt.Errorf("read boot clock: %w", err)
		}
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &after); err != nil {
			return 0, calls, fmt.Errorf("read monotonic clock: %w", err)
		}
		slept = time.Duration(all.Nano() - before.Nano())
		if time.Duration(after.Nano()-before.Nano()) < quick {
			break
		}
	}
	return int64(max(0, slept).Round(time.Millisecond)), calls, nil
}

// prepareSentinelThread pins the calling thread to a CPU, and makes its timers exact
// (PR_SET_TIMERSLACK). Do not use the thread for other work afterwards.
func prepareSentinelThread(cpu int) error {
	if err := host.PinThread([]int{cpu}); err != nil {
		return err
	}
	return unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
}

// sleepUntil sleeps in the kernel, because Go's scheduler would add a delay. If a signal, for
// example of the Go runtime, interrupts the sleep, it sleeps again.
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

// descriptorCount returns the number of open descriptors of this process, or 0 if the kernel does
// not count them. folder is a descriptor of /proc/self/fd.
func descriptorCount(folder int) (int64, error) {
	var stat unix.Stat_t
	if err := unix.Fstat(folder, &stat); err != nil {
		return 0, fmt.Errorf("count descriptors: %w", err)
	}
	return stat.Size, nil
}

// countNonSockets returns the number of open descriptors that are not sockets. open is the number
// of all open descriptors. The kernel uses the lowest free numbers, so the search ends early. calls is
// the number of system calls that this took.
func countNonSockets(open int64) (others, calls int64) {
	var stat unix.Stat_t
	var found int64
	for descriptor := 0; found < open && int64(descriptor) < 2*open+1024; descriptor++ {
		calls++
		if unix.Fstat(descriptor, &stat) != nil {
			continue // the descriptor is not open
		}
		found++
		if stat.Mode&unix.S_IFMT != unix.S_IFSOCK {
			others++
		}
	}
	return others, calls
}
