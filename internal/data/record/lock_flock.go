//go:build linux || darwin || freebsd || netbsd || openbsd

package record

import (
	"errors"
	"os"
	"syscall"
	"time"
)

// lockPatience is the time for which a killed process may still hold a lock. If it was killed
// while it forked, its child has the lock until it executes another program, and
// on a busy machine that takes a while.
const (
	lockPatience      = 2 * time.Second
	lockRetryInterval = 20 * time.Millisecond
)

// lock keeps other processes from writing a run. The system releases it when the
// file is closed or the process dies.
func lock(file *os.File) error {
	for waited := time.Duration(0); ; waited += lockRetryInterval {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case !errors.Is(err, syscall.EWOULDBLOCK):
			return err
		case waited >= lockPatience:
			return errLocked
		}
		time.Sleep(lockRetryInterval)
	}
}
