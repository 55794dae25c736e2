//go:build linux && !race

package fastgrpc

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Package syscall announces each system call to Go's scheduler, which wakes the
// runtime's monitor thread (sysmon) if it sleeps because the program was idle. A
// connection with a slower peer is idle between batches, so each batch woke the monitor:
// with 50 callers, this took a quarter of the CPU time of a client of grpc-go's server,
// and of a server of its client. Short reads and writes that do not block therefore use
// raw system calls, which the scheduler does not see (docs/decisions/0014).
//
// The runtime still needs the monitor, to preempt handlers that compute for long. The
// monitor never sleeps past the next timer, so monitorTimer fires regularly while raw
// system calls are made.

// maxRawLen bounds the bytes of a raw system call, and so its duration: until it returns,
// neither the scheduler nor the garbage collector can use its thread.
const maxRawLen = 64 << 10

// monitorTimer keeps the runtime's monitor from sleeping long. A program has one.
type monitorTimer struct {
	running atomic.Bool
	used    atomic.Bool // since the last tick
}

var monitor monitorTimer

// tickEvery is also the runtime's time slice, after which it preempts a goroutine.
const tickEvery = 10 * time.Millisecond

// allowsRaw reports whether a system call of so many bytes may be raw. The first one
// may not: it wakes the monitor, which then sleeps at most until the next tick.
func (t *monitorTimer) allowsRaw(bytes int) bool {
	if bytes > maxRawLen {
		return false
	}
	if !t.used.Load() {
		t.used.Store(true)
	}
	return t.running.Load() || !t.start()
}

// start starts the timer, or returns false if it was running.
func (t *monitorTimer) start() bool {
	if !t.running.CompareAndSwap(false, true) {
		return false
	}
	time.AfterFunc(tickEvery, t.tick)
	return true
}

func (t *monitorTimer) tick() {
	if t.used.Swap(false) {
		time.AfterFunc(tickEvery, t.tick)
		return
	}
	t.running.Store(false)
	if t.used.Load() { // set by a caller that still saw running
		t.start()
	}
}

func readSocket(fd int, p []byte) (int, error) {
	if !monitor.allowsRaw(len(p)) {
		return syscall.Read(fd, p)
	}
	return rawSyscall(syscall.SYS_READ, fd, p)
}

func writeSocket(fd int, p []byte) (int, error) {
	if !monitor.allowsRaw(len(p)) {
		return syscall.Write(fd, p)
	}
	return rawSyscall(syscall.SYS_WRITE, fd, p)
}

// rawSyscall reads or writes on a non-blocking descriptor.
func rawSyscall(trap uintptr, fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
