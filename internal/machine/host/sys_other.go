//go:build !linux

package host

import (
	"fmt"
	"os/exec"
	"runtime"
	"time"
)

func unsupported(what string) error {
	return fmt.Errorf("%s: %w: it takes Linux, this is %s", what, ErrUnsupported, runtime.GOOS)
}

func allowedCPUs() ([]int, error) { return nil, unsupported("read CPU affinity") }

func pinThread([]int) error { return unsupported("set CPU affinity") }

func reniceThread(int) error { return unsupported("set priority") }

// Nothing can be pinned here, and so nothing is calibrated.
func onFirstThread() bool { return false } // which no namespace shows here

func threadCPU() time.Duration  { return 0 }
func processCPU() time.Duration { return 0 }

func reniceSession(int, int) error { return nil } // there are none

// startWithParent cannot do that here: a child outlives a parent that is killed, unless
// it watches its standard input.
func startWithParent(cmd *exec.Cmd) error { return cmd.Start() }

func awaitExit(int) {}

func fileLimit() (FileLimit, error) { return FileLimit{}, unsupported("read descriptor limit") }

// RaiseFileLimit is left to the Go runtime here, which raises its own limit at
// start.
func RaiseFileLimit() (uint64, error) { return 0, unsupported("raise descriptor limit") }

func tryRealTime() error { return unsupported("real-time priority") }

func tryCounter(counter) error { return unsupported("performance counters") }

func tryBPF() error { return unsupported("BPF") }

func tryUserNamespace() error { return unsupported("user namespaces") }

func tryUDPReceive(int) (int, error) { return 0, unsupported("UDP receive buffer") }
