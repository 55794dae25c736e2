package syscalls

import (
	"errors"
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"wirelab.dev/internal/base/clock"
	"wirelab.dev/internal/data/record"
	"wirelab.dev/internal/machine/host"
	"wirelab.dev/internal/machine/probe"
)

// What the subject makes of calls that Go itself does not make, but for writes to its output.
const (
	writes  = 10_000
	parents = 700
	seeks   = 300
)

// TestMain is the subject, too: a process that makes its calls when its input says so, and
// ends when that ends.
// And it is a test with a tracefs of its own.
func TestMain(m *testing.M) {
	switch {
	case os.Getenv("WIRELAB_SUBJECT") == reader:
		os.Exit(readSelf())
	case os.Getenv("WIRELAB_SUBJECT") != "":
		os.Exit(subject())
	case os.Getenv(withTracefs) != "":
		err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		if err = errors.Join(err, unix.Mount("tracefs", "/sys/kernel/tracing", "tracefs", 0, "")); err != nil {
			println(err.Error())
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

func subject() int {
	var one [1]byte
	_, _ = os.Stdin.Read(one[:])
	if os.Getenv("WIRELAB_SUBJECT") == parent {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), "WIRELAB_SUBJECT=1")
		child.Stdin, child.Stdout = os.Stdin, os.Stdout
		if child.Run() != nil {
			return 1
		}
		return 0
	}
	null, err := unix.Open("/dev/null", unix.O_WRONLY, 0)
	if err != nil {
		return 1
	}
	for range writes - 1 {
		_, _ = unix.Write(null, one[:])
	}
	for range parents {
		_ = unix.Getppid()
	}
	for range seeks {
		_, _ = unix.Seek(null, 0, 0)
	}
	_, _ = os.Stdout.Write(one[:])
	_, _ = os.Stdin.Read(one[:])
	return 0
}

// TestCensusIsExact knows how many writes a process makes.
func TestCensusIsExact(t *testing.T) {
	watch := orSkip(t, startBPFCounter)
	seen := watchWrites(t, watch, watch.readings.ReadNow)
	if found := find(seen, "write"); found.Count != writes || found.NS == nil || *found.NS < writes*50 {
		t.Errorf("the census has %+v, want %d writes of some 100 ns each; all: %+v", found, writes, seen.Syscalls)
	}
}

// parent is a subject whose calls are made by a child, which it starts when its input says so.
const parent = "parent"

// TestAFamilyIsCounted watches two processes as one end. One of them leaves its work to a child that it
// starts while it is watched.
func TestAFamilyIsCounted(t *testing.T) {
	watch := orSkip(t, startBPFCounter)
	if watch.ends.Unfollowed != nil {
		_ = watch.session.Close()
		t.Skip(watch.ends.Unfollowed)
	}
	begin := clock.Now()
	watch.readings.ReadNow()
	for _, kind := range []string{"1", parent} {
		subject := exec.CommandContext(t.Context(), os.Args[0])
		subject.Env = append(os.Environ(), "WIRELAB_SUBJECT="+kind)
		input, err := subject.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := subject.Start(); err != nil {
			t.Fatal(err)
		}
		if err := watch.AddProcess(probe.Server, subject.Process.Pid); err != nil {
			t.Fatal(err)
		}
		_, err = input.Write([]byte("12")) // the second is read by the child
		if err := errors.Join(err, input.Close(), subject.Wait()); err != nil {
			t.Fatal(err)
		}
	}
	watch.readings.ReadNow()
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: clock.Now()}})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]int64{"getppid": 2 * parents, "lseek": 2 * seeks} {
		if found := find(findings.Server, name); found.Count != want {
			t.Errorf("%d calls of %s, want %d; all: %+v", found.Count, name, want, findings.Server.Syscalls)
		}
	}
}

const withTracefs = "WIRELAB_WITH_TRACEFS"

// TestTracepointsAreExact mounts tracefs where only that is missing, in a namespace of mounts.
func TestTracepointsAreExact(t *testing.T) {
	if _, err := startTracepointCounter(); errors.Is(err, os.ErrNotExist) && os.Getenv(withTracefs) == "" {
		again := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTracepointsAreExact$", "-test.v")
		again.Env = append(os.Environ(), withTracefs+"=1")
		again.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
		text, err := again.CombinedOutput()
		if errors.Is(err, os.ErrPermission) {
			t.Skip("tracefs is not mounted, and may not be: ", err)
		}
		t.Logf("with tracefs:\n%s", text)
		if err != nil {
			t.Error(err)
		}
		return
	}
	watch := orSkip(t, startTracepointCounter)
	seen := watchWrites(t, watch, func() { watch.ends[probe.Client][0].ReadNow() })
	if found := find(seen, "write"); found.Count != writes || found.NS != nil {
		t.Errorf("the tracepoints have %+v, want %d writes; all: %+v", found, writes, seen)
	}
}

// TestSumsAreExact reads what the kernel sums up anyway.
func TestSumsAreExact(t *testing.T) {
	watch := orSkip(t, startProcfsCounter)
	seen := watchWrites(t, watch, func() { watch.ends[probe.Client][0].ReadNow() })
	if found := find(seen, ioLabels[1].name); found.Count != writes {
		t.Errorf("procfs has %+v, want %d writes", found, writes)
	}
}

func orSkip[W any](t *testing.T, start func() (W, error)) W {
	t.Helper()
	watch, err := start()
	if errors.Is(err, host.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return watch
}

// watchWrites watches the subject; mark separates what is before the window.
func watchWrites(t *testing.T, watch probe.Watch, mark func()) record.Seen {
	t.Helper()
	subject := exec.CommandContext(t.Context(), os.Args[0])
	subject.Env = append(os.Environ(), "WIRELAB_SUBJECT=1")
	input, err := subject.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := subject.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := subject.Start(); err != nil {
		t.Fatal(err)
	}
	if err := watch.AddProcess(probe.Client, subject.Process.Pid); err != nil {
		t.Fatal(err)
	}
	begin := clock.Now()
	mark()
	if _, err := input.Write([]byte("1")); err != nil {
		t.Fatal(err)
	}
	if _, err := output.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	mark()
	end := clock.Now()
	if err := errors.Join(input.Close(), subject.Wait()); err != nil {
		t.Fatal(err)
	}
	findings, err := watch.Stop(probe.MeasuredWindow{Span: probe.Span{BeginNS: begin, EndNS: end}})
	if err != nil {
		t.Fatal(err)
	}
	if len(findings.Server.Syscalls) > 0 {
		t.Errorf("calls of a server that there is not: %+v", findings.Server.Syscalls)
	}
	if findings.Client.Method != watch.Coverage().Method {
		t.Errorf("it was seen by %q, want %q", findings.Client.Method, watch.Coverage().Method)
	}
	return findings.Client
}

func find(seen record.Seen, name string) record.Syscall {
	for _, call := range seen.Syscalls {
		if call.Name == name {
			return call
		}
	}
	return record.Syscall{}
}
