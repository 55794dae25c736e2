package probe

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// slept is the number of times that the subject of perf sleeps.
const slept = 4000

// touchAndSleep has known numbers of page faults and of voluntary switches, and prints what it reads of itself.
func touchAndSleep() {
	_, err := touch()
	runtime.LockOSThread()
	for range slept {
		pause := unix.NsecToTimespec(int64(time.Microsecond))
		_ = unix.Nanosleep(&pause, nil) // a signal may end it early
	}
	usage, failed := ReadSelf()
	fmt.Fprintln(os.Stdout, usage.MinorFaults, usage.VoluntarySwitches+usage.InvoluntarySwitches, err, failed)
}

// TestPerfCountsTheSame lets perf stat watch a process over its life. The counts agree within 2 %: perf counts from
// the program's first instruction to its last, and the process what it had when it read them.
func TestPerfCountsTheSame(t *testing.T) {
	if _, err := exec.LookPath("perf"); err != nil {
		t.Skipf("%v: install it with tools/setup.sh", err)
	}
	watched := exec.CommandContext(t.Context(), "perf", "stat", "-x,", "-e", "page-faults,context-switches", os.Args[0])
	watched.Env = append(os.Environ(), roleVariable+"=touch")
	var said, counted bytes.Buffer
	watched.Stdout, watched.Stderr = &said, &counted
	err := watched.Run()
	lines := regexp.MustCompile(`(?m)^([0-9]+),,(page-faults|context-switches),`).FindAllStringSubmatch(counted.String(), -1)
	if len(lines) == 0 {
		t.Skipf("perf counts nothing here: %v: %s", err, &counted)
	}
	var faults, switches float64
	if _, err := fmt.Sscanf(said.String(), "%g %g <nil> <nil>", &faults, &switches); err != nil || len(lines) != 2 {
		t.Fatalf("the process said %q, and perf counted %q: %v", &said, lines, err)
	}
	for _, line := range lines {
		count, err := strconv.ParseFloat(line[1], 64)
		if err != nil {
			t.Fatal(err)
		}
		if line[2] == "page-faults" {
			within(t, "faults, against perf's", faults, count, 0.02)
			if faults < pageCount {
				t.Errorf("%g faults of a process that touched %d pages", faults, pageCount)
			}
			continue
		}
		within(t, "switches, against perf's", switches, count, 0.02)
		if switches < slept {
			t.Errorf("%g switches of a process that slept %d times", switches, slept)
		}
	}
}
