//go:build !linux

package host

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

func needsLinux(what string) error {
	return fmt.Errorf("%s: %w: it takes Linux, this is %s", what, ErrUnsupported, runtime.GOOS)
}

// AllowedCPUs is for Linux.
func AllowedCPUs() ([]int, error) { return nil, needsLinux("read CPU affinity") }

// PinThread is for Linux.
func PinThread([]int) error { return needsLinux("set CPU affinity") }

func reniceThread(int) error { return needsLinux("set priority") }

// Nothing can be pinned here, and so nothing is calibrated.
func onFirstThread() bool { return false } // which no namespace shows here

func threadCPU() time.Duration  { return 0 }
func processCPU() time.Duration { return 0 }

func reniceSession(int, int) error { return nil } // there are none

// startWithParent cannot do that here: a child outlives a parent that is killed, unless
// it watches its standard input.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }

func awaitExit(int) {}

func fileLimit() (FileLimit, error) { return FileLimit{}, needsLinux("read descriptor limit") }

// RaiseFileLimit is left to the Go runtime here, which raises its own limit at
// start.
func RaiseFileLimit() (uint64, error) { return 0, needsLinux("raise descriptor limit") }

func tryRealTime() error { return needsLinux("real-time priority") }

func tryCounter(counter) error { return needsLinux("performance counters") }

func tryBPF() error { return needsLinux("BPF") }

func tryUserNamespace() error { return needsLinux("user namespaces") }

func tryUDPReceive(int) (int, error) { return 0, needsLinux("UDP receive buffer") }
