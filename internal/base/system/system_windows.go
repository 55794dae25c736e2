package system

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"time"

	"golang.org/x/sys/windows"
)

// Lock locks a file without waiting. The lock ends when the file is closed or the process ends. It
// returns [ErrLocked] if another process has any lock.
func Lock(file *os.File) error { return lockFile(file, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// LockShared is Lock, but several processes may have a shared lock at once.
func LockShared(file *os.File) error { return lockFile(file, 0) }

// lockedByte is far behind the end of any file: Windows refuses to read and write locked bytes.
const lockedByte = 0x7fff_ffff

func lockFile(file *os.File, how uint32) error {
	at := windows.Overlapped{OffsetHigh: lockedByte}
	err := windows.LockFileEx(windows.Handle(file.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, &at)
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) || errors.Is(err, windows.ERROR_IO_PENDING) {
		return ErrLocked
	}
	return err
}

// SyncFolder does nothing: Windows puts names on disk by itself, and refuses to be asked.
func SyncFolder(string) error { return nil }

// OwnGroup starts the command in a process group of its own, which Ctrl-C does not reach.
func OwnGroup(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.CREATE_NEW_PROCESS_GROUP}
}

// OwnSession starts the command without this console, so that it outlives the console.
func OwnSession(command *exec.Cmd) {
	command.SysProcAttr = &syscall.SysProcAttr{CreationFlags: windows.DETACHED_PROCESS}
}

// KillGroup kills the process. Windows does not say which others it started.
func KillGroup(leader int) error { return Kill(leader) }

// Terminate ends a process at once, since Windows has no signal that asks for it.
func Terminate(pid int) error { return Kill(pid) }

// Kill ends a process at once. A process that has ended already is no error.
func Kill(pid int) error {
	process, err := os.FindProcess(pid)
	if err != nil {
		return nil //nolint:nilerr // it has ended
	}
	defer func() { _ = process.Release() }()
	if err := process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	return nil
}

// Interrupt does to this process what Ctrl-C does.
func Interrupt() error { return windows.GenerateConsoleCtrlEvent(windows.CTRL_C_EVENT, 0) }

// WaitForInput waits until the file has something to read, at most for a time.
func WaitForInput(file *os.File, atMost time.Duration) (ready bool, err error) {
	event, err := windows.WaitForSingleObject(windows.Handle(file.Fd()), uint32(atMost.Milliseconds())) //nolint:gosec // short
	return event == windows.WAIT_OBJECT_0, err
}

// CountsOf returns nothing: Windows does not count this.
func CountsOf(*os.ProcessState) (c Counts, known bool) { return Counts{}, false }
