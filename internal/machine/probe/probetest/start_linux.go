// Package probetest starts processes with few rights, to test probes in them.
package probetest

import (
	"errors"
	"fmt"
	"os/exec"
	"unsafe"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// StartWithoutCapabilities starts a process without capabilities, even if it runs as root.
func StartWithoutCapabilities(c *exec.Cmd) error {
	// child processes inherit the thread's capabilities
	return host.OnDisposableThread(func() error {
		for capability := range uintptr(64) {
			err := unix.Prctl(unix.PR_CAPBSET_DROP, capability, 0, 0, 0)
			// EINVAL means that the kernel lacks this capability
			if err != nil && !errors.Is(err, unix.EINVAL) {
				return fmt.Errorf("drop capability %d: %w", capability, err)
			}
		}
		return c.Start()
	})
}

// StartWithoutPerfEvents starts a process that may not use perf events, as in containers.
func StartWithoutPerfEvents(c *exec.Cmd) error {
	const firstWord, errorIs, permitted = 0, unix.SECCOMP_RET_ERRNO, unix.SECCOMP_RET_ALLOW
	filter := []unix.SockFilter{
		// number of the system call (seccomp(2))
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: firstWord},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_PERF_EVENT_OPEN, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: errorIs | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: permitted},
	}
	program := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	return host.OnDisposableThread(func() error {
		if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("give up new rights: %w", err)
		}
		if err := unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&program)), 0, 0); err != nil {
			return fmt.Errorf("filter system calls: %w", err)
		}
		return c.Start()
	})
}
