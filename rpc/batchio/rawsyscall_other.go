//go:build unix && (!linux || 386)

package batchio

import "syscall"

// These wait if somebody has made the descriptor blocking, like those of package net.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
