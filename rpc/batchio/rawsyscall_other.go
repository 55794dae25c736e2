//go:build unix && (!linux || 386)

package batchio

import "syscall"

// These functions wait if other code made the descriptor blocking, as package net does.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
