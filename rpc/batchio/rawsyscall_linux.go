//go:build linux && !386

package batchio

import (
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Package syscall announces each system call to Go's scheduler, which wakes the runtime's
// monitor thread (sysmon) if it sleeps because the program was idle. A connection with a slower
// peer is idle between batches: with 50 callers, the monitor took a quarter of a client's CPU
// time. Reads and writes therefore use raw system calls, which the scheduler does not see
// (docs/decisions/0014, 0040 and 0065).
//
// A raw system call that waits would keep its processor, and a garbage collection would wait for
// it for ever. So each call passes MSG_DONTWAIT. The descriptor's mode is unreliable: calling Fd
// on a copy of it (net.TCPConn.File) makes all copies blocking.
//
// The runtime still needs the monitor, to preempt handlers that compute for long. The monitor never
// sleeps past the next timer, so monitorTimer fires regularly while raw system calls are made.

// maxRawLen limits the bytes of a raw system call, and so the call's duration. Until the call
// returns, neither the scheduler nor the garbage collector can use its thread. The same is true of
// Go's own copying of as many bytes.
const maxRawLen = 256 << 10

// A monitorTimer prevents the runtime's monitor from sleeping long. A program has only one.
type monitorTimer struct {
	running atomic.Bool
	used    atomic.Bool // allowsRaw was called since the last tick
}

var monitor monitorTimer

// tickInterval equals the runtime's time slice, after which the runtime preempts a goroutine.
const tickInterval = 10 * time.Millisecond

// allowsRaw reports whether a system call may be raw. The first call may not, because it must wake
// the monitor. The monitor then sleeps until the next tick at most.
func (t *monitorTimer) allowsRaw() bool {
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
	time.AfterFunc(tickInterval, t.onTick)
	return true
}

func (t *monitorTimer) onTick() {
	if t.used.Swap(false) {
		time.AfterFunc(tickInterval, t.onTick)
		return
	}
	t.running.Store(false)
	if t.used.Load() { // set by a call of allowsRaw while running was still true
		t.start()
	}
}

// rawOff is set by the build tag fastgrpc_noraw, or by the environment variable FASTGRPC_RAW
// with any value but "on". All libraries of a process share rawOff, as they share the monitor.
var rawOff = func() bool {
	v, set := os.LookupEnv("FASTGRPC_RAW")
	return set && v != "on"
}()

// raceOn is set under the race detector, which learns the order of socket operations only from
// package syscall. Each operation then also calls that package, without bytes.
var raceOn bool

// readSocket reads the bytes that have arrived, or returns EAGAIN. It does not wait.
func readSocket(fd int, p []byte) (int, error) {
	p = p[:min(len(p), maxRawLen)]
	n, err := transfer(syscall.SYS_RECVFROM, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), syscall.MSG_DONTWAIT)
	if err == syscall.ENOTSOCK { //nolint:errorlint // a bare errno
		return syscall.Read(fd, p)
	}
	if raceOn && err == nil {
		_, _ = syscall.Read(fd, nil)
	}
	return n, err
}

// writeSocket writes as much as there is room for, or returns EAGAIN. It does not wait.
func writeSocket(fd int, p []byte) (int, error) {
	if raceOn {
		_, _ = syscall.Write(-1, nil)
	}
	p = p[:min(len(p), maxRawLen)]
	n, err := transfer(syscall.SYS_SENDTO, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL)
	if err == syscall.ENOTSOCK { //nolint:errorlint // a bare errno
		return syscall.Write(fd, p)
	}
	if err == nil {
		sendCount.Add(1)
	}
	return n, err
}

// maxSegments is the most segments that writeSegments writes.
const maxSegments = 64

// A segmentList describes segments for the kernel.
type segmentList struct {
	header unix.Msghdr
	list   [maxSegments]unix.Iovec
}

var segmentLists = sync.Pool{New: func() any { return new(segmentList) }}

// writeSegments writes segments as writeSocket writes one. It need not write all of them.
func writeSegments(fd int, segments [][]byte) (int, error) {
	if raceOn {
		_, _ = syscall.Write(-1, nil)
	}
	s := segmentLists.Get().(*segmentList)
	defer segmentLists.Put(s)
	n, left := 0, maxRawLen
	for _, p := range segments[:min(len(segments), maxSegments)] {
		if p = p[:min(len(p), left)]; len(p) > 0 {
			s.list[n].Base = &p[0]
			s.list[n].SetLen(len(p))
			left -= len(p)
			n++
		}
	}
	s.header.Iov = &s.list[0]
	s.header.SetIovlen(n)
	sent, err := transfer(syscall.SYS_SENDMSG, fd, unsafe.Pointer(&s.header), syscall.MSG_DONTWAIT|syscall.MSG_NOSIGNAL, 0)
	clear(s.list[:n])            // because the memory may be used again
	if err == syscall.ENOTSOCK { //nolint:errorlint // a bare errno
		return writeSocket(fd, segments[0])
	}
	if err == nil {
		sendCount.Add(1)
	}
	return sent, err
}

// transfer makes a system call whose second argument is a pointer.
func transfer(trap uintptr, fd int, p unsafe.Pointer, third, fourth int) (n int, err error) {
	var done uintptr
	var errno syscall.Errno
	// The conversions to uintptr must be in the call expressions, to keep p alive (package unsafe).
	if rawOff || !monitor.allowsRaw() {
		done, _, errno = syscall.Syscall6(trap, uintptr(fd), uintptr(p), uintptr(third), uintptr(fourth), 0, 0)
	} else {
		done, _, errno = syscall.RawSyscall6(trap, uintptr(fd), uintptr(p), uintptr(third), uintptr(fourth), 0, 0)
	}
	if errno != 0 {
		return 0, errno
	}
	return int(done), nil
}

// NoRawCalls reports whether raw system calls are off, and none has been made.
func NoRawCalls() bool { return rawOff && !monitor.used.Load() && !monitor.running.Load() }
