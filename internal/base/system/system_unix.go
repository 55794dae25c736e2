//go:build unix

package system

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Lock locks a file without waiting. The lock ends when the file is closed or the process ends. It
// returns [ErrLocked] if another process has any lock.
func Lock(file *os.File) error { return flock(file, unix.LOCK_EX) }

// LockShared is Lock, but several processes may have a shared lock at once.
func LockShared(file *os.File) error { return flock(file, unix.LOCK_SH) }

func flock(file *os.File, how int) error {
	err := unix.Flock(int(file.Fd()), how|unix.LOCK_NB) //nolint:gosec // a file descriptor is small
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrLocked
	}
	return err
}

// SyncFolder puts the names of a folder's files on disk.
func SyncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// OwnGroup starts the command in a process group of its own, which Ctrl-C does not reach.
func OwnGroup(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// OwnSession starts the command in a session of its own, so that it outlives the terminal.
func OwnSession(command *exec.Cmd) { command.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// KillGroup kills the process that leads a group, and all others of the group.
func KillGroup(leader int) error { return unix.Kill(-leader, unix.SIGKILL) }

// Terminate asks a process to end. A process that has ended already is no error.
func Terminate(pid int) error { return signal(pid, unix.SIGTERM) }

// Kill ends a process at once. A process that has ended already is no error.
func Kill(pid int) error { return signal(pid, unix.SIGKILL) }

func signal(pid int, what syscall.Signal) error {
	if err := unix.Kill(pid, what); !errors.Is(err, unix.ESRCH) {
		return err
	}
	return nil
}

// Interrupt does to this process what Ctrl-C does.
func Interrupt() error { return unix.Kill(os.Getpid(), unix.SIGINT) }

// WaitForInput waits until the file has something to read, at most for a time.
func WaitForInput(file *os.File, atMost time.Duration) (ready bool, err error) {
	look := []unix.PollFd{{Fd: int32(file.Fd()), Events: unix.POLLIN}} //nolint:gosec // a file descriptor is small
	n, err := unix.Poll(look, int(atMost.Milliseconds()))
	if errors.Is(err, unix.EINTR) {
		return false, nil
	}
	return n > 0, err
}

// CountsOf returns what the kernel counted of an ended process.
func CountsOf(p *os.ProcessState) (c Counts, known bool) {
	usage, known := p.SysUsage().(*syscall.Rusage)
	if !known {
		return Counts{}, false
	}
	return Counts{usage.Nvcsw, usage.Nivcsw, usage.Minflt, usage.Majflt}, true
}
