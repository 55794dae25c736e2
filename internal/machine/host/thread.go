package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Surroundings describe where a command runs.
type Surroundings struct {
	CPUs []int // none: any
	Nice int
	// Enter, if not nil, moves the thread that starts the command into a network namespace.
	Enter func() error
}

// StartPinned starts a command in the given surroundings. If the kernel refuses the CPUs or the
// nice value, the command runs without them and a warning says so.
//
// A child inherits CPUs, priority and namespaces from the thread that forks it: a new thread,
// which lives until the child exits. When that thread ends, the kernel kills the child
// (PR_SET_PDEATHSIG): a parent killed with SIGKILL leaves no orphan. The child leads its own
// session, so Ctrl-C at the terminal does not reach it, and its priority counts against other
// sessions. The caller must Wait, and must not set SysProcAttr.Pdeathsig, Setsid or Setpgid.
func StartPinned(cmd *exec.Cmd, in Surroundings) (warnings []string, err error) {
	started := make(chan error, 1)
	onNewThread(func() {
		if in.Enter != nil {
			if err := in.Enter(); err != nil {
				started <- err
				return
			}
		}
		warnings = setUpThread(in.CPUs, in.Nice)
		if err := startWithParent(cmd); err != nil {
			started <- err
			return
		}
		pid := cmd.Process.Pid
		if in.Nice != 0 {
			if refused := reniceSession(pid, in.Nice); refused != nil {
				warnings = append(warnings, refused.Error())
			}
		}
		started <- nil // from here on, the caller owns the command
		awaitExit(pid)
	})
	if err := <-started; err != nil {
		return warnings, fmt.Errorf("start %s pinned: %w", cmd.Path, err)
	}
	return warnings, nil
}

// setUpThread changes the calling thread, which must do no other work afterwards.
func setUpThread(cpus []int, nice int) (warnings []string) {
	if len(cpus) > 0 {
		if err := PinThread(cpus); err != nil {
			warnings = append(warnings, fmt.Sprintf("not pinned to CPUs %v: %v", cpus, err))
		}
	}
	if nice != 0 {
		if err := reniceThread(nice); err != nil {
			warnings = append(warnings, fmt.Sprintf("priority unchanged, nice %d refused: %v", nice, err))
		}
	}
	return warnings
}

// OnDisposableThread runs try on a new thread that ends afterwards, so that try may change the
// thread's CPUs, priority or namespace.
func OnDisposableThread(try func() error) error {
	result := make(chan error, 1)
	onNewThread(func() { result <- try() })
	return <-result
}

// onNewThread runs a function that changes its thread, on a thread that ends with it. That is
// never the process's first thread: Go keeps that one, and /proc/self would show its namespaces.
func onNewThread(run func()) {
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if !onFirstThread() {
			run()
			return
		}
		taken := make(chan struct{})
		go func() {
			runtime.LockOSThread()
			close(taken)
			run()
		}()
		<-taken
		runtime.UnlockOSThread()
	}()
}

// LastingProgram returns a path with which this process can start its own program as long as it
// lives: `go run` removes the program file, but the kernel keeps a running program.
func LastingProgram() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program: %w", err)
	}
	const running = "/proc/self/exe" // also of a child, until it starts another program
	if _, err := os.Stat(running); err == nil && strings.HasPrefix(own, filepath.Join(os.TempDir(), "go-build")) {
		return running, nil
	}
	return own, nil
}
