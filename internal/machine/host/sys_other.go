//go:build !linux

package host

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

// NeedsLinux returns an error for an operation that needs Linux.
func NeedsLinux(what string) error {
	return fmt.Errorf("%s: %w: it needs Linux, this is %s", what, ErrUnsupported, runtime.GOOS)
}

// AllowedCPUs fails: it needs Linux.
func AllowedCPUs() ([]int, error) { return nil, NeedsLinux("read CPU affinity") }

// PinThread fails: it needs Linux.
func PinThread([]int) error { return NeedsLinux("set CPU affinity") }

func reniceThread(int) error { return NeedsLinux("set priority") }

// Nothing can be pinned here, and so nothing is calibrated.
func onFirstThread() bool { return false } // which no namespace shows here

func threadCPU() time.Duration  { return 0 }
func processCPU() time.Duration { return 0 }

func reniceSession(int, int) error { return nil } // there are none

// startWithParent changes nothing here: a child may outlive a parent that is killed.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }

func awaitExit(int) {}

func fileLimit() (FileLimit, error) { return FileLimit{}, NeedsLinux("read descriptor limit") }

// RaiseFileLimit fails here: the Go runtime raises the limit itself.
func RaiseFileLimit() (uint64, error) { return 0, NeedsLinux("raise descriptor limit") }

func tryRealTime() error { return NeedsLinux("real-time priority") }

func tryCounter(counter) error { return NeedsLinux("performance counters") }

func tryBPF() error { return NeedsLinux("BPF") }

func tryUserNamespace() error { return NeedsLinux("user namespaces") }

func tryUDPReceive(int) (int, error) { return 0, NeedsLinux("UDP receive buffer") }
