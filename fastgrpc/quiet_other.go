//go:build unix && (!linux || race)

package fastgrpc

import "syscall"

// The race detector sees what a socket orders only through the package syscall.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
