//go:build unix && (!linux || race)

package fastgrpc

import "syscall"

// The race detector knows the ordering of socket operations only through package
// syscall, so these calls cannot be raw.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
