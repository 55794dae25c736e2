package clock

import (
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// A timer is a timer of the kernel on which the Go runtime waits as on a connection: its thread is free
// meanwhile, and wakes within some 50 µs.
type timer struct {
	file *os.File
	fd   int
}

// idleTimers holds the timers that nobody waits for. More waiters at the same time spin instead.
var idleTimers = makeTimers()

const maxTimers = 8

func makeTimers() chan *timer {
	idle := make(chan *timer, maxTimers)
	for range maxTimers {
		idle <- &timer{} // opened when it is needed
	}
	return idle
}

// sleepExactly sleeps for a time, or not at all if all timers are taken or the system has none.
func sleepExactly(length time.Duration) {
	select {
	case t := <-idleTimers:
		defer func() { idleTimers <- t }()
		t.sleep(length)
	default:
	}
}

func (t *timer) sleep(length time.Duration) {
	if t.file == nil {
		fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
		if err != nil {
			return // without descriptors, waiting costs CPU time
		}
		t.file, t.fd = os.NewFile(uintptr(fd), "timer"), fd
	}
	if err := unix.TimerfdSettime(t.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(length))}, nil); err != nil {
		return
	}
	var expirations [8]byte
	_, _ = t.file.Read(expirations[:]) // the caller looks at the clock
}

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
