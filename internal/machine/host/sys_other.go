//go:build !linux

package host

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"time"

	"wirelab.dev/internal/base/system"
)

// NeedsLinux returns an error for an operation that needs Linux.
func NeedsLinux(what string) error {
	return fmt.Errorf("%s: %w: use Linux; this system is %s", what, ErrUnsupported, runtime.GOOS)
}

// AllowedCPUs returns an error: it needs Linux.
func AllowedCPUs() ([]int, error) { return nil, NeedsLinux("read CPU affinity") }

// Proc returns the files of /proc, if this system has them.
func Proc() fs.FS { return os.DirFS("/proc") }

// PinThread returns an error: it needs Linux.
func PinThread([]int) error { return NeedsLinux("set CPU affinity") }

func reniceThread(int) error { return NeedsLinux("set priority") }

func onFirstThread() bool { return false } // only Linux needs the answer, for its namespaces

func threadCPUTime() time.Duration  { return 0 }
func processCPUTime() time.Duration { return 0 }

func reniceSession(int, int) error { return nil } // only Linux has priorities of sessions

// startKilledWithParent starts the command as the leader of a process group. If the parent is killed,
// the command continues.
func startKilledWithParent(cmd *exec.Cmd) error {
	system.OwnGroup(cmd)
	return cmd.Start()
}

func awaitExit(int) {}

// AdoptOrphans returns an error: it needs Linux.
func AdoptOrphans() error { return NeedsLinux("end a command with all its descendants") }

// ReapOrphans does nothing: no orphans were adopted.
func ReapOrphans() {}

func fileLimit() (FileLimit, error) { return FileLimit{}, NeedsLinux("read the limit of open files") }

// RaiseFileLimit returns an error: it needs Linux.
func RaiseFileLimit() (uint64, error) { return 0, NeedsLinux("raise the limit of open files") }

func tryRealTime() error { return NeedsLinux("set real-time priority") }

func tryCounter(perfCounter) error { return NeedsLinux("open a perf event") }

func tryBPF() error { return NeedsLinux("load a BPF program") }

func tryUserNamespace() error { return NeedsLinux("make a user namespace") }

func tryUDPReceive(int) (int, error) { return 0, NeedsLinux("try a UDP receive buffer") }

// QueuedConnections returns ErrUnsupported: only Linux tells.
func QueuedConnections(uint16) (unread, unsent int, err error) { return 0, 0, ErrUnsupported }

func niceOf(int) int { return 0 }
