//go:build !386

package batchio

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestMonitorTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h monitorTimer
		if h.allowsRaw() {
			t.Error("the first system call was raw: nothing woke the monitor")
		}
		if !h.allowsRaw() {
			t.Error("the second system call was not raw, though the timer runs")
		}
		time.Sleep(3 * tickInterval)
		if h.running.Load() {
			t.Error("the timer still runs without traffic")
		}
		if h.allowsRaw() {
			t.Error("the first system call after a pause was raw")
		}
		time.Sleep(3 * tickInterval) // until the timer has stopped
	})
}

// TestRawTag checks that the build tag turns raw system calls off.
func TestRawTag(t *testing.T) {
	for tag, want := range map[string]bool{"fastgrpc_noraw": true, "other": false} {
		out, err := exec.CommandContext(t.Context(), "go", "list", "-tags="+tag, "-f={{.GoFiles}}", ".").CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if got := strings.Contains(string(out), "rawsyscall_off.go"); got != want {
			t.Errorf("with the tag %s: off is %v, want %v", tag, got, want)
		}
	}
}

// The kernel's count of a process's writes has no sendto, so these are counted here.
func TestSendsAreCounted(t *testing.T) {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _, _ = syscall.Close(pair[0]), syscall.Close(pair[1]) }()
	before := SendCount()
	for range 5 {
		if _, err := WriteNow(uintptr(pair[0]), []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := SendCount() - before; n < 5 { // others may send meanwhile
		t.Errorf("5 calls were counted as %d", n)
	}
}
