package link

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/machine/host"
)

// InUserNamespace makes a command start in a user namespace of its own, where an ordinary
// user may make networks. The user, the group and the files stay the same. The rights of the
// namespace hold for networks only; priorities, perf events and control groups stay as the
// user is allowed them.
//
// This process cannot move there itself: the kernel takes no process of several threads.
func InUserNamespace(command *exec.Cmd) {
	same := func(id int) []syscall.SysProcIDMap {
		return []syscall.SysProcIDMap{{ContainerID: id, HostID: id, Size: 1}}
	}
	command.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: same(os.Geteuid()), GidMappings: same(os.Getegid()),
		// They pass to the workers. Those of a user other than root would go with execve.
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_NET_ADMIN, unix.CAP_NET_RAW},
	}
}

// ExplainUserNamespace explains why a command did not start in a user namespace.
func ExplainUserNamespace(err error) error {
	var refusal syscall.Errno
	if errors.As(err, &refusal) {
		err = refusal // and not how it was tried
	}
	return fmt.Errorf("make a user namespace: %w (%w): %s", err, host.ErrUnsupported, whatForbids(os.DirFS("/")))
}
