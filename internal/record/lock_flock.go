//go:build linux || darwin || freebsd || netbsd || openbsd

package record

import (
	"errors"
	"os"
	"syscall"
)

// lock keeps other processes from writing a run. The system lets go of it when
// the file is closed, also by the death of the process.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errLocked
	}
	return err
}
