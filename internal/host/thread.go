package host

import (
	"fmt"
	"os/exec"
	"runtime"
)

// Surroundings are what a command is started in.
type Surroundings struct {
	CPUs []int // none: any
	Nice int
	// Enter, where it is not nil, moves the thread that starts the command,
	// which ends with it: into a network namespace. What it refuses is an
	// error.
	Enter func() error
}

// StartPinned starts a command in the given surroundings. CPUs and a nice value
// that are refused come back as warnings; the command then runs without them.
//
// CPUs, priority and namespaces are inherited from the thread that forks: a
// thread of its own is given them, forks, and is destroyed, so that the Go
// scheduler never meets it. It lives until the child exits, because the kernel kills the child
// (PR_SET_PDEATHSIG) when the thread that forked it ends, however it ends: a
// parent killed with SIGKILL leaves no orphan. The child leads a session of its
// own, which Ctrl-C at the terminal does not reach, and whose priority counts
// against other sessions. The caller must Wait for the command, and must not set
// SysProcAttr.Pdeathsig, Setsid or Setpgid.
func StartPinned(cmd *exec.Cmd, in Surroundings) (warnings []string, err error) {
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		if in.Enter != nil {
			if err := in.Enter(); err != nil {
				started <- err
				return
			}
		}
		warnings = settleThread(in.CPUs, in.Nice)
		if err := startTied(cmd); err != nil {
			started <- err
			return
		}
		pid := cmd.Process.Pid
		if in.Nice != 0 {
			if refused := reniceSession(pid, in.Nice); refused != nil {
				warnings = append(warnings, refused.Error())
			}
		}
		started <- nil // from here on, the command is the caller's
		awaitExit(pid)
	}()
	if err := <-started; err != nil {
		return warnings, fmt.Errorf("start %s pinned: %w", cmd.Path, err)
	}
	return warnings, nil
}

// settleThread moves the calling thread; it must not be used for other work
// afterwards.
func settleThread(cpus []int, nice int) (warnings []string) {
	if len(cpus) > 0 {
		if err := pinThread(cpus); err != nil {
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

// onDoomedThread runs try on a thread that is destroyed afterwards, with all
// that try changed about it.
func onDoomedThread(try func() error) error {
	result := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // and never unlocked: the thread ends here
		result <- try()
	}()
	return <-result
}
