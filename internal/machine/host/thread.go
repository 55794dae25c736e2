package host

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// StartOptions holds the CPUs, the nice value and the network of a command.
type StartOptions struct {
	CPUs []int // empty means all CPUs
	Nice int
	// Enter, if not nil, moves the calling thread into the command's network namespace.
	Enter func() error
}

// StartPinned starts a command with the options. If the kernel refuses the CPUs or the nice value,
// the command runs without them, and a warning says so.
//
// A new thread starts the command, because a child inherits CPUs, priority and namespaces from its
// thread. The thread lives until the child exits. If this process is killed, the thread ends and
// the kernel kills the child (PR_SET_PDEATHSIG). The child has its own session, so that Ctrl-C does
// not reach it, and so that its priority works with autogroup. The caller must call Wait, and must
// not set SysProcAttr.Pdeathsig, Setsid or Setpgid.
func StartPinned(cmd *exec.Cmd, in StartOptions) (warnings []string, err error) {
	started := make(chan error, 1)
	onNewThread(func() {
		if in.Enter != nil {
			if err := in.Enter(); err != nil {
				started <- err
				return
			}
		}
		warnings = setUpThread(in.CPUs, in.Nice)
		if err := startKilledWithParent(cmd); err != nil {
			started <- err
			return
		}
		pid := cmd.Process.Pid
		if in.Nice != 0 {
			if refused := reniceSession(pid, in.Nice); refused != nil {
				warnings = append(warnings, refused.Error())
			}
		}
		started <- nil // after this only the caller uses the command
		awaitExit(pid)
	})
	if err := <-started; err != nil {
		return warnings, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return warnings, nil
}

// setUpThread sets the CPUs and the nice value of the calling thread. Do not use the thread for
// other work afterwards.
func setUpThread(cpus []int, nice int) (warnings []string) {
	if len(cpus) > 0 {
		if err := PinThread(cpus); err != nil {
			warnings = append(warnings, fmt.Sprintf("the process was not pinned to CPUs %v: %v", cpus, err))
		}
	}
	if nice != 0 {
		if err := reniceThread(nice); err != nil {
			warnings = append(warnings, fmt.Sprintf("the priority is unchanged, because the kernel refuses nice %d: %v", nice, err))
		}
	}
	return warnings
}

// OnDisposableThread calls try on a new thread that ends afterwards. So try may change the thread's
// CPUs, priority or namespace.
func OnDisposableThread(try func() error) error {
	result := make(chan error, 1)
	onNewThread(func() { result <- try() })
	return <-result
}

// onNewThread calls a function on a thread that ends afterwards. It never uses the process's first
// thread, because Go does not end that thread, and /proc/self shows its namespaces.
func onNewThread(run func()) {
	go func() {
		runtime.LockOSThread() // never unlocked, so the thread ends with this goroutine
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

// OwnProgramPath returns a path with which this process can start its own program again. The path
// also works under `go run`, which removes the program's file while it runs.
func OwnProgramPath() (string, error) {
	own, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find wirelab's own program: %w", err)
	}
	const running = "/proc/self/exe" // the kernel keeps the file of a running program
	if _, err := os.Stat(running); err == nil && strings.HasPrefix(own, filepath.Join(os.TempDir(), "go-build")) {
		return running, nil
	}
	return own, nil
}
