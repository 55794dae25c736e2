package host

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// roleVariable makes this test binary play a process of the tests.
const roleVariable = "WIRELAB_HOST_TEST_ROLE"

// patience ends a test that has failed already; nothing waits for it otherwise.
const patience = 20 * time.Second

func TestMain(m *testing.M) {
	switch role := os.Getenv(roleVariable); role {
	case "":
		m.Run() // whose result ends the process when TestMain returns
	case "reader": // lives until its standard input ends
		_, _ = io.Copy(io.Discard, os.Stdin)
	case "burner": // keeps a CPU busy
		for start := time.Now(); time.Since(start) < patience; {
		}
	case "parent": // starts a pinned child that would outlive it
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), roleVariable+"=burner")
		child.Stdout = os.Stdout
		if _, err := StartPinned(child, StartOptions{Nice: 1}); err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stdout, "started")
		_ = child.Wait()
	default:
		panic("no role " + role)
	}
}

func playing(t *testing.T, role string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role)
	return cmd
}

func TestStartPinned(t *testing.T) {
	before, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpu := before[len(before)-1]
	cmd := playing(t, "reader")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	warnings, err := StartPinned(cmd, StartOptions{CPUs: []int{cpu}, Nice: 19}) // 19, the lowest, is granted to all
	if err != nil || len(warnings) != 0 {
		t.Fatalf("StartPinned: %v, warnings %q", err, warnings)
	}
	root := os.DirFS("/")
	folder := fmt.Sprintf("proc/%d/", cmd.Process.Pid)
	status, err := readText(root, folder+"status")
	if err != nil {
		t.Fatal(err)
	}
	if want := fmt.Sprintf("Cpus_allowed_list:\t%d\n", cpu); !strings.Contains(status, want) {
		t.Errorf("no %q in\n%s", want, status)
	}
	stat, err := readText(root, folder+"stat")
	if err != nil {
		t.Fatal(err)
	}
	_, afterName, _ := strings.Cut(stat, ") ")
	// nice is field 19 of proc_pid_stat(5); the name is field 2.
	if nice := strings.Fields(afterName)[19-3]; nice != "19" {
		t.Errorf("nice %s, want 19", nice)
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child did not live to its own end: %v", err)
	}
	after, err := AllowedCPUs()
	if err != nil || len(after) != len(before) {
		t.Errorf("the test's own CPUs changed from %v to %v (%v)", before, after, err)
	}
}

func TestStartPinnedReportsRefusals(t *testing.T) {
	cmd := playing(t, "reader") // reads /dev/null, so ends at once
	const noSuchCPU = 1023
	warnings, err := StartPinned(cmd, StartOptions{CPUs: []int{noSuchCPU}})
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the child fared badly: %v", err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "not pinned to CPUs [1023]") {
		t.Errorf("warnings %q, want one on CPU 1023", warnings)
	}
	noEntry := errors.New("no entry")
	if _, err := StartPinned(exec.Command("/bin/true"), StartOptions{Enter: func() error { return noEntry }}); !errors.Is(err, noEntry) {
		t.Errorf("start where there is no entry: %v", err)
	}
	if _, err := StartPinned(exec.Command("/no/such/program"), StartOptions{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("start of no program: %v", err)
	}
}

