//go:build unix && (!linux || 386)

package batchio

import "syscall"

// These functions wait if other code has made the descriptor blocking.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }
