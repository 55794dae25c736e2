//go:build unix && (!linux || 386)

package batchio

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// These functions wait if other code has made the descriptor blocking.

func readSocket(fd int, p []byte) (int, error) { return syscall.Read(fd, p) }

func writeSocket(fd int, p []byte) (int, error) { return syscall.Write(fd, p) }

func writeSegments(fd int, segments [][]byte) (int, error) {
	return unix.SendmsgBuffers(fd, segments, nil, nil, unix.MSG_DONTWAIT)
}