// /proc/self shows the first thread, which outlives what is done on it.
func TestDisposableThreadsAreNotTheFirst(t *testing.T) {
	for range 1000 {
		if err := OnDisposableThread(func() error {
			if unix.Gettid() == unix.Getpid() {
				return errors.New("this is the process's first thread")
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestPriorityRefusedSaysWhatWouldAllowIt(t *testing.T) {
	var warnings []string
	err := OnDisposableThread(func() error {
		// Capabilities belong to a thread: this one gives them all up.
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			return fmt.Errorf("drop capabilities: %w", err)
		}
		if err := reniceThread(-20); !errors.Is(err, ErrUnsupported) || !errors.Is(err, os.ErrPermission) {
			return fmt.Errorf("renice: %w, want a refusal", err)
		}
		warnings = setUpThread(nil, -20)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(warnings) != 1 || !strings.Contains(warnings[0], "CAP_SYS_NICE") {
		t.Errorf("warnings %q, want one that names CAP_SYS_NICE", warnings)
	}
}

// The pipe's write end is held by the parent and, for as long as it lives, by
// the child: its end is the end of both.
func TestNoOrphanWhenTheParentIsKilled(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	parent := playing(t, "parent")
	parent.Stdout = writer
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	writer.Close()
	if err := reader.SetReadDeadline(time.Now().Add(patience / 2)); err != nil {
		t.Fatal(err)
	}
	greeting := make([]byte, len("started\n"))
	if _, err := io.ReadFull(reader, greeting); err != nil || string(greeting) != "started\n" {
		t.Fatalf("the parent said %q: %v", greeting, err)
	}
	if err := parent.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = parent.Wait() // "signal: killed", as asked
	if _, err := io.Copy(io.Discard, reader); err != nil {
		t.Errorf("the child outlived its parent: %v", err)
	}
}

// awaitBurning waits until a process has used 20 ms of CPU time: a busy machine may take
// long to start it.
func awaitBurning(t *testing.T, pid int) {
	t.Helper()
	for used := 0; used < int(20*time.Millisecond); {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/schedstat", pid)) // begins with the nanoseconds on a CPU
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(text), &used); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCalibrateSeesANeighbour(t *testing.T) {
	allowed, err := AllowedCPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpu := allowed[0]
	burner := playing(t, "burner")
	if _, err := StartPinned(burner, StartOptions{CPUs: []int{cpu}}); err != nil {
		t.Fatal(err)
	}
	defer func() {
		_ = burner.Process.Kill()
		_ = burner.Wait() // "signal: killed", as asked
	}()
	awaitBurning(t, burner.Process.Pid)
	before, err := ReadActivity()
	if err != nil {
		t.Fatal(err)
	}
	ownBefore := processCPUTime()
	noise := MeasureNoise([]int{cpu}, 300*time.Millisecond)
	own := processCPUTime() - ownBefore
	after, err := ReadActivity()
	if err != nil {
		t.Fatal(err)
	}
	// Two threads of one priority share a CPU; neighbours that the test does
	// not know may take more.
	if noise.LostShare < 0.35 || noise.LostShare >= 1 || noise.LargestGap < time.Millisecond {
		t.Errorf("lost %v, largest gap %v; want a half or more, in slices of milliseconds", noise.LostShare, noise.LargestGap)
	}
	if noise.CPUs != 1 || len(noise.Warnings) != 0 {
		t.Errorf("%d CPUs calibrated, warnings %q; want CPU %d alone", noise.CPUs, noise.Warnings, cpu)
	}
	share := after.Since(before, own).OthersBusyShare
	if others := time.Duration(share * float64(after.allCPUTime()-before.allCPUTime())); others < 80*time.Millisecond {
		t.Errorf("others were busy for %v, though one burned about 150 ms", others)
	}
}

func TestCalibrateWithoutTheCPU(t *testing.T) {
	noise := MeasureNoise([]int{1023}, time.Millisecond)
	if noise.CPUs != 0 || len(noise.Warnings) != 1 || noise.LostShare != 0 {
		t.Errorf("got %+v, want a warning and no figure", noise)
	}
}

func TestRaiseFileLimit(t *testing.T) {
	before, err := fileLimit()
	if err != nil {
		t.Fatal(err)
	}
	lowered := syscall.Rlimit{Cur: before.Hard / 2, Max: before.Hard}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &lowered); err != nil {
		t.Fatal(err)
	}
	limit, err := RaiseFileLimit()
	if err != nil {
		t.Fatal(err)
	}
	now, err := fileLimit()
	if err != nil || now.Soft != limit || now.Soft != now.Hard {
		t.Errorf("raised to %d, now %+v (%v)", limit, now, err)
	}
	// A child that is not Go sees it too.
	said, err := exec.Command("/bin/sh", "-c", "ulimit -n").Output()
	if got := strings.TrimSpace(string(said)); err != nil || got != strconv.FormatUint(limit, 10) {
		t.Errorf("a child has %q (%v), want %d", got, err, limit)
	}
}
