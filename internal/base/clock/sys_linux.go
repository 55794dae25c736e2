package clock

import "golang.org/x/sys/unix"

// sharedNow reads CLOCK_MONOTONIC by a real system call, because x/sys does not use the vDSO.
func sharedNow() int64 {
	var reading unix.Timespec
	// The only errors are a bad clock number and a bad pointer (clock_gettime(2)).
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &reading); err != nil {
		panic("clock: reading CLOCK_MONOTONIC: " + err.Error())
	}
	return reading.Nano()
}

func cpuTime() int64 {
	var reading unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &reading); err != nil {
		panic("clock: reading CLOCK_PROCESS_CPUTIME_ID: " + err.Error())
	}
	return reading.Nano()
}

// yieldCPU lets other threads that are ready run on this CPU. The raw system call bypasses the Go
// scheduler. It returns after the kernel has run the waiting threads.
func yieldCPU() {
	// sched_yield(2) always succeeds on Linux.
	_, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0)
}
