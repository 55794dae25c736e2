package record

import (
	"errors"
	"os"
	"time"

	"wirelab.dev/internal/base/system"
)

// lockPatience limits the time that lock waits for a killed process to release its lock. If the
// process was killed while it forked, its child keeps the lock until the child executes another
// program. On a busy machine that takes a while.
const (
	lockPatience      = 2 * time.Second
	lockRetryInterval = 20 * time.Millisecond
)

// lock prevents other processes from writing a run. The system releases the lock when the file is
// closed or the process ends.
func lock(file *os.File) error {
	for waited := time.Duration(0); ; waited += lockRetryInterval {
		err := system.Lock(file)
		switch {
		case !errors.Is(err, system.ErrLocked):
			return err
		case waited >= lockPatience:
			return errLocked
		}
		time.Sleep(lockRetryInterval)
	}
}
