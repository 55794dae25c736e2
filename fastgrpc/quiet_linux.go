//go:build linux && !race

package fastgrpc

import (
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"
)

// Each system call that Go's scheduler hears of wakes the runtime's monitor thread,
// if that has gone to sleep because the program was idle. A connection with a busy
// but slower peer idles between any two batches, so the monitor was woken for every
// one of them: with 50 callers it took a quarter of the CPU time of a client of
// grpc-go's server, and of a server of its client. Reads and writes that neither wait
// nor take long are therefore made quietly (docs/decisions/0014).
//
// The monitor is needed all the same, to preempt a handler that computes for long.
// It never sleeps beyond the next timer, so a timer that beats while there is quiet
// traffic keeps it within reach.

// longestQuiet bounds how much a quiet call moves, and so how long it may take: for
// that time neither the scheduler nor the garbage collector can have its thread.
const longestQuiet = 64 << 10

// heartbeat is one for the program, like the monitor.
type heartbeat struct {
	beating atomic.Bool
	used    atomic.Bool // since the last beat
}

var quiet heartbeat

// beatEvery is also how long the runtime lets a goroutine run undisturbed.
const beatEvery = 10 * time.Millisecond

// allows reports whether a system call may be quiet. The first one may not: it wakes
// the monitor, which from then on sleeps no longer than until the next beat.
func (h *heartbeat) allows(bytes int) bool {
	if bytes > longestQuiet {
		return false
	}
	if !h.used.Load() {
		h.used.Store(true)
	}
	return h.beating.Load() || !h.start()
}

// start reports whether it was this call that started the heart.
func (h *heartbeat) start() bool {
	if !h.beating.CompareAndSwap(false, true) {
		return false
	}
	time.AfterFunc(beatEvery, h.beat)
	return true
}

func (h *heartbeat) beat() {
	if h.used.Swap(false) {
		time.AfterFunc(beatEvery, h.beat)
		return
	}
	h.beating.Store(false)
	if h.used.Load() { // by one who saw it beating
		h.start()
	}
}

func readSocket(fd int, p []byte) (int, error) {
	if !quiet.allows(len(p)) {
		return syscall.Read(fd, p)
	}
	return quietCall(syscall.SYS_READ, fd, p)
}

func writeSocket(fd int, p []byte) (int, error) {
	if !quiet.allows(len(p)) {
		return syscall.Write(fd, p)
	}
	return quietCall(syscall.SYS_WRITE, fd, p)
}

// quietCall reads or writes on a descriptor that never blocks.
func quietCall(trap uintptr, fd int, p []byte) (int, error) {
	n, _, errno := syscall.RawSyscall(trap, uintptr(fd), uintptr(unsafe.Pointer(unsafe.SliceData(p))), uintptr(len(p)))
	if errno != 0 {
		return 0, errno
	}
	return int(n), nil
}
